"""The failure frontier, its triage with the full skill, and chunks that look harmful in training (method §6).

A chunk's visibility in an assisted group was drawn at random before training, so shown against hidden is a fair
comparison, unlike failures alone, which are selected by their reward. It is still a suspicion: the gate decides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, pstdev, variance

from intraskill.method.errors import ConfigError
from intraskill.method.rollouts import GroupResult
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Skill

FLAT = 1e-9
"""Population standard deviation below which a group's rewards are equal: it carries no signal."""


@dataclass(frozen=True, slots=True)
class FrontierRule:
    """Low mean AND low dispersion: ``mean ≤ max_mean and std ≤ max_std``.

    With both at 0, read from the component that says success, this is the published special case "all wrong"; read
    from a graded reward it is narrower, since a group stuck at one partial reward is all wrong too.

    Attributes:
        max_mean: m₀, reward units.
        max_std: s₀ ≥ 0, reward units; population standard deviation over the G siblings.
        part: the reward component that is read, such as ``r_success``; empty for the main reward.
    """

    max_mean: float
    max_std: float
    part: str = ""

    def __post_init__(self) -> None:
        if self.max_std < 0.0:
            raise ConfigError(f"max_std must be 0 or more, got {self.max_std}")


def in_frontier(result: GroupResult, rule: FrontierRule) -> bool:
    """Whether a group's scored rollouts lie in the frontier."""
    if not rule.part:
        return is_frontier(result.rewards, rule)
    return is_frontier([rollout.parts[rule.part] for rollout in result.rollouts if rollout.reward is not None], rule)


def is_frontier(rewards: Sequence[float], rule: FrontierRule) -> bool:
    """Whether a group's rewards, (G,), lie in the frontier; no rewards, no verdict: ``False``."""
    return bool(rewards) and fmean(rewards) <= rule.max_mean and pstdev(rewards) <= rule.max_std


def find_frontier(results: Sequence[GroupResult], rule: FrontierRule) -> tuple[GroupResult, ...]:
    """Return the frontier groups of a round, one per task, in the order of ``results``.

    A group counts only if every sibling is scored. When a task has several scored groups, its latest one speaks for
    it: the policy moved on since the others.
    """
    latest: dict[str, GroupResult] = {}
    for result in results:
        if result.rollouts and len(result.rewards) == len(result.rollouts):
            latest.pop(result.group.task.id, None)
            latest[result.group.task.id] = result
    return tuple(result for result in latest.values() if in_frontier(result, rule))


class Verdict(StrEnum):
    """Why a frontier task fails, hence what follows."""

    MODEL_DEFICIT = "model_deficit"
    """The full skill rescues it: not internalised yet. No candidate; q and ρ keep training it."""
    SKILL_DEFICIT = "skill_deficit"
    """The full skill still fails: a coverage gap. Root-cause analysis proposes edits."""
    ENVIRONMENT = "environment"
    """No scorable re-run, or an oracle shows that it cannot be solved. Isolate and report the task."""
    UNDECIDED = "undecided"
    """Too few scored re-runs to tell: counted, not acted on."""


@dataclass(frozen=True, slots=True)
class Review:
    """Re-runs of one frontier task at the frozen checkpoint; a reward of ``None`` is a fault.

    Attributes:
        task_id: the task.
        full: rewards with the full current skill.
        bare: rewards of the control, as many runs without skill.
        solvable: what an oracle says about the task; ``None`` when nobody asked.
    """

    task_id: str
    full: tuple[float | None, ...]
    bare: tuple[float | None, ...] = ()
    solvable: bool | None = None


@dataclass(frozen=True, slots=True)
class TriageRule:
    """Thresholds of the triage.

    Attributes:
        solved: reward from which a re-run counts as a success.
        min_valid: scored full-skill re-runs needed before their failure says anything about the skill, ≥ 1.
    """

    solved: float
    min_valid: int

    def __post_init__(self) -> None:
        if self.min_valid < 1:
            raise ConfigError(f"min_valid must be 1 or more, got {self.min_valid}")


def triage(review: Review, rule: TriageRule) -> Verdict:
    """Return the verdict on one review; total, and faults never count as failures.

    One success with the full skill is a rescue: it proves that the skill covers the task. The bare control does not
    enter the verdict; it tells the reader whether the task needs the skill at all.
    """
    if review.solvable is False:
        return Verdict.ENVIRONMENT
    scored = [reward for reward in review.full if reward is not None]
    if review.full and not scored:
        return Verdict.ENVIRONMENT
    if any(reward >= rule.solved for reward in scored):
        return Verdict.MODEL_DEFICIT
    return Verdict.SKILL_DEFICIT if len(scored) >= rule.min_valid else Verdict.UNDECIDED


MIN_GROUPS_PER_SIDE = 8
STANDARD_ERRORS = 2.0


def suspect_harm(results: Sequence[GroupResult], skill: Skill) -> tuple[Proposal, ...]:
    """Propose DELETE for every chunk whose groups earn less by more than two standard errors.

    The unit is the group: its mean reward, since its G rollouts share a task and a context. Skill-free groups are left
    out, because in them every other chunk is hidden too.

    Args:
        results: the round's training groups.
        skill: S_t, the skill that they were drawn from.
    """
    assisted = [result for result in results if result.group.kind != "skill_free" and result.rewards]
    proposals = []
    for chunk in skill.chunks:
        shown = [fmean(result.rewards) for result in assisted if chunk.id in result.group.visible]
        hidden = [fmean(result.rewards) for result in assisted if chunk.id not in result.group.visible]
        if min(len(shown), len(hidden)) < MIN_GROUPS_PER_SIDE:
            continue
        error = math.sqrt(variance(shown) / len(shown) + variance(hidden) / len(hidden))
        difference = fmean(shown) - fmean(hidden)
        if difference < -STANDARD_ERRORS * error:
            cause = f"shown minus hidden {difference:+.3f} ± {error:.3f} over {len(shown)} and {len(hidden)} groups"
            support = tuple(result.group.id for result in assisted if chunk.id in result.group.visible)
            proposals.append(Proposal("DELETE", (chunk.id,), (), cause, support, "groups without it earn more"))
    return tuple(proposals)


def with_signal(results: Sequence[GroupResult], needed: int) -> list[GroupResult]:
    """Return the first ``needed`` groups without a fault whose rewards differ."""
    sound = [result for result in results if not result.faulted]
    return [result for result in sound if pstdev(result.rewards) > FLAT][:needed]
