"""The winner's curse, measured: what selected chunks were worth when they were selected, and one round later.

A gate that selects by β̂ selects lucky noise, so the next measurement falls. Shrinkage predicts the fall;
what lies beyond the prediction is real change, such as a lesson the model has absorbed.

Errors of one gate are correlated, and a gate that re-measures one selection makes the next: with w_g the weights of its
contributions, a mean has variance Σ_g w_gᵀ Σ_g w_g over gates.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from intraskill.method.errors import EditError, SplitError, counted, offenders
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.shrinkage import shrink
from intraskill.method.skill.skill import ChunkId
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


@dataclass(frozen=True, slots=True)
class MeasuredRound:
    """One gate of a run.

    Attributes:
        index: round t.
        contributions: what it measured.
        kept: chunks in the skill afterwards.
    """

    index: int
    contributions: Contributions
    kept: tuple[ChunkId, ...]


@dataclass(frozen=True, slots=True)
class Remeasurement:
    """A chunk selected in round t and measured again in the next gate.

    Attributes:
        chunk_id: the chunk.
        selected_in: round t.
        at_selection: β̂ then.
        se_at_selection: its standard error.
        shrunk: its shrunk value then, from that gate alone.
        sd_shrunk: posterior standard deviation.
        remeasured: β̂ in the next gate.
        se_remeasured: its standard error.
    """

    chunk_id: ChunkId
    selected_in: int
    at_selection: float
    se_at_selection: float
    shrunk: float
    sd_shrunk: float
    remeasured: float
    se_remeasured: float


@dataclass(frozen=True, slots=True)
class WinnersCurse:
    """Means over all re-measured chunks, each with its standard error.

    Attributes:
        count: chunks.
        at_selection: mean β̂ at selection.
        shrunk: mean shrunk value at selection: the prediction.
        remeasured: mean β̂ one round later.
        fall: remeasured − at_selection.
        surprise: remeasured − shrunk; far from 0, the chunks themselves have changed.
    """

    count: int
    at_selection: tuple[float, float]
    shrunk: tuple[float, float]
    remeasured: tuple[float, float]
    fall: tuple[float, float]
    surprise: tuple[float, float]

    def words(self) -> str:
        """Say it in one sentence."""
        (then, then_se), (guess, _), (now, now_se) = self.at_selection, self.shrunk, self.remeasured
        return (
            f"{counted(self.count, 'incumbent')} measured again one round later: {then:+.3f} ± {then_se:.3f} when "
            f"selected, {now:+.3f} ± {now_se:.3f} now; shrinkage had predicted {guess:+.3f}"
        )


def remeasurements(rounds: Sequence[MeasuredRound]) -> tuple[Remeasurement, ...]:
    """Return one row for every chunk that a gate kept and the next one measured again, oldest first.

    Raises:
        EditError: if a round kept a chunk that it had not measured.
    """
    rows: list[Remeasurement] = []
    for before, after in zip(rounds, rounds[1:], strict=False):
        if unknown := sorted(set(before.kept) - set(before.contributions.chunk_ids)):
            raise EditError(f"round {before.index} kept chunks that it had not measured, {offenders(unknown)}")
        posterior = shrink(before.contributions) if before.kept else None
        for chunk_id in before.kept:
            if chunk_id not in after.contributions.by_chunk or posterior is None:
                continue
            then, now = (found.contributions.chunk_ids.index(chunk_id) for found in (before, after))
            rows.append(
                Remeasurement(
                    chunk_id,
                    before.index,
                    float(before.contributions.beta_J[then]),
                    float(before.contributions.se_J[then]),
                    float(posterior.mean_J[then]),
                    float(posterior.sd_J[then]),
                    float(after.contributions.beta_J[now]),
                    float(after.contributions.se_J[now]),
                )
            )
    return tuple(rows)


def winners_curse(rows: Sequence[Remeasurement], rounds: Sequence[MeasuredRound] = ()) -> WinnersCurse | None:
    """Return the means over ``rows``, or ``None`` without rows.

    Args:
        rows: of `remeasurements`.
        rounds: the gates that ``rows`` are from; errors of a gate whose covariance is not known count as independent.
    """
    if not rows:
        return None
    count = len(rows)
    value = np.array([(row.at_selection, row.shrunk, row.remeasured) for row in rows]).mean(axis=0)
    then, guess, now = value.tolist()
    # The shrunk value passes on the share b of the selecting gate's error; what else its SD holds is the prior's.
    share = [min(1.0, (row.sd_shrunk / row.se_at_selection) ** 2) if row.se_at_selection else 1.0 for row in rows]
    rest = sum(row.sd_shrunk**2 - (b * row.se_at_selection) ** 2 for row, b in zip(rows, share, strict=True))
    ones, none = [1.0] * count, [0.0] * count

    def error(selected: Sequence[float], again: Sequence[float], further: float = 0.0) -> float:
        return math.sqrt(_variance(rows, rounds, selected, again) + max(further, 0.0)) / count

    return WinnersCurse(
        count,
        (then, error(ones, none)),
        (guess, error(share, none, rest)),
        (now, error(none, ones)),
        fall=(now - then, error([-1.0] * count, ones)),
        surprise=(now - guess, error([-b for b in share], ones, rest)),
    )


def _variance(
    rows: Sequence[Remeasurement], rounds: Sequence[MeasuredRound], selected: Sequence[float], again: Sequence[float]
) -> float:
    """Return the variance of Σ selected · β̂ at selection + again · β̂ one round later."""
    found = {one.index: one.contributions for one in rounds}
    following = {before.index: after.index for before, after in zip(rounds, rounds[1:], strict=False)}
    weights: dict[int, dict[ChunkId, float]] = {}
    total = 0.0
    for row, first, second in zip(rows, selected, again, strict=True):
        sides = (
            (row.selected_in, first, row.se_at_selection),
            (following.get(row.selected_in), second, row.se_remeasured),
        )
        for gate, weight, se in sides:
            if gate is None or gate not in found or found[gate].covariance_JJ is None:
                total += (weight * se) ** 2
                continue
            of_gate = weights.setdefault(gate, {})
            of_gate[row.chunk_id] = of_gate.get(row.chunk_id, 0.0) + weight
    for gate, of_gate in weights.items():
        weight_J = np.array([of_gate.get(chunk_id, 0.0) for chunk_id in found[gate].chunk_ids])
        total += float(weight_J @ found[gate].covariance_JJ @ weight_J)
    return total
