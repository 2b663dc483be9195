"""Validation queries: how often decisions have read each task's reward, and the slice that none of them may read.

Every decision that reads the same tasks fits their noise a little more. The count says how far that can have gone; the
``audit`` split, which no online decision reads, measures it (method §12.4).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from intraskill.method.errors import SplitError, counted, offenders
from intraskill.method.tasks import Task, require_split

Reward = tuple[str, str]
"""Task of a rollout, and an address that no other rollout of this task has."""


@dataclass(frozen=True, slots=True)
class QueryCount:
    """How often decisions have consulted the validation rewards.

    Attributes:
        decisions: decisions so far.
        by_task: decisions that read each task.
        read: the rewards, one per rollout: task and address. A rollout that several decisions read is in it once.
    """

    decisions: int = 0
    by_task: Mapping[str, int] = field(default_factory=dict)
    read: frozenset[Reward] = frozenset()

    def after(self, rewards: Iterable[Reward]) -> "QueryCount":
        """Return the count after one more decision, which read these rewards."""
        fresh = frozenset(rewards)
        counts = Counter(self.by_task)
        counts.update(sorted({task_id for task_id, _ in fresh}))
        return QueryCount(self.decisions + 1, dict(counts), self.read | fresh)

    @property
    def rewards(self) -> int:
        """Different rewards read in all."""
        return len(self.read)

    @property
    def most(self) -> int:
        """Decisions that read the most consulted task."""
        return max(self.by_task.values(), default=0)

    def words(self) -> str:
        """Say how worn the split is."""
        if not self.decisions:
            return "no decision has read a validation reward"
        return (
            f"{counted(self.decisions, 'decision')} read {self.rewards:,} different rewards of "
            f"{len(self.by_task):,} validation tasks, none more than {counted(self.most, 'time')}"
        )


def audit_slice(tasks: Sequence[Task], consulted: QueryCount) -> tuple[Task, ...]:
    """Return the tasks of split ``audit``, after checking that no online decision has read any of them.

    Raises:
        SplitError: if a decision has, or there are none.
    """
    found = tuple(task for task in tasks if task.split == "audit")
    if not found:
        raise SplitError("there is no audit task; an audit needs tasks that no decision has seen")
    if read := [task.id for task in found if task.id in consulted.by_task]:
        raise SplitError(f"online decisions have read audit tasks, {offenders(read)}; they can audit nothing any more")
    return found


def require_online(tasks: Sequence[Task]) -> None:
    """Refuse to let an online decision read anything but skill-validation tasks.

    Raises:
        SplitError: naming the offenders.
    """
    require_split(tasks, "skill_validation", "an online decision")
