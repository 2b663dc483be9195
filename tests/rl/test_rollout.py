"""Episodes: token-exact, append-only, and a bad one is data."""

import pytest
from rl.toy import SKILL, TOOLS, CountingWorld, episode

from intraskill.environments.protocol import boundary
from intraskill.method.skill.skill import BARE
from intraskill.rl.chat import ChatCodec
from intraskill.rl.engines.torch_engine import TorchEngine
from intraskill.rl.policy import Policy
from intraskill.rl.rollout import RolloutLimits, run_episodes

LIMITS = RolloutLimits(max_turns=6, max_new_tokens=40, max_context=1000, rollout_batch=64)
TASKS = ("aaa", "bbbb", "ccccc", "dddddd")


@pytest.fixture
def codec(policy: Policy) -> ChatCodec:
    return ChatCodec(policy.tokenizer, TOOLS, system="You are a shopping agent.")


def run(policy: Policy, codec: ChatCodec, episodes, limits: RolloutLimits = LIMITS):
    engine = TorchEngine(policy, stop_id=codec.stop_id, max_new_tokens=limits.max_new_tokens)
    return run_episodes(episodes, CountingWorld(), engine, codec, limits, "c0")


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
    small = run(policy, codec, episodes[::-1], RolloutLimits(6, 40, 1000, rollout_batch=3))[::-1]
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
        (RolloutLimits(max_turns=1, max_new_tokens=200), "action_limit", 1),
        (RolloutLimits(max_turns=9, max_new_tokens=1), "generation_length", 1),
        (RolloutLimits(max_turns=9, max_new_tokens=150, max_context=300), "context", None),
        (RolloutLimits(max_turns=9, max_new_tokens=40, max_context=50), "prompt", 0),
    ],
)
def test_each_limit_ends_the_episode_with_zero_reward(
    policy: Policy, codec: ChatCodec, limits: RolloutLimits, reason: str, turns: int | None
) -> None:
    rollouts = run(policy, codec, [episode("ddddddd", s) for s in range(4)], limits)
    cut = [r for r in rollouts if r.truncated]
    assert cut and all(r.reward == 0.0 and r.fault is None for r in cut)
    if turns is not None:
        assert all(len(r.turns) == turns for r in cut)
    if reason == "generation_length":
        assert all(r.turns[-1].feedback == reason and codec.stop_id not in r.token_ids for r in cut)
    assert all(len(r.prompt_ids) + len(r.token_ids) <= limits.max_context or reason == "prompt" for r in rollouts)


def test_the_bare_context_differs_from_the_assisted_one_only_by_the_skill(policy: Policy, codec: ChatCodec) -> None:
    bare, assisted = run(policy, codec, [episode("aaa", 0, BARE), episode("aaa", 0, frozenset(SKILL.ids[:1]))])
    shown = policy.tokenizer.decode(assisted.prompt_ids)
    assert shown.replace("\n\n" + SKILL.render(frozenset(SKILL.ids[:1])), "") == policy.tokenizer.decode(
        bare.prompt_ids
    )


def test_no_episodes_give_no_rollouts(policy: Policy, codec: ChatCodec) -> None:
    assert run(policy, codec, []) == ()
    assert run(policy, codec, [episode("broken-reset")])[0].fault
