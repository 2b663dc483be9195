"""Triage of frontier tasks by re-running them with the full current skill (method §6.2)."""

from dataclasses import dataclass
from enum import StrEnum

from intraskill.method.errors import ConfigError


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
