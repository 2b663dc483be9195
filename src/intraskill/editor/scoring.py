"""From answers to rewards: apply each edit, try it on the anchors, compare with the control (the rollback reward)."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from intraskill.editor.domain import Job, Query
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.states import EditState
from intraskill.editor.trials import Trials
from intraskill.method.editor_actions import Attempt
from intraskill.method.randomness import child_seed
from intraskill.method.rollback import Candidate, RewardKind, rollback_rewards
from intraskill.method.rollouts import Rollout
from intraskill.method.skill import Skill

Scores = tuple[float | None, ...]
UNANCHORED = "the evidence names no query to try an edit on"
"""Why an answer to such evidence has no reward; nothing broke, so it is counted apart from faults."""


@dataclass(frozen=True, slots=True)
class Scored:
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
) -> list[Scored]:
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
) -> Scored:
    if not state.anchors:
        unanchored = tuple(_rewarded(rollout, None, UNANCHORED) for rollout in group)
        return Scored(state, unanchored, attempts, (), ((),) * len(attempts))

    def scores(skill: Skill) -> Scores:
        return tuple(known[skill.hash, query.id] for query in state.anchors)

    control = scores(state.skill)
    edited = tuple(() if made.invalid else scores(made.skill) for made in attempts)
    candidates = [Candidate(made.noop, own) for made, own in zip(attempts, edited, strict=True)]
    rewards = rollback_rewards(control, candidates, kind)
    rewarded = tuple(_rewarded(rollout, reward) for rollout, reward in zip(group, rewards, strict=True))
    return Scored(state, rewarded, attempts, control, edited)


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
