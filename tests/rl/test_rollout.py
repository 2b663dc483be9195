"""Episodes: token-exact, append-only, and a bad one is data."""

import dataclasses

import numpy as np
import pytest
import torch
from rl.toy import SKILL, TOOLS, CountingSession, CountingWorld, episode

from intraskill.config.learning import RolloutConfig
from intraskill.environments.protocol import boundary
from intraskill.method.skill.skill import BARE
from intraskill.rl.chat import ChatCodec
from intraskill.rl.engines.torch_engine import TorchEngine
from intraskill.rl.policy import Policy
from intraskill.rl.rollout import in_batches, run_episodes

LIMITS = RolloutConfig(temperature=1.0, max_turns=6, max_new_tokens=40, max_context=1000)
TASKS = ("aaa", "bbbb", "ccccc", "dddddd")


@pytest.fixture
def codec(policy: Policy) -> ChatCodec:
    return ChatCodec(policy.tokenizer, TOOLS, system="You are a shopping agent.")


def run(policy: Policy, codec: ChatCodec, episodes, limits: RolloutConfig = LIMITS, world: CountingWorld | None = None):
    engine = TorchEngine(
        policy, stop_id=codec.stop_id, temperature=limits.temperature, max_new_tokens=limits.max_new_tokens
    )
    return run_episodes(episodes, world or CountingWorld(), engine, codec, limits, "c0")


def test_tokens_are_the_prompt_then_actions_and_observations_in_turn(policy: Policy, codec: ChatCodec) -> None:
    rollouts = run(policy, codec, [episode(t, s, frozenset(SKILL.ids)) for t in TASKS for s in range(3)])
    finished = [r for r in rollouts if not r.truncated]
    assert len(finished) >= 6 and max(len(r.turns) for r in finished) >= 2
    for rollout in finished:
        actions, current = [], []
        for token, sampled in zip(rollout.token_ids, rollout.loss_mask, strict=True):
            current += [token] * sampled
            if sampled and token == codec.stop_id:
                actions.append(tuple(current))
                current = []
        assert [codec.decode(a) for a in actions] == [turn.action for turn in rollout.turns]
        assert not current
        session = CountingWorld().open()
        opening = session.reset(rollout.task_id)
        rebuilt: list[int] = []
        for index, action in enumerate(actions):
            rebuilt += action
            answer = session.step(codec.decode(action))
            rebuilt += codec.observation(answer.observation) if index + 1 < len(actions) else ()
        assert tuple(rebuilt) == rollout.token_ids
        assert rollout.prompt_ids == codec.prompt(SKILL.render(), f"{opening.request}\n\n{opening.observation}")
        assert rollout.reward == answer.reward and dict(rollout.parts) == dict(answer.parts)
        assert rollout.request == opening.request and rollout.checkpoint == "c0"
        assert [turn.state["turn"] for turn in rollout.turns] == list(range(len(actions)))
        assert all(p == 0.0 for p, m in zip(rollout.logprobs, rollout.loss_mask, strict=True) if not m)


def test_batch_size_and_order_change_no_token(policy: Policy, codec: ChatCodec) -> None:
    episodes = [episode(t, s) for t in TASKS for s in range(2)]
    at_once = run(policy, codec, episodes)
    small = in_batches(lambda some: run(policy, codec, some), episodes[::-1], 3, 1)[::-1]
    assert [r.token_ids for r in at_once] == [r.token_ids for r in small]
    assert [(r.task_id, r.sample) for r in at_once] == [(e.task.id, e.sample) for e in episodes]
    assert at_once[0].token_ids != at_once[1].token_ids


def test_what_an_environment_raises_is_a_fault_and_never_a_reward(policy: Policy, codec: ChatCodec) -> None:
    rollouts = run(
        policy, codec, [episode("broken-reset"), *(episode("broken-step", s) for s in range(6)), episode("aaa")]
    )
    assert rollouts[0].fault == "environment: EnvironmentFault: the catalogue is gone"
    assert rollouts[0].reward is None and rollouts[0].token_ids == ()
    broken = [r for r in rollouts[1:7] if not r.truncated]
    assert broken and all(r.fault == "environment: KeyError: 'slot 3'" and r.reward is None for r in broken)
    assert rollouts[7].fault is None and rollouts[7].reward is not None


def test_a_boundary_keeps_interrupts_and_passes_success() -> None:
    with boundary("environment") as crossing:
        pass
    assert crossing.fault is None
    with pytest.raises(KeyboardInterrupt), boundary("environment"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("limits", "reason", "turns"),
    [
        (RolloutConfig(max_turns=1, max_new_tokens=200, max_context=2048), "action_limit", 1),
        (RolloutConfig(max_turns=9, max_new_tokens=1, max_context=2048), "generation_length", 1),
        (RolloutConfig(max_turns=9, max_new_tokens=150, max_context=300), "context", None),
    ],
)
def test_each_limit_ends_the_episode_with_zero_reward(
    policy: Policy, codec: ChatCodec, limits: RolloutConfig, reason: str, turns: int | None
) -> None:
    rollouts = run(policy, codec, [episode("ddddddd", s) for s in range(4)], limits)
    cut = [r for r in rollouts if r.truncated]
    assert cut and all(r.reward == 0.0 and r.fault is None for r in cut)
    if turns is not None:
        assert all(len(r.turns) == turns for r in cut)
    if reason == "generation_length":
        assert all(r.turns[-1].feedback == reason and codec.stop_id not in r.token_ids for r in cut)
    assert all(len(r.prompt_ids) + len(r.token_ids) <= limits.max_context for r in rollouts)


