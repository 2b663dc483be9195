"""Paired validation: exogenous visible sets, and the only way to make `Pairs` (method §7.1, §7.2).

    B_i      reward of task i with no skill
    C_ij     whether task i's masked run shows chunk j: Bernoulli(½), a function of its address
    R_i      reward of task i under C_i
    delta_i  R_i − B_i

Shape letters: N tasks, J chunks of the pool.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from numpy.typing import NDArray

from intraskill.method.edits import Edit, Slot, slots
from intraskill.method.errors import ConfigError, PairingError, offenders
from intraskill.method.pairing_audit import MAIN_PART as MAIN_PART
from intraskill.method.pairing_audit import Conditions as Conditions
from intraskill.method.pairing_audit import Scored as Scored
from intraskill.method.pairing_audit import audit_conditions, audit_contexts, audit_presence, audit_rewards, completed
from intraskill.method.randomness import uniform
from intraskill.method.skill import BARE, ChunkId, Skill, Visible
from intraskill.method.tasks import Task, require_split

_MADE_BY_PAIR = object()


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Audited pairs; only `pair` makes them. One row per task: replicates are averaged.

    Attributes:
        task_ids: (N,) in sorted order.
        chunk_ids: (J,) in pool order.
        design_NJ: 1.0 where the masked run of the task showed the chunk.
        delta_N: R − B of the main reward.
        part_deltas: R − B of every component, (N,) each.
        bare_N: B of the paired tasks. The reported skill-free score R_free averages every scored bare task, those
            whose masked run ended in a fault included, so it equals the mean of B only when none did.
        masked_N: R.
        conditions: shared by every rollout.
    """

    task_ids: tuple[str, ...]
    chunk_ids: tuple[ChunkId, ...]
    design_NJ: NDArray[np.float64]
    delta_N: NDArray[np.float64]
    part_deltas: Mapping[str, NDArray[np.float64]]
    bare_N: NDArray[np.float64]
    masked_N: NDArray[np.float64]
    conditions: Conditions
    _maker: object = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self._maker is not _MADE_BY_PAIR:
            raise PairingError("Pairs come from pair(bare, masked, planned, chunk_ids) only, which audits them")

    @property
    def correlation(self) -> float | None:
        """corr(R, B) over tasks: differencing pays when it exceeds ½. ``None`` when either is constant."""
        if len(self.task_ids) < 2 or np.ptp(self.bare_N) == 0.0 or np.ptp(self.masked_N) == 0.0:
            return None
        return float(np.corrcoef(self.masked_N, self.bare_N)[0, 1])


def plan_visible(
    pool_skill: Skill,
    edits: Sequence[Edit],
    tasks: Sequence[Task],
    *,
    seed: int,
    round_index: int,
    inclusion: float = 0.5,
) -> dict[str, Visible]:
    """Draw the visible set of every validation task before any rollout (method §7.1).

    Chunks are independent Bernoulli(``inclusion``), conditioned on no slot showing both of its sides. At ½ every legal
    state of a slot is equally likely: a REWRITE {absent, old, new}, a MERGE {absent, a, b, a+b, ab}, a SPLIT its
    mirror. A draw depends on its address alone, so other tasks, workers, resumes and edits of other chunks cannot
    change it.

    Args:
        pool_skill: `edits.pool` of the current skill and ``edits``.
        edits: this round's candidates.
        tasks: skill-validation tasks.
        seed: seed of the run.
        round_index: round t.
        inclusion: probability p in (0, 1).

    Raises:
        SplitError: if a task has another role.
        ConfigError: if ``inclusion`` is outside (0, 1).
    """
    require_split(tasks, "skill_validation", "the validation gate")
    if not 0.0 < inclusion < 1.0:
        raise ConfigError(f"inclusion must lie strictly between 0 and 1, got {inclusion}")
    partition = slots(pool_skill, edits)

    def draw(task_id: str, slot: Slot) -> Visible:
        for attempt in count():
            shown = frozenset(
                chunk_id
                for chunk_id in slot.ids
                if uniform(seed, "visible", round_index, task_id, chunk_id, attempt) < inclusion
            )
            if slot.allows(shown):
                return shown
        raise AssertionError("unreachable: hiding everything is always allowed")

    return {task.id: BARE.union(*(draw(task.id, slot) for slot in partition)) for task in tasks}


def pair(
    bare: Iterable[Scored],
    masked: Iterable[Scored],
    planned: Mapping[str, Visible],
    chunk_ids: Sequence[ChunkId],
) -> Pairs:
    """Join bare and masked rollouts of the same tasks, or refuse (method §7.2); input order does not matter.

    Args:
        bare: rollouts without skill: the very ones behind the reported skill-free score.
        masked: rollouts under the planned visible sets, the same samples of the same tasks.
        planned: visible set per task, as drawn before the first rollout.
        chunk_ids: chunks of the pool, (J,), in document order.

    Raises:
        PairingError: for every kind of non-pair, each with its own message: count, three offenders, remedy.
    """
    arms = {"bare": completed("bare", bare), "masked": completed("masked", masked)}
    if unknown := sorted(frozenset().union(*planned.values()) - set(chunk_ids)):
        raise PairingError(f"the plan shows chunks that are not in the pool, {offenders(unknown)}; plan on this pool")
    audit_presence(arms["bare"], arms["masked"], planned)
    conditions = audit_conditions(arms)
    audit_contexts(arms, planned)
    parts = audit_rewards(arms)
    task_ids = tuple(sorted(planned))
    part_B = {name: _task_means(arms["bare"], task_ids, name) for name in parts}
    part_R = {name: _task_means(arms["masked"], task_ids, name) for name in parts}
    design_NJ = np.array([[chunk_id in planned[task] for chunk_id in chunk_ids] for task in task_ids], dtype=float)
    return Pairs(
        task_ids=task_ids,
        chunk_ids=tuple(chunk_ids),
        design_NJ=_frozen(design_NJ.reshape(len(task_ids), len(chunk_ids))),
        delta_N=_frozen(part_R[MAIN_PART] - part_B[MAIN_PART]),
        part_deltas={name: _frozen(part_R[name] - part_B[name]) for name in parts},
        bare_N=part_B[MAIN_PART],
        masked_N=part_R[MAIN_PART],
        conditions=conditions,
        _maker=_MADE_BY_PAIR,
    )


def _task_means(rollouts: list[Scored], task_ids: tuple[str, ...], part: str) -> NDArray[np.float64]:
    """Average the replicates of each task, (N,)."""
    values: dict[str, list[float]] = {task_id: [] for task_id in task_ids}
    for scored in rollouts:
        values[scored.task_id].append(scored.parts[part])
    return _frozen(np.array([sum(values[task_id]) / len(values[task_id]) for task_id in task_ids]))


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    array.setflags(write=False)
    return array
