"""Audited rows of a gate: what `paired_validation` makes and every estimator reads.

The records refuse to be built by hand: what is in them has passed the audit.
Shape letters: N rows (tasks, or masked replicates of tasks), J chunks of the pool.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import PairingError
from intraskill.method.pairing_audit import Conditions
from intraskill.method.skill import ChunkId

Vector = NDArray[np.float64]
Parts = Mapping[str, Vector]
MADE_BY_AUDIT = object()


def frozen(array: Vector) -> Vector:
    """Make an array read-only."""
    array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True, eq=False)
class MaskedOnly:
    """Audited masked rows without a bare run; only `masked_rows` and `Pairs.masked_only` make them.

    Attributes:
        task_ids: (N,) task of each row, sorted; a task with several masked replicates repeats.
        chunk_ids: (J,) in pool order.
        design_NJ: 1.0 where the row showed the chunk.
        masked_parts: R of every reward component, (N,) each, ``r_strict`` included.
        conditions: shared by every rollout.
        num_masked: number of masked rollouts behind the rows.
    """

    task_ids: tuple[str, ...]
    chunk_ids: tuple[ChunkId, ...]
    design_NJ: Vector
    masked_parts: Parts
    conditions: Conditions
    num_masked: int
    _maker: object = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self._maker is not MADE_BY_AUDIT:
            raise PairingError("MaskedOnly comes from masked_rows(masked, planned, chunk_ids) only, which audits it")


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Audited pairs; only `pair` and `pair_replicates` make them.

    Attributes:
        task_ids: (N,) task of each row, sorted; it repeats where `pair_replicates` made several rows of one task.
        chunk_ids: (J,) in pool order.
        design_NJ: 1.0 where the masked run of the row showed the chunk.
        delta_N: R − B of the main reward.
        part_deltas: R − B of every component, (N,) each.
        bare_N: B of the paired tasks. The reported skill-free score R_free averages every scored bare task, those
            whose masked run ended in a fault included, so it equals the mean of B only when none did.
        masked_N: R.
        conditions: shared by every rollout.
        bare_parts: B of every component, (N,) each.
        masked_parts: R of every component, (N,) each.
        num_bare: number of bare rollouts behind the rows.
        num_masked: number of masked rollouts behind the rows.
    """

    task_ids: tuple[str, ...]
    chunk_ids: tuple[ChunkId, ...]
    design_NJ: Vector
    delta_N: Vector
    part_deltas: Parts
    bare_N: Vector
    masked_N: Vector
    conditions: Conditions
    bare_parts: Parts = field(default_factory=dict)
    masked_parts: Parts = field(default_factory=dict)
    num_bare: int = 0
    num_masked: int = 0
    _maker: object = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self._maker is not MADE_BY_AUDIT:
            raise PairingError("Pairs come from pair(bare, masked, planned, chunk_ids) only, which audits them")

    @property
    def correlation(self) -> float | None:
        """corr(R, B) over rows: differencing pays when it exceeds ½. ``None`` when either is constant."""
        if len(self.task_ids) < 2 or np.ptp(self.bare_N) == 0.0 or np.ptp(self.masked_N) == 0.0:
            return None
        return float(np.corrcoef(self.masked_N, self.bare_N)[0, 1])

    @property
    def masked_only(self) -> MaskedOnly:
        """The same rows as if no bare run existed."""
        return MaskedOnly(
            self.task_ids,
            self.chunk_ids,
            self.design_NJ,
            self.masked_parts,
            self.conditions,
            self.num_masked,
            _maker=MADE_BY_AUDIT,
        )

    def of_tasks(self, tasks: Iterable[str]) -> "Pairs":
        """Return the rows of some tasks: part of audited pairs is audited.

        Rollouts are counted in proportion.
        """
        wanted = frozenset(tasks)
        keep_N = np.array([task_id in wanted for task_id in self.task_ids], dtype=bool)
        share = float(keep_N.mean()) if keep_N.size else 0.0

        def part(parts: Parts) -> dict[str, Vector]:
            return {name: frozen(values_N[keep_N]) for name, values_N in parts.items()}

        return replace(
            self,
            task_ids=tuple(task_id for task_id in self.task_ids if task_id in wanted),
            design_NJ=frozen(self.design_NJ[keep_N]),
            delta_N=frozen(self.delta_N[keep_N]),
            part_deltas=part(self.part_deltas),
            bare_N=frozen(self.bare_N[keep_N]),
            masked_N=frozen(self.masked_N[keep_N]),
            bare_parts=part(self.bare_parts),
            masked_parts=part(self.masked_parts),
            num_bare=round(self.num_bare * share),
            num_masked=round(self.num_masked * share),
        )