class _LongPages(CountingWorld):
    """Its pages after the first action take thousands of tokens."""

    def open(self):
        session = super().open()
        plain = session.page
        session.page = lambda: plain() + (", tomato" * 3000 if session.said else "")
        return session


def test_what_no_context_could_hold_is_set_aside_before_it_is_read(policy: Policy, codec: ChatCodec) -> None:
    read: list[int] = []
    engine = TorchEngine(policy, stop_id=codec.stop_id, temperature=1.0, max_new_tokens=40)
    whole = engine.open

    def open_(prompts):
        conversations = whole(prompts)
        generate = conversations.generate

        def counting(appended, seeds):
            read.extend(len(ids) for ids in appended.values())
            return generate(appended, seeds)

        conversations.generate = counting
        return conversations

    engine.open = open_
    limits = dataclasses.replace(LIMITS, max_context=600)
    rollouts = run_episodes([episode("ddddddd", s) for s in range(4)], _LongPages(), engine, codec, limits, "c0")
    set_aside = [r for r in rollouts if r.fault]
    assert set_aside and all(r.reward is None and not r.truncated for r in set_aside)
    assert all("does not fit: the prompt takes" in r.fault and "the next page" in r.fault for r in set_aside)
    assert "rollout.max_context=600; raise it" in set_aside[0].fault and max(read) < 600
    short = dataclasses.replace(LIMITS, max_context=50)
    prompts = run(policy, codec, [episode("aaa", s) for s in range(2)], short)
    assert all(r.fault and r.fault.startswith("does not fit: the prompt takes") and not r.token_ids for r in prompts)


def test_the_bare_context_differs_from_the_assisted_one_only_by_the_skill(policy: Policy, codec: ChatCodec) -> None:
    bare, assisted = run(policy, codec, [episode("aaa", 0, BARE), episode("aaa", 0, frozenset(SKILL.ids[:1]))])
    shown = policy.tokenizer.decode(assisted.prompt_ids)
    assert shown.replace("\n\n" + SKILL.render(frozenset(SKILL.ids[:1])), "") == policy.tokenizer.decode(
        bare.prompt_ids
    )


def test_no_episodes_give_no_rollouts(policy: Policy, codec: ChatCodec) -> None:
    assert run(policy, codec, []) == ()
    assert run(policy, codec, [episode("broken-reset")])[0].fault


class _Odd(CountingWorld):
    """Answers actions with what a test wants."""

    def __init__(self, **odd: object) -> None:
        super().__init__()
        self.odd = odd

    def open(self) -> CountingSession:
        session, odd = super().open(), self.odd
        step = session.step

        def answered(action: str) -> object:
            outcome = step(action)
            return odd["whole"] if "whole" in odd else dataclasses.replace(outcome, **odd)

        session.step = answered  # type: ignore[method-assign, assignment]
        return session


@pytest.mark.parametrize(
    ("odd", "sentence"),
    [
        ({"reward": float("nan")}, "ValueError: reward is nan, not a finite number"),
        ({"reward": float("inf")}, "ValueError: reward is inf"),
        ({"reward": None}, "TypeError: reward is a NoneType, not a number"),
        ({"reward": "1.0"}, "TypeError: reward is a str, not a number"),
        ({"reward": True}, "TypeError: reward is a bool, not a number"),
        ({"reward": torch.tensor(1.0)}, "TypeError: reward is a Tensor, not a number"),
        ({"parts": {"r_vowels": float("-inf")}}, "ValueError: parts['r_vowels'] is -inf"),
        ({"observation": None}, "TypeError: observation is a NoneType, not a text"),
        ({"observation": b"page"}, "TypeError: observation is a bytes, not a text"),
        ({"whole": None}, "TypeError: step returned a NoneType, not an Outcome"),
    ],
)
def test_what_no_reward_or_page_can_be_is_a_fault_of_its_episode(
    policy: Policy, codec: ChatCodec, odd: dict, sentence: str
) -> None:
    (rollout,) = run(policy, codec, [episode("bbbb", 1)], world=_Odd(**odd))
    assert rollout.reward is None and sentence in str(rollout.fault)


def test_numbers_of_numpy_are_numbers_and_half_a_surrogate_pair_becomes_a_question_mark(
    policy: Policy, codec: ChatCodec
) -> None:
    (plain,) = run(policy, codec, [episode("bbbb", 1)])
    (odd,) = run(policy, codec, [episode("bbbb", 1)], world=_Odd(observation="half \ud800 a pair"))
    assert odd.fault is None and odd.reward is not None
    (scalar,) = run(
        policy, codec, [episode("bbbb", 1)], world=_Odd(reward=np.float32(0.5), parts={"r_vowels": np.int64(1)})
    )
    assert plain.fault is None and type(scalar.reward) is float and type(scalar.parts["r_vowels"]) is float
