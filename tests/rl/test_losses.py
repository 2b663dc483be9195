"""Advantages and losses against their formulas."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from intraskill.config.config import Config, check
from intraskill.config.learning import LOSSES, GrpoConfig
from intraskill.method.errors import ConfigError
from intraskill.rl.losses import (
    BatchTotals,
    clipped_tokens,
    group_advantages,
    mismatch_weights,
    reduce_losses,
    token_losses,
)

REWARDS = st.lists(st.floats(0, 1).map(lambda x: round(x, 3)), min_size=1, max_size=8)


@given(REWARDS)
def test_advantages_of_a_group_add_up_to_zero(rewards: list[float]) -> None:
    for loss in LOSSES:
        assert sum(group_advantages(rewards, loss)) == pytest.approx(0, abs=1e-9)


@given(REWARDS, st.floats(-5, 5))
def test_a_shift_of_all_rewards_of_a_context_changes_no_credit(rewards: list[float], shift: float) -> None:
    shifted = [reward + shift for reward in rewards]
    if min(rewards) < max(rewards):
        assert group_advantages(shifted, "dr_grpo") == pytest.approx(group_advantages(rewards, "dr_grpo"), abs=1e-9)


def test_advantages_have_unit_sample_deviation_except_for_dr_grpo() -> None:
    assert group_advantages([0.0, 1.0], "grpo") == pytest.approx((-math.sqrt(0.5), math.sqrt(0.5)), abs=2e-4)
    assert group_advantages([0.0, 1.0], "dr_grpo") == (-0.5, 0.5)


@pytest.mark.parametrize("rewards", [[], [0.7], [0.3] * 8, [1 / 3 + 1e-17] * 3])
def test_a_group_without_variance_teaches_nothing(rewards: list[float]) -> None:
    assert group_advantages(rewards, "grpo") == (0.0,) * len(rewards)


def test_on_policy_the_gradient_is_the_policy_gradient() -> None:
    logprobs = torch.tensor([[-1.0, -2.0], [-0.5, -3.0]], requires_grad=True)
    advantages = torch.tensor([2.0, -1.0])
    for loss in LOSSES:
        losses = token_losses(GrpoConfig(loss=loss, clip_high=1.5), logprobs, logprobs.detach(), advantages)
        (gradient,) = torch.autograd.grad(losses.sum(), logprobs)
        torch.testing.assert_close(gradient, -advantages[:, None].expand(2, 2))


def test_clipping_stops_the_gradient_on_the_side_that_would_go_further() -> None:
    logprobs = torch.tensor([[0.5, -0.5], [0.5, -0.5]], requires_grad=True)
    advantages, old = torch.tensor([1.0, -1.0]), torch.zeros(2, 2)
    grpo = GrpoConfig(loss="grpo", clip_low=0.2, clip_high=0.2)
    (gradient,) = torch.autograd.grad(token_losses(grpo, logprobs, old, advantages).sum(), logprobs)
    assert (gradient == 0).tolist() == [[True, False], [False, True]]
    assert clipped_tokens(grpo, logprobs, old, advantages).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_cispo_keeps_the_gradient_and_caps_its_weight() -> None:
    logprobs = torch.tensor([[3.0]], requires_grad=True)
    grpo = GrpoConfig(loss="cispo", clip_high=5.0)
    losses = token_losses(grpo, logprobs, torch.zeros(1, 1), torch.tensor([1.0]))
    (gradient,) = torch.autograd.grad(losses.sum(), logprobs)
    assert gradient.item() == -5.0
    assert clipped_tokens(grpo, logprobs, torch.zeros(1, 1), torch.tensor([1.0])).item() == 1.0


def test_shares_of_micro_batches_add_up_to_the_loss_of_the_batch() -> None:
    losses, mask = torch.randn(6, 5), (torch.arange(5) < torch.tensor([1, 2, 3, 4, 5, 5])[:, None]).float()
    totals = BatchTotals(6, int(mask.sum()), longest=7)
    for loss in LOSSES:
        grpo = GrpoConfig(loss=loss)
        parts = [reduce_losses(grpo, losses[i : i + 2], mask[i : i + 2], totals) for i in (0, 2, 4)]
        torch.testing.assert_close(sum(parts), reduce_losses(grpo, losses, mask, totals))
        torch.testing.assert_close(
            reduce_losses(grpo, losses + 9 * (1 - mask), mask, totals),
            reduce_losses(grpo, losses, mask, totals),
        )
    long, short = (
        reduce_losses(GrpoConfig(loss="grpo"), torch.ones(1, 5), m, BatchTotals(1, 5, 7)) for m in (mask[5:], mask[:1])
    )
    assert long.item() == short.item() == 1.0, "grpo weighs a long rollout like a short one"
    tokens = reduce_losses(GrpoConfig(loss="dapo"), torch.ones(1, 5), mask[:1], BatchTotals(1, 5, 7))
    assert tokens.item() == pytest.approx(0.2)
    constant = reduce_losses(GrpoConfig(loss="dr_grpo"), torch.ones(1, 5), mask[:1], BatchTotals(1, 5, 7))
    assert constant.item() == pytest.approx(1 / 7)


def test_the_kl_penalty_is_zero_on_the_reference_and_positive_off_it() -> None:
    zeros, advantages = torch.zeros(1, 2), torch.zeros(1)
    grpo = GrpoConfig(kl_beta=0.5)
    at = token_losses(grpo, zeros, zeros, advantages, reference_BS=zeros)
    off = token_losses(grpo, zeros, zeros, advantages, reference_BS=torch.tensor([[0.3, -0.3]]))
    assert at.abs().max() == 0 and off.min() > 0
    assert off[0, 0].item() == pytest.approx(0.5 * (math.exp(0.3) - 1.3), rel=1e-5)
    with pytest.raises(ValueError, match="reference"):
        token_losses(grpo, zeros, zeros, advantages)


def test_mismatch_weights_are_truncated_from_above_only() -> None:
    weights = mismatch_weights(torch.tensor([[0.0, 2.0, -2.0]]), torch.zeros(1, 3), 3.0)
    assert weights[0].tolist() == pytest.approx([1.0, 3.0, math.exp(-2)])


@pytest.mark.parametrize("wrong", [{"loss": "ppo"}, {"clip_low": 1.0}, {"clip_high": 0.0}, {"kl_beta": -1}])
def test_an_objective_out_of_range_is_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError):
        check(Config(grpo=GrpoConfig(**wrong)))
