"""Paired validation: exogenous visible sets, and the only way to make `Pairs` (method §7.1, §7.2).

    B_i      reward of task i with no skill
    C_ij     whether task i's masked run shows chunk j: drawn before any reward (`intraskill.method.gate.designs`)
    R_i      reward of task i under C_i
    delta_i  R_i − B_i

`pair` takes one visible set per task and averages a task's replicates into one row. `pair_replicates` takes one visible
set per masked replicate and makes one row of each, so that a task has several rows over one B; its rows share a task
and are clustered by it. `masked_rows` needs no bare run: `MaskedOnly` has no field for one, so that no estimator that
reads B can be given it.

Shape letters: N rows (tasks, or masked replicates of tasks), J chunks of the pool.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from intraskill.method.errors import PairingError, offenders
from intraskill.method.gate.designs import Design, Masks, plan_masks
from intraskill.method.gate.pairs import (
    MADE_BY_AUDIT,
    Vector,
    audit_conditions,
    audit_contexts,
    audit_presence,
    audit_replicates,
    audit_rewards,
    completed,
    frozen,
)
from intraskill.method.gate.pairs import MAIN_PART as MAIN_PART
from intraskill.method.gate.pairs import Conditions as Conditions
from intraskill.method.gate.pairs import MaskedOnly as MaskedOnly
from intraskill.method.gate.pairs import Pairs as Pairs
from intraskill.method.gate.pairs import Scored as Scored
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.skill import ChunkId, Skill, Visible
from intraskill.method.tasks import Task

Key = TypeVar("Key", bound=Hashable)


def plan_visible(
    pool_skill: Skill,
    edits: Sequence[Edit],
    tasks: Sequence[Task],
    *,
    seed: int,
    round_index: int,
    inclusion: float = 0.5,
) -> dict[str, Visible]:
    """Draw one Bernoulli visible set per validation task before any rollout (method §7.1): the published design.

    Chunks are independent Bernoulli(``inclusion``), conditioned on no slot showing two of its versions. At ½ every
    legal state of a slot is equally likely: a REWRITE {absent, old, new}, a MERGE {absent, a, b, a+b, ab}, a SPLIT its
    mirror. A draw depends on its address alone, so other tasks, workers, resumes and edits of other chunks cannot
    change it. Other designs and replicates: `intraskill.method.gate.designs.plan_masks`.

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
    masks = plan_masks(pool_skill, edits, tasks, Design(inclusion=inclusion), seed=seed, round_index=round_index)
    return {task_id: visible for task_id, (visible,) in masks.items()}


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
    _audit_pool(planned.values(), chunk_ids)
    audit_presence(arms["bare"], arms["masked"], planned)
    keys = [(task_id, task_id, planned[task_id]) for task_id in sorted(planned)]
    return _joined(arms, keys, chunk_ids, lambda scored: scored.task_id, lambda scored: planned[scored.task_id])


def pair_replicates(
    bare: Iterable[Scored],
    masked: Iterable[Scored],
    planned: Masks,
    chunk_ids: Sequence[ChunkId],
    *,
    bare_replicates: int = 1,
) -> Pairs:
    """Join every masked replicate with the mean bare reward of its task, one row each, or refuse (method §7.2).

    Args:
        bare: rollouts without skill, samples 0 … ``bare_replicates`` − 1 of every task.
        masked: rollouts under the planned visible sets; sample s of a task saw ``planned[task][s]``.
        planned: one visible set per task and masked replicate, from `intraskill.method.gate.designs.plan_masks`.
        chunk_ids: chunks of the pool, (J,), in document order.
        bare_replicates: bare runs of every task.

    Raises:
        PairingError: for every kind of non-pair, each with its own message: count, three offenders, remedy.
    """
    arms = {"bare": completed("bare", bare), "masked": completed("masked", masked)}
    rows = _audit_rows(planned, chunk_ids)
    needed = {
        "bare": {(task_id, sample) for task_id in planned for sample in range(bare_replicates)},
        "masked": {key for _, key, _ in rows},
    }
    audit_replicates(arms, needed)
    return _joined(arms, rows, chunk_ids, _task_and_sample, lambda scored: planned[scored.task_id][scored.sample])


