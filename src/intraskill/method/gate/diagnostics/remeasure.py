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
from intraskill.method.tasks import Task

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
    """

    count: int
    at_selection: tuple[float, float]
    shrunk: tuple[float, float]
    remeasured: tuple[float, float]

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
    of_gate = {one.index: one.contributions for one in rounds}
    following = {before.index: after.index for before, after in zip(rounds, rounds[1:], strict=False)}
    first = [(row.selected_in, row.chunk_id, row.se_at_selection) for row in rows]
    second = [(following.get(row.selected_in), row.chunk_id, row.se_remeasured) for row in rows]
    ones = [1.0] * count
    return WinnersCurse(
        count,
        (then, math.sqrt(_variance(of_gate, first, ones)) / count),
        (guess, math.sqrt(_variance(of_gate, first, share) + max(rest, 0.0)) / count),
        (now, math.sqrt(_variance(of_gate, second, ones)) / count),
    )


def _variance(
    of_gate: Mapping[int, Contributions],
    measured: Sequence[tuple[int | None, ChunkId, float]],
    weights: Sequence[float],
) -> float:
    """Return the variance of Σ weight · β̂ over measurements, each with its gate, chunk and standard error."""
    total = 0.0
    joint: dict[int, dict[ChunkId, float]] = {}
    for (gate, chunk_id, se), weight in zip(measured, weights, strict=True):
        if gate is None or gate not in of_gate or of_gate[gate].covariance_JJ is None:
            total += (weight * se) ** 2
        else:
            joint.setdefault(gate, {})[chunk_id] = weight
    for gate, by_chunk in joint.items():
        weight_J = np.array([by_chunk.get(chunk_id, 0.0) for chunk_id in of_gate[gate].chunk_ids])
        total += float(weight_J @ of_gate[gate].covariance_JJ @ weight_J)
    return total
