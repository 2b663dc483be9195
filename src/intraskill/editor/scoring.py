"""From answers to rewards: apply each edit, try it on the anchors, compare with the control (the rollback reward)."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, cast, get_args

from intraskill.editor.actions import Attempt
from intraskill.editor.domain import Job, Query
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.states import EditState
from intraskill.editor.trials import Trials
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import Skill

RewardKind = Literal["binary", "margin", "plain"]
REWARD_KINDS: tuple[RewardKind, ...] = get_args(RewardKind)
INVALID_MARGIN = -1.0
"""Reward of an invalid action under ``margin``: no valid edit can score less."""

AnchorScores = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate of a group.

    Attributes:
        noop: it leaves the skill as it is.
        scores: (K,) verifier scores in [0, 1] of the worker with the edited skill, ``None`` for a fault; for a NOOP
            those of the control; empty for an action that does not parse or apply.
    """

    noop: bool
    scores: tuple[float | None, ...]

    @property
    def valid(self) -> bool:
        """It parsed and applied."""
        return bool(self.scores)


def rollback_rewards(
    control: AnchorScores, candidates: Sequence[Candidate], kind: RewardKind = "binary"
) -> tuple[float | None, ...]:
    """Return the reward of every candidate, (G,); ``None`` where a fault leaves nothing to compare.

    A technical failure is never reward 0: an anchor whose control or edit score is missing drops out of that
    candidate's comparison, and a candidate without any anchor left has no reward. When the control faulted on every
    anchor no valid candidate has one. An invalid action needs no worker and is scored all the same.

    Args:
        control: (K,) scores without the edit.
        candidates: (G,) the group.
        kind: ``binary``, ``margin`` or ``plain``.

    Raises:
        ConfigError: for an unknown kind, or scores whose number is not that of the anchors.
    """
    if kind not in REWARD_KINDS:
        raise ConfigError(f"unknown rollback reward {kind!r}; use one of {', '.join(REWARD_KINDS)}")
    if wrong := [
        i for i, candidate in enumerate(candidates) if candidate.valid and len(candidate.scores) != len(control)
    ]:
        raise ConfigError(f"candidates {wrong[:3]} carry another number of scores than the {len(control)} anchors")
    if kind == "plain":
        return tuple(_plain(control if c.noop else c.scores) if c.valid else 0.0 for c in candidates)
    margins = [_margin(control, candidate) for candidate in candidates]
    beaten = any(margin is not None and margin > 0 for margin in margins)
    known = any(score is not None for score in control)
    rewards: list[float | None] = []
    for candidate, margin in zip(candidates, margins, strict=True):
        if not candidate.valid:
            rewards.append(0.0 if kind == "binary" else INVALID_MARGIN)
        elif candidate.noop:
            rewards.append(None if not known else 0.0 if kind == "margin" else float(not beaten))
        elif margin is None:
            rewards.append(None)
        else:
            rewards.append(margin if kind == "margin" else float(margin > 0))
    return tuple(rewards)


def _margin(control: AnchorScores, candidate: Candidate) -> float | None:
    """Mean of edit − control over the anchors that both have; ``None`` for a NOOP, an invalid action, or no anchor."""
    if candidate.noop or not candidate.valid:
        return None
    differences = [
        after - before
        for before, after in zip(control, candidate.scores, strict=True)
        if before is not None and after is not None
    ]
    return fmean(differences) if differences else None


def _plain(scores: AnchorScores) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None


Scores = tuple[float | None, ...]
UNANCHORED = "the evidence names no query to try an edit on"
"""Why an answer to such evidence has no reward; nothing broke, so it is counted apart from faults."""


@dataclass(frozen=True, slots=True)
class ScoredState:
    """One state with its answers.

    Attributes:
        state: the edit state.
        rollouts: (G,) the answers, each with its rollback reward, or with a fault where nothing could be compared;
            `UNANCHORED` stands in its place where there was nothing to try an edit on.
        attempts: (G,) what each answer makes of the skill.
        control: (K,) scores of the unedited skill.
        edited: (G,) of (K,) scores; empty for an invalid answer.
    """

    state: EditState
    rollouts: tuple[Rollout, ...]
    attempts: tuple[Attempt, ...]
    control: Scores
    edited: tuple[Scores, ...]

    @property
    def faults(self) -> list[str]:
        """What broke, one reason per answer that it cost."""
        return [one.fault for one in self.rollouts if one.fault not in (None, UNANCHORED)]


def jobs_of(queries: Sequence[Query], skill: Skill, seed: int, *, repeats: int = 1) -> list[Job]:
    """Return the jobs of a skill on some queries; the seed of a job does not depend on the skill."""
    return [
        Job(query, skill, child_seed(seed, "trial", query.id, number)) for query in queries for number in range(repeats)
    ]


def score_answers(
    states: Sequence[EditState],
    rollouts: Sequence[Sequence[Rollout]],
    environment: EditorEnvironment,
    trials: Trials,
    *,
    kind: str,
    seed: int,
) -> list[ScoredState]:
    """Return every state's answers with their rewards; all trials of the step are asked together.

    Args:
        states: B states.
        rollouts: (B, G) answers as the learner returned them.
        environment: reads and applies them.
        trials: worker and verifier.
        kind: a `RewardKind`.
        seed: of the run.
    """
    attempts = [
        tuple(environment.attempt(state, answer_of(rollout)) for rollout in group)
        for state, group in zip(states, rollouts, strict=True)
    ]
    jobs: list[Job] = []
    for state, made in zip(states, attempts, strict=True):
        skills = {one.skill.hash: one.skill for one in made if not one.invalid}
        for skill in ({state.skill.hash: state.skill} | skills).values():
            jobs += jobs_of(state.anchors, skill, seed)
    known = {(job.skill.hash, job.query.id): score for job, score in zip(jobs, trials.scores(jobs), strict=True)}
    return [
        _scored(state, group, made, known, cast(RewardKind, kind))
        for state, group, made in zip(states, rollouts, attempts, strict=True)
    ]


def _scored(
    state: EditState,
    group: Sequence[Rollout],
    attempts: tuple[Attempt, ...],
    known: Mapping[tuple[str, str], float | None],
    kind: RewardKind,
) -> ScoredState:
    if not state.anchors:
        unanchored = tuple(_rewarded(rollout, None, UNANCHORED) for rollout in group)
        return ScoredState(state, unanchored, attempts, (), ((),) * len(attempts))

    def scores(skill: Skill) -> Scores:
        return tuple(known[skill.hash, query.id] for query in state.anchors)

    control = scores(state.skill)
    edited = tuple(() if made.invalid else scores(made.skill) for made in attempts)
    candidates = [Candidate(made.noop, own) for made, own in zip(attempts, edited, strict=True)]
    rewards = rollback_rewards(control, candidates, kind)
    rewarded = tuple(_rewarded(rollout, reward) for rollout, reward in zip(group, rewards, strict=True))
    return ScoredState(state, rewarded, attempts, control, edited)


def _rewarded(rollout: Rollout, reward: float | None, missing: str = "no trial of this edit has a score") -> Rollout:
    """Put the reward in; an answer that broke technically keeps its own fault."""
    if rollout.fault is not None:
        return rollout
    if reward is None:
        return dataclasses.replace(rollout, reward=None, parts={}, fault=missing)
    return dataclasses.replace(rollout, reward=reward, parts={"r_strict": reward})


def answer_of(rollout: Rollout) -> str:
    """Return what an editor wrote; nothing where the answer broke."""
    return rollout.turns[0].action if rollout.turns else ""