def masked_rows(masked: Iterable[Scored], planned: Masks, chunk_ids: Sequence[ChunkId]) -> MaskedOnly:
    """Audit masked rollouts that have no bare partner; one row per task and replicate.

    Raises:
        PairingError: as `pair_replicates`, for the masked arm.
    """
    arms = {"masked": completed("masked", masked)}
    rows = _audit_rows(planned, chunk_ids)
    audit_replicates(arms, {"masked": {key for _, key, _ in rows}})
    conditions = audit_conditions(arms)
    audit_contexts(arms, lambda scored: planned[scored.task_id][scored.sample])
    keys = [key for _, key, _ in rows]
    return MaskedOnly(
        task_ids=tuple(task_id for task_id, _, _ in rows),
        chunk_ids=tuple(chunk_ids),
        design_NJ=_design([visible for _, _, visible in rows], chunk_ids),
        masked_parts=_averages(arms["masked"], keys, _task_and_sample, audit_rewards(arms)),
        conditions=conditions,
        num_masked=len(arms["masked"]),
        _maker=MADE_BY_AUDIT,
    )


def _joined(
    arms: Mapping[str, list[Scored]],
    rows: Sequence[tuple[str, Key, Visible]],
    chunk_ids: Sequence[ChunkId],
    row_of: Callable[[Scored], Key],
    planned: Callable[[Scored], Visible],
) -> Pairs:
    """Audit what both arms hold and make `Pairs` of ``rows``: (task, key of the masked row, visible set)."""
    conditions = audit_conditions(arms)
    audit_contexts(arms, planned)
    parts = audit_rewards(arms)
    task_ids = tuple(task_id for task_id, _, _ in rows)
    part_B = _averages(arms["bare"], task_ids, lambda scored: scored.task_id, parts)
    part_R = _averages(arms["masked"], [key for _, key, _ in rows], row_of, parts)
    return Pairs(
        task_ids=task_ids,
        chunk_ids=tuple(chunk_ids),
        design_NJ=_design([visible for _, _, visible in rows], chunk_ids),
        delta_N=frozen(part_R[MAIN_PART] - part_B[MAIN_PART]),
        part_deltas={name: frozen(part_R[name] - part_B[name]) for name in parts},
        bare_N=part_B[MAIN_PART],
        masked_N=part_R[MAIN_PART],
        conditions=conditions,
        bare_parts=part_B,
        masked_parts=part_R,
        num_bare=len(arms["bare"]),
        num_masked=len(arms["masked"]),
        _maker=MADE_BY_AUDIT,
    )


def _task_and_sample(scored: Scored) -> tuple[str, int]:
    return scored.task_id, scored.sample


def _audit_pool(planned: Iterable[Visible], chunk_ids: Sequence[ChunkId]) -> None:
    if unknown := sorted(frozenset().union(*planned) - set(chunk_ids)):
        raise PairingError(f"the plan shows chunks that are not in the pool, {offenders(unknown)}; plan on this pool")


def _audit_rows(planned: Masks, chunk_ids: Sequence[ChunkId]) -> list[tuple[str, tuple[str, int], Visible]]:
    """Return (task, (task, sample), visible set) of every planned row, in order."""
    _audit_pool([visible for sets in planned.values() for visible in sets], chunk_ids)
    return [
        (task_id, (task_id, sample), visible)
        for task_id in sorted(planned)
        for sample, visible in enumerate(planned[task_id])
    ]


def _design(shown: Sequence[Visible], chunk_ids: Sequence[ChunkId]) -> Vector:
    design_NJ = np.array([[chunk_id in visible for chunk_id in chunk_ids] for visible in shown], dtype=float)
    return frozen(design_NJ.reshape(len(shown), len(chunk_ids)))


def _averages(
    rollouts: Sequence[Scored], keys: Sequence[Key], key_of: Callable[[Scored], Key], parts: Sequence[str]
) -> dict[str, Vector]:
    """Average, for each key of ``keys``, the rollouts that have it, (N,) per reward component."""
    groups: dict[Key, list[Scored]] = {key: [] for key in keys}
    for scored in rollouts:
        groups[key_of(scored)].append(scored)
    return {
        name: frozen(np.array([sum(s.parts[name] for s in groups[key]) / len(groups[key]) for key in keys]))
        for name in parts
    }
