"""Attrition: whether showing a chunk makes runs fault, and what that could hide.

A faulted run is run again, and a task whose runs only fault leaves both arms. If a chunk decides which runs fault, what
is left is no random sample: a chunk under which failing episodes time out seems to help, since they are repeated until
they end. The masks are random, so faults must be as frequent beside a chunk as without it.

Source: Fisher's exact test; worst-case bounds as in Manski (1990), for a mean with missing outcomes.
Shape letters: J chunks, N rows that were fitted and never faulted, F rows that did.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import fisher_exact
from statsmodels.stats.multitest import multipletests

from intraskill.method.gate.bounded import Bounds
from intraskill.method.gate.pairs import Pairs, Vector
from intraskill.method.rewards import UNIT
from intraskill.method.skill.skill import ChunkId, Visible

ALARM = 0.05


@dataclass(frozen=True, slots=True)
class MaskedRun:
    """One planned masked run.

    Attributes:
        task_id: its task.
        sample: its number among the masked runs of the task.
        visible: what it showed.
        faulted: whether any attempt at it did.
        bare: mean bare reward of its task, or ``None``.
    """

    task_id: str
    sample: int
    visible: Visible
    faulted: bool
    bare: float | None


@dataclass(frozen=True, slots=True)
class ChunkAttrition:
    """Faults of masked runs with and without one chunk.

    Attributes:
        shown_faults: runs that showed it and faulted at least once.
        shown: how many there were.
        hidden_faults: runs that hid it and faulted at least once.
        hidden: how many there were.
        p: two-sided p of Fisher's exact test, Holm-adjusted over the chunks.
        low: its least possible `paired_ols` contribution, whatever the lost runs would have earned; reward units.
        high: its largest possible one.
        se: standard error of either end, were nothing lost.
    """

    shown_faults: int
    shown: int
    hidden_faults: int
    hidden: int
    p: float
    low: float
    high: float
    se: float = 0.0

    @property
    def words(self) -> str:
        """The counts, the p-value and what they leave open."""
        return (
            f"{self.shown_faults} of {self.shown} runs faulted with it and {self.hidden_faults} of {self.hidden} "
            f"without it (p = {self.p:.3f}), so that its contribution may lie anywhere from {self.low:+.3f} to "
            f"{self.high:+.3f}"
        )

    @property
    def alarm(self) -> bool:
        """Whether faults go with the chunk and could decide the sign of its contribution, noise included."""
        return self.p < ALARM and self.low - 2.0 * self.se <= 0.0 <= self.high + 2.0 * self.se


def attrition(pairs: Pairs, runs: Sequence[MaskedRun], bounds: Bounds = UNIT) -> Mapping[ChunkId, ChunkAttrition]:
    """Compare faults with and without each chunk; empty when no masked run faulted.

    Args:
        pairs: what was fitted.
        runs: every masked run of the gate.
        bounds: smallest and largest reward.
    """
    lost = [run for run in runs if run.faulted]
    if not lost or not pairs.chunk_ids:
        return {}
    shown_RJ = _design(runs, pairs.chunk_ids)
    lost_FJ = _design(lost, pairs.chunk_ids)
    counts = zip(lost_FJ.sum(axis=0).astype(int).tolist(), shown_RJ.sum(axis=0).astype(int).tolist(), strict=True)
    tables = [(gone, shown, len(lost) - gone, len(runs) - shown) for gone, shown in counts]
    p_J = multipletests([fisher_exact([[a, n - a], [b, m - b]]).pvalue for a, n, b, m in tables], method="holm")[1]
    low_J, high_J, se_J = _worst_cases(pairs, lost, lost_FJ, bounds)
    return {
        chunk_id: ChunkAttrition(*table, *map(float, numbers))
        for chunk_id, table, *numbers in zip(pairs.chunk_ids, tables, p_J, low_J, high_J, se_J, strict=True)
    }


def _design(runs: Sequence[MaskedRun], chunk_ids: Sequence[ChunkId]) -> Vector:
    return np.array([[chunk_id in run.visible for chunk_id in chunk_ids] for run in runs], dtype=float)


def _worst_cases(
    pairs: Pairs, lost: Sequence[MaskedRun], lost_FJ: Vector, bounds: Bounds
) -> tuple[Vector, Vector, Vector]:
    """Return the ends of β̂ and their standard error, (J,) each.

    β̂ is linear in the differences, so each lost one goes to an end of its own.
    """
    low, high = bounds
    gone, seen = {(run.task_id, run.sample) for run in lost}, Counter[str]()
    keep = []
    for task_id in pairs.task_ids:
        keep.append((task_id, seen[task_id]) not in gone)
        seen[task_id] += 1
    known_N = pairs.delta_N[keep]
    least_F = np.array([low - (high if run.bare is None else run.bare) for run in lost])
    most_F = np.array([high - (low if run.bare is None else run.bare) for run in lost])
    weights_JR = np.linalg.pinv(np.concatenate([pairs.design_NJ[keep], lost_FJ]))
    known_J = weights_JR[:, : len(known_N)] @ known_N
    free_JF = weights_JR[:, len(known_N) :]
    up_JF, down_JF = np.maximum(free_JF, 0.0), np.minimum(free_JF, 0.0)
    se_J = np.std(known_N) * np.sqrt(np.square(weights_JR).sum(axis=1))
    return known_J + up_JF @ least_F + down_JF @ most_F, known_J + up_JF @ most_F + down_JF @ least_F, se_J
