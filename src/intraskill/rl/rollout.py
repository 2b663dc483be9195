"""Turn-synchronous episodes, token-exact: all rows act, then all environments answer.

A bad rollout is data, not a crash: what an environment raises becomes `Rollout.fault`. What the policy does wrong
(an endless action, too many actions, a full context) ends the episode through the environment, with zero reward.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from intraskill.config.learning import RolloutConfig
from intraskill.environments.protocol import (
    Environment,
    Opening,
    Outcome,
    Session,
    boundary,
    payment_of,
    sound_opening,
    sound_outcome,
)
from intraskill.method.randomness import child_seed
from intraskill.method.rewards import Payment
from intraskill.method.rollouts import Episode, Rollout, Turn
from intraskill.rl.chat import ChatCodec
from intraskill.rl.engines.constrained import Constraint, Guide
from intraskill.rl.policy import Conversations, Engine, Generation

DOES_NOT_FIT = "does not fit"
"""How the fault of an episode begins for which the context is too short, whatever the policy does."""


class _Guidable(Conversations, Protocol):
    """Conversations whose next actions can be restricted."""

    def restrict(self, guides: Mapping[int, Guide]) -> None: ...


@dataclass(slots=True)
class _Live:
    """One episode under way; ``appended`` is what the environment added since the last action."""

    episode: Episode
    payment: Payment | None = None
    session: Session | None = None
    request: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    prompt_ids: tuple[int, ...] = ()
    token_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    appended: tuple[int, ...] = ()
    turns: list[Turn] = field(default_factory=list)
    outcome: Outcome | None = None
    fault: str | None = None
    truncated: bool = False

    @property
    def over(self) -> bool:
        """The episode ended or broke."""
        return self.fault is not None or (self.outcome is not None and self.outcome.done)

    def call(self, act: Callable[[Session], Outcome]) -> Outcome | None:
        """Let the environment answer; ``None`` when it broke."""
        assert self.session is not None and self.payment is not None
        answer: Outcome | None = None
        with boundary("environment") as crossing:
            answer = sound_outcome(act(self.session), self.payment)
        self.fault = crossing.fault
        if answer is not None:
            self.outcome = answer
        return answer

    def stop(self, reason: str) -> Outcome | None:
        """End the episode by a limit."""
        self.truncated = True
        return self.call(lambda session: session.terminate(reason))


def in_batches(
    run: Callable[[Sequence[Episode]], Sequence[Rollout]], episodes: Sequence[Episode], size: int, workers: int
) -> tuple[Rollout, ...]:
    """Cut episodes into batches of ``size`` and run ``workers`` of them at once, each in a thread; keep the order."""
    batches = [episodes[first : first + size] for first in range(0, len(episodes), size)]
    with ThreadPoolExecutor(workers) as pool:
        return tuple(rollout for batch in pool.map(run, batches) for rollout in batch)


def run_episodes(
    episodes: Sequence[Episode],
    env: Environment,
    engine: Engine,
    codec: ChatCodec,
    limits: RolloutConfig,
    checkpoint: str,
    constraint: Constraint | None = None,
) -> tuple[Rollout, ...]:
    """Run a batch of episodes and return their rollouts, in order.

    The token ids of a rollout are only appended to: the policy's tokens as sampled, and each observation's suffix.

    Args:
        episodes: what to run; equal prompts (a group) share their prefill.
        env: opens one session per episode.
        engine: samples the actions.
        codec: text to token ids.
        limits: ``max_turns``, ``max_new_tokens`` and ``max_context`` of each episode.
        checkpoint: hash of the weights that the engine serves.
        constraint: restricts every action to what its page admits; the engine must be able to.
    """
    lives = [_Live(episode) for episode in episodes]
    prompts: dict[tuple[str, str], tuple[int, ...]] = {}
    for live in lives:
        _open(live, env, codec, prompts)
    _play([live for live in lives if not live.over], engine, codec, limits, constraint)
    return tuple(_rollout(live, checkpoint) for live in lives)


def _open(live: _Live, env: Environment, codec: ChatCodec, known: dict[tuple[str, str], tuple[int, ...]]) -> None:
    opening: Opening | None = None
    with boundary("environment") as crossing:
        live.payment = payment_of(env)
        live.session = env.open()
        opening = sound_opening(live.session.reset(live.episode.task.id))
    live.fault = crossing.fault
    if opening is None:
        return
    live.request, live.state = opening.request, opening.state
    skill_text = live.episode.skill.render(live.episode.visible)
    text = (skill_text, f"{opening.request}\n\n{opening.observation}")
    if text not in known:
        known[text] = codec.prompt(*text)
    live.prompt_ids = known[text]


def _play(
    lives: Sequence[_Live], engine: Engine, codec: ChatCodec, limits: RolloutConfig, constraint: Constraint | None
) -> None:
    """Let all rows act, then all environments answer, until every episode is over."""
    conversations = engine.open([live.prompt_ids for live in lives])
    rows = dict(enumerate(lives))
    turn = 0
    while True:
        for live in rows.values():
            if live.over:
                continue
            fresh = len(live.prompt_ids) + len(live.appended) + limits.max_new_tokens
            if fresh > limits.max_context:
                live.fault = _does_not_fit(live, limits)
            elif fresh + len(live.token_ids) > limits.max_context:
                live.stop("generation_length")
        rows = {row: live for row, live in rows.items() if not live.over}
        if not rows:
            return
        for live in rows.values():
            live.token_ids += live.appended
            live.loss_mask += [0] * len(live.appended)
            live.logprobs += [0.0] * len(live.appended)
        if constraint is not None:
            cast(_Guidable, conversations).restrict({row: constraint.guide(live.state) for row, live in rows.items()})
        generated = conversations.generate(
            {row: live.appended for row, live in rows.items()},
            {row: child_seed(live.episode.seed, "turn", turn) for row, live in rows.items()},
        )
        turn += 1
        for row, live in rows.items():
            _act(live, generated[row], codec, last=turn >= limits.max_turns)


def _does_not_fit(live: _Live, limits: RolloutConfig) -> str:
    """Return the fault of an episode whose prompt, or whose next page right after it, leaves no room for an action.

    Nothing that the policy did could have made room, so it is no failure of the policy; and it is known before the page
    is read, which at 32,000 tokens takes a minute on a CPU.
    """
    page = f", the next page {len(live.appended):,}" if live.appended else ""
    return (
        f"{DOES_NOT_FIT}: the prompt takes {len(live.prompt_ids):,} tokens{page} and an action "
        f"{limits.max_new_tokens:,} (rollout.max_new_tokens), rollout.max_context={limits.max_context:,}; raise it, or "
        "shorten pages or skill"
    )


def _act(live: _Live, generation: Generation, codec: ChatCodec, *, last: bool) -> None:
    """Record one action, let the environment answer, and queue its observation."""
    live.token_ids += generation.token_ids
    live.loss_mask += [1] * len(generation.token_ids)
    live.logprobs += generation.logprobs
    action = codec.decode(generation.token_ids)
    before = live.state
    answer = (
        live.call(lambda session: session.step(codec.action_of(action)))
        if generation.stopped
        else live.stop("generation_length")
    )
    if answer is None:
        return
    page = str(before.get("page_type", ""))
    live.turns.append(Turn(page, action, answer.tool, answer.argument, answer.feedback, before))
    live.state = answer.state
    if answer.done:
        live.truncated = live.truncated or answer.termination in ("action_limit", "generation_length")
    elif last:
        live.stop("action_limit")
    else:
        live.appended = codec.observation(answer.observation)


def _rollout(live: _Live, checkpoint: str) -> Rollout:
    scored = live.outcome if live.fault is None else None
    return Rollout(
        task_id=live.episode.task.id,
        visible=live.episode.visible,
        checkpoint=checkpoint,
        sample=live.episode.sample,
        prompt_ids=live.prompt_ids,
        token_ids=tuple(live.token_ids),
        loss_mask=tuple(live.loss_mask),
        logprobs=tuple(live.logprobs),
        reward=None if scored is None else scored.reward,
        parts={} if scored is None else dict(scored.parts),
        fault=live.fault,
        truncated=live.truncated,
        request=live.request,
        turns=tuple(live.turns),
    )
