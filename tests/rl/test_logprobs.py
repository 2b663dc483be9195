"""Training log-probabilities: the dense and the shared-prefix path, the chunked head, the micro-batches."""

import dataclasses

import pytest
import torch
from rl.toy import CountingWorld, config_of, episode, logprobs_of

from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import BARE
from intraskill.rl import logprobs as logprobs_module
from intraskill.rl.logprobs import sampled_logprobs
from intraskill.rl.micro_batches import micro_batches
from intraskill.rl.policy import Policy
from intraskill.rl.trainer import TorchLearner

LOGPROB_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-5
"""Relative, of the global norm: a parameter whose gradient is 1e-6 shows 1e-3 by itself."""


@pytest.fixture
def rollouts(policy: Policy) -> tuple[Rollout, ...]:
    learner = TorchLearner(policy, CountingWorld(), config_of(max_turns=10, max_new_tokens=40, max_context=1000))
    return learner.run([episode("ddddddd", sample) for sample in range(5)])


def made_up(prompt: int, length: int) -> Rollout:
    ids = tuple(range(20, 20 + length))
    return Rollout("t", BARE, "", 0, tuple(range(5, 5 + prompt)), ids, (1,) * length, (-1.0,) * length, 0.5)


def gradients(policy: Policy, rollouts, **options) -> torch.Tensor:
    """All gradients of a weighted sum of log-probabilities, flat."""
    policy.model.zero_grad()
    scored = logprobs_of(policy, rollouts, **options)
    weights = torch.linspace(0.5, 2, scored.logprobs.numel()).view_as(scored.logprobs)
    (scored.logprobs * weights).sum().backward()
    return torch.cat([p.grad.flatten() for p in policy.trainable().values()])


def test_both_paths_give_what_was_recorded_while_sampling(policy: Policy, rollouts: tuple[Rollout, ...]) -> None:
    assert {sum(r.loss_mask) == len(r.loss_mask) for r in rollouts} >= {False}, "some rollouts must have observations"
    recorded = sampled_logprobs(rollouts, policy.device)
    for layout in ("dense", "prefix"):
        scored = logprobs_of(policy, rollouts, layout=layout)
        torch.testing.assert_close(scored.logprobs.detach(), recorded, atol=LOGPROB_TOLERANCE, rtol=0)
        assert scored.mask.sum().item() == sum(sum(r.loss_mask) for r in rollouts)
    other = logprobs_of(policy, rollouts, temperature=0.9).logprobs
    assert (other - recorded).abs().max() > 100 * LOGPROB_TOLERANCE


@pytest.mark.parametrize("lengths", [(1, 1), (1, 7, 30), (12,)])
def test_a_shared_prefix_changes_neither_logprobs_nor_gradients(policy: Policy, lengths: tuple[int, ...]) -> None:
    group = [made_up(60, length) for length in lengths]
    dense, shared = logprobs_of(policy, group), logprobs_of(policy, group, layout="prefix")
    torch.testing.assert_close(shared.logprobs, dense.logprobs, atol=LOGPROB_TOLERANCE, rtol=0)
    torch.testing.assert_close(shared.entropy, dense.entropy, atol=LOGPROB_TOLERANCE, rtol=1e-5)
    expected = gradients(policy, group)
    difference = (gradients(policy, group, layout="prefix") - expected).norm() / expected.norm()
    assert difference <= GRADIENT_TOLERANCE
    other = [made_up(61, length) for length in lengths]
    assert (gradients(policy, other) - expected).norm() / expected.norm() > 100 * GRADIENT_TOLERANCE


class AdaptedHead(torch.nn.Module):
    """A head that is no plain linear layer, as one with an adapter is."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    @property
    def weight(self) -> torch.Tensor:
        return self.linear.weight

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.linear(hidden)


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_head_without_whole_logits_changes_neither_logprobs_nor_gradients(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, adapted: bool, temperature: float
) -> None:
    group = [made_up(10, 9), made_up(30, 25)]
    whole = logprobs_of(policy, group, temperature=temperature)
    expected = gradients(policy, group, temperature=temperature)
    monkeypatch.setattr(logprobs_module, "_LOGITS_AT_ONCE", 512 * 4)
    monkeypatch.setattr(logprobs_module, "_TILE_CPU", 256 * 4)
    if adapted:
        monkeypatch.setattr(policy, "head", AdaptedHead(policy.head))
    pieces = logprobs_of(policy, group, temperature=temperature)
    torch.testing.assert_close(pieces.logprobs, whole.logprobs, atol=LOGPROB_TOLERANCE, rtol=0)
    torch.testing.assert_close(pieces.entropy, whole.entropy, atol=LOGPROB_TOLERANCE, rtol=1e-5)
    found = gradients(policy, group, temperature=temperature)
    assert (found - expected).norm() / expected.norm() <= GRADIENT_TOLERANCE
    other = gradients(policy, group, temperature=0.9)
    assert (other - expected).norm() / expected.norm() > 100 * GRADIENT_TOLERANCE


def test_large_logits_never_reach_the_plain_head(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logprobs_module, "_LOGITS_AT_ONCE", 512 * 4)
    monkeypatch.setattr(policy.head, "forward", lambda hidden: pytest.fail(f"logits of {tuple(hidden.shape)}"))
    assert torch.isfinite(logprobs_of(policy, [made_up(10, 9)]).logprobs).all()


def test_the_entropy_is_that_of_the_sampling_distribution(policy: Policy) -> None:
    rollout = made_up(10, 3)
    with torch.no_grad():
        logits = policy.causal(torch.tensor([[*rollout.prompt_ids, *rollout.token_ids]])).logits[0, 9:12]
    expected = torch.distributions.Categorical(logits=logits / 0.5).entropy()
    torch.testing.assert_close(logprobs_of(policy, [rollout], temperature=0.5).entropy[0], expected)
    assert not torch.allclose(logprobs_of(policy, [rollout]).entropy[0], expected)


def test_micro_batches_hold_each_rollout_once_within_the_budget() -> None:
    some = [made_up(20 if i < 4 else 30, 1 + (7 * i) % 11) for i in range(9)]
    for layout in ("dense", "prefix"):
        batches = micro_batches(some, 70, layout=layout)
        assert sorted(i for batch in batches for i in batch) == list(range(9))
        for batch in batches:
            sizes = [len(some[i].token_ids) for i in batch]
            prompts = [len(some[i].prompt_ids) for i in batch]
            padded = prompts[0] + len(batch) * max(sizes)
            if layout == "dense":
                padded = len(batch) * max(p + s for p, s in zip(prompts, sizes, strict=True))
            assert padded <= 70 or len(batch) == 1
            assert len(set(prompts)) == 1 or layout != "prefix"
    assert len(micro_batches(some, 70, layout="prefix")) < len(micro_batches(some, 70, layout="dense"))
    assert len(micro_batches(some, 1, layout="prefix")) == len(micro_batches(some, 1, layout="dense")) == 9


def test_different_prompts_and_silent_rollouts_are_refused(policy: Policy) -> None:
    with pytest.raises(ValueError, match="2 different prompts"):
        logprobs_of(policy, [made_up(10, 2), made_up(11, 2)], layout="prefix")
    silent = dataclasses.replace(made_up(10, 2), loss_mask=(0, 0))
    with pytest.raises(ValueError, match="without a sampled token, 1: t"):
        logprobs_of(policy, [made_up(10, 2), silent])
