"""Constrained decoding: what can be sampled, and what its log-probabilities mean."""

import dataclasses
import sys
from pathlib import Path

import pytest
import torch
from rl.shop_model import shop, tokenizer, write_shop_model
from rl.toy import config_of, logprobs_of

from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode, Group, GroupResult, Rollout
from intraskill.method.skill.skill import BARE, Skill
from intraskill.rl import logprobs
from intraskill.rl.engines import constrained
from intraskill.rl.engines.constrained import Constraint, grammar, unpacked
from intraskill.rl.logprobs import sampled_logprobs
from intraskill.rl.policy import LoraSettings, Policy, load_policy
from intraskill.rl.start import policy_directory
from intraskill.rl.trainer import TorchLearner, Updater

pytest.importorskip("llguidance", reason="llguidance is not installed: pip install --no-deps llguidance")

EQUAL = 2e-4
"""Float32 noise of a log-probability after hundreds of tokens; the constraint changes hundreds of times that."""
CHANGED = 0.1
BOUND, FREE = (
    config_of(max_turns=4, max_new_tokens=140, max_context=1600, constrained=bound, micro_batch_tokens=4000)
    for bound in (True, False)
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop_model(tmp_path_factory.mktemp("shop_model"))


@pytest.fixture(scope="module")
def policy(directory: Path) -> Policy:
    return load_policy(directory, lora=LoraSettings(4, 8, "all-linear"))


@pytest.fixture(scope="module")
def constraint(policy: Policy) -> Constraint:
    return Constraint(policy.tokenizer, policy.head.weight.shape[0], policy.tokenizer.eos_token_id)


def episodes(samples: int = 3) -> list[Episode]:
    tasks = shop().tasks("train")[:2]
    return [Episode(t, Skill(""), BARE, i, child_seed(5, t.id, i)) for t in tasks for i in range(samples)]


@pytest.fixture(scope="module")
def rollouts(policy: Policy) -> tuple[Rollout, ...]:
    return TorchLearner(policy, shop(), BOUND).run(episodes())


def test_a_random_policy_makes_only_calls_that_the_page_admits(policy: Policy, rollouts: tuple[Rollout, ...]) -> None:
    turns = [turn for rollout in rollouts for turn in rollout.turns]
    assert len(turns) == 4 * len(rollouts)
    assert {turn.feedback for turn in turns} == {"executed"}
    free = TorchLearner(policy, shop(), FREE).run(episodes(1))
    assert not any(turn.tool for rollout in free for turn in rollout.turns)


@pytest.mark.parametrize("layout", ["dense", "prefix"])
def test_log_probabilities_are_renormalised_over_the_tokens_that_sampling_drew_from(
    policy: Policy, constraint: Constraint, rollouts: tuple[Rollout, ...], layout: logprobs.Layout
) -> None:
    group = rollouts[:3]
    sampled = sampled_logprobs(group, policy.device)
    again = logprobs_of(policy, group, layout=layout, allowed=constraint.allowed(group))
    assert (again.logprobs - sampled).abs().max() < EQUAL
    assert again.entropy.isfinite().all() and (again.entropy >= 0).all()
    plain = logprobs_of(policy, group, layout=layout)
    assert (plain.logprobs - sampled).abs().max() > CHANGED


def test_a_large_vocabulary_is_scored_in_pieces_with_the_same_numbers_and_gradients(
    policy: Policy, constraint: Constraint, rollouts: tuple[Rollout, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    group, allowed = rollouts[:2], constraint.allowed(rollouts[:2])
    moved = list(policy.trainable().values())
    whole = logprobs_of(policy, group, allowed=allowed)
    gradients = torch.autograd.grad(whole.logprobs.sum(), moved)
    monkeypatch.setattr(logprobs, "_LOGITS_AT_ONCE", 10 * policy.head.weight.shape[0])
    pieces = logprobs_of(policy, group, allowed=allowed)
    assert torch.allclose(pieces.logprobs, whole.logprobs, atol=1e-6)
    for one, other in zip(torch.autograd.grad(pieces.logprobs.sum(), moved), gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-4, rtol=1e-4)
    shifted = logprobs_of(policy, group, allowed=allowed.roll(1, 0))
    assert not torch.allclose(shifted.logprobs, whole.logprobs, atol=1e-6)


def test_a_forced_token_has_probability_one(constraint: Constraint, rollouts: tuple[Rollout, ...]) -> None:
    choices = unpacked(constraint.allowed(rollouts), constraint.vocabulary).sum(1)
    values = torch.tensor([p for r in rollouts for p, kept in zip(r.logprobs, r.loss_mask, strict=True) if kept])
    assert (choices == 1).any() and (choices > 1).any()
    assert values[choices == 1].abs().max() == 0
    assert values[choices > 1].abs().max() > CHANGED


def test_an_update_sees_no_gap_between_sampling_and_training(policy: Policy, rollouts: tuple[Rollout, ...]) -> None:
    group = Group("r000/s0000/g00", 0, 0, 0, shop().tasks("train")[0], "skill_free", BARE)
    rewarded = [dataclasses.replace(r, reward=float(i)) for i, r in enumerate(rollouts[:3])]
    learner = TorchLearner(policy, shop(), BOUND)
    metrics = learner.update([GroupResult(group, tuple(rewarded))])
    assert metrics["train/logprob_gap"] < EQUAL
    assert metrics["train/grad_norm"] > 0
    ignorant = Updater(policy, BOUND)
    assert ignorant.update([GroupResult(group, tuple(rewarded))])["train/logprob_gap"] > CHANGED


def test_a_rollout_that_was_sampled_freely_is_refused(constraint: Constraint, rollouts: tuple[Rollout, ...]) -> None:
    first = rollouts[0]
    forged = dataclasses.replace(first, token_ids=(7, *first.token_ids[1:]))
    with pytest.raises(ValueError, match="token 7 was not admitted"):
        constraint.allowed([forged])
    with pytest.raises(ValueError, match="4 actions and 3 turns"):
        constraint.allowed([dataclasses.replace(first, turns=first.turns[:3])])


def test_the_sets_do_not_depend_on_what_was_asked_before(
    policy: Policy, constraint: Constraint, rollouts: tuple[Rollout, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = constraint.allowed(rollouts)
    monkeypatch.setattr(constrained, "_KEPT_BYTES", 0)
    forgetful = Constraint(policy.tokenizer, policy.head.weight.shape[0], policy.tokenizer.eos_token_id)
    assert torch.equal(forgetful.allowed(rollouts), warm)
    assert not torch.equal(warm[1:], warm[:-1])


@pytest.mark.parametrize("action", ["< prev", 'say "hi"', "a\\b", "颜色=红色", "next >", "1.5 (x|y)*"])
def test_the_grammar_spells_every_action_as_a_call_does(constraint: Constraint, action: str) -> None:
    tokens = tokenizer().encode(write_call("click", "value", action), add_special_tokens=False)
    guide = constraint.guide({"actions": ["buy now", action]})
    for token in [*tokens, constraint.stop_id]:
        packed = torch.frombuffer(bytearray(guide.allowed()), dtype=torch.uint8)
        assert unpacked(packed[None], constraint.vocabulary)[0, token]
        guide.advance(token)
    other = constraint.guide({"actions": ["buy now"]})
    with pytest.raises(ValueError, match="constrained decoding failed"):
        for token in tokens:
            other.advance(token)
        other.allowed()


def test_what_cannot_be_constrained_is_one_clear_error(
    directory: Path, policy: Policy, constraint: Constraint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="lists its 'actions'; this one holds 1: turn"):
        grammar({"turn": 1})
    with pytest.raises(ConfigError, match="admits no action"):
        grammar({"actions": [], "search_available": False, "page_type": "terminal"})
    tiny = load_policy(policy_directory("tiny"))
    with pytest.raises(ConfigError, match="byte-level tokenizer"):
        Constraint(tiny.tokenizer, tiny.head.weight.shape[0], tiny.tokenizer.eos_token_id)
    elsewhere = TorchLearner(policy, shop(), FREE).engine
    with pytest.raises(ConfigError, match="rollout.engine=torch only"):
        TorchLearner(policy, shop(), BOUND, engine=elsewhere)
    monkeypatch.setitem(sys.modules, "llguidance.hf", None)
    with pytest.raises(ConfigError, match="pip install --no-deps llguidance"):
        Constraint(policy.tokenizer, policy.head.weight.shape[0], policy.tokenizer.eos_token_id)


def test_a_constrained_run_has_sampling_conditions_of_its_own(policy: Policy) -> None:
    free = TorchLearner(policy, shop(), FREE).conditions
    bound = TorchLearner(policy, shop(), BOUND).conditions
    assert free["sampling"] != bound["sampling"] and free["prompt"] == bound["prompt"]
