"""Paired validation: exogenous visible sets, and the only way to make `Pairs` (method §7.1, §7.2).

    B_i      reward of task i with no skill
    C_ij     whether task i's masked run shows chunk j: Bernoulli(½), a function of its address
    R_i      reward of task i under C_i
    delta_i  R_i − B_i

Shape letters: N tasks, J chunks of the pool.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import count
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from intraskill.method.edits import Edit, Slot, slots
from intraskill.method.errors import ConfigError, PairingError, offenders
from intraskill.method.randomness import uniform
from intraskill.method.skill import BARE, ChunkId, Skill, Visible
from intraskill.method.tasks import Task, require_split

MAIN_PART = "r_strict"
_MADE_BY_PAIR = object()


@dataclass(frozen=True, slots=True)
class Conditions:
    """Everything that a fair comparison holds fixed, as hashes.

    Attributes:
        checkpoint: hash of the weights actually served, not a label.
        split: the data role of the tasks.
        sampling: decoding parameters.
        prompt: system prompt and chat template.
        environment: environment version.
    """

    checkpoint: str
    split: str
    sampling: str
    prompt: str
    environment: str


@dataclass(frozen=True, slots=True)
class Scored:
    """One rollout as the gate sees it.

    Attributes:
        task_id: the task.
        sample: index among the replicates of this task in this arm.
        visible: the chunks that it really saw.
        reward: main reward; ``None`` with a fault.
        parts: every reward component, ``r_strict`` included.
        conditions: under what it ran.
        fault: what broke technically, or ``None``. A failed attempt beside a completed one is ignored.
    """

    task_id: str
    sample: int
    visible: Visible
    reward: float | None
    parts: Mapping[str, float]
    conditions: Conditions
    fault: str | None = None

    def __str__(self) -> str:
        return f"{self.task_id}#{self.sample}"


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Audited pairs; only `pair` makes them. One row per task: replicates are averaged.

    Attributes:
        task_ids: (N,) in sorted order.
        chunk_ids: (J,) in pool order.
        design_NJ: 1.0 where the masked run of the task showed the chunk.
        delta_N: R − B of the main reward.
        part_deltas: R − B of every component, (N,) each.
        bare_N: B, whose mean is the reported skill-free score.
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
    arms = {"bare": _completed("bare", bare), "masked": _completed("masked", masked)}
    if unknown := sorted(frozenset().union(*planned.values()) - set(chunk_ids)):
        raise PairingError(f"the plan shows chunks that are not in the pool, {offenders(unknown)}; plan on this pool")
    _audit_presence(arms["bare"], arms["masked"], planned)
    conditions = _audit_conditions(arms)
    _audit_contexts(arms, planned)
    parts = _audit_rewards(arms)
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


def _completed(arm: str, rollouts: Iterable[Scored]) -> list[Scored]:
    """Sort by (task, sample); refuse keys that only faulted or that completed twice."""
    everything = sorted(rollouts, key=lambda s: (s.task_id, s.sample))
    done = [s for s in everything if s.fault is None]
    completions = Counter((s.task_id, s.sample) for s in done)
    _refuse(
        {str(s) for s in everything if s.fault is not None and not completions[s.task_id, s.sample]},
        f"{arm} rollouts ended in a fault",
        "run them again; a fault is never reward 0",
    )
    _refuse(
        {str(s) for s in done if completions[s.task_id, s.sample] > 1},
        f"{arm} rollouts were completed more than once for one (task, sample)",
        "keep the first one that was recorded; choosing between them would bias the gate",
    )
    return done


def _audit_presence(bare: list[Scored], masked: list[Scored], planned: Mapping[str, Visible]) -> None:
    if not planned:
        raise PairingError("the plan holds no task; the gate needs skill-validation tasks")
    keys = {"bare": {(s.task_id, s.sample) for s in bare}, "masked": {(s.task_id, s.sample) for s in masked}}
    seen = {task_id for arm in keys.values() for task_id, _ in arm}
    _refuse(seen - set(planned), "tasks were run but never planned", "remove their rollouts")
    for arm, other in (("bare", "masked"), ("masked", "bare")):
        unseen = set(planned) - {task_id for task_id, _ in keys[arm]}
        lacking = {f"{task_id}#{sample}" for task_id, sample in keys[other] - keys[arm]}
        lacking |= {f"{task_id}#0" for task_id in unseen if not any(f == task_id for f, _ in keys[other])}
        _refuse(lacking, f"{arm} rollouts are missing", "run them at the same checkpoint; nothing stands in for them")


_CONDITION_REMEDIES = {
    "checkpoint": "run both arms at the same weights; an old checkpoint's bare run never stands in for B",
    "split": "run both arms on the skill-validation split only",
    "sampling": "run both arms with the same decoding parameters",
    "prompt": "run both arms with the same system prompt and chat template",
    "environment": "run both arms in the same environment version",
}


def _audit_conditions(arms: Mapping[str, list[Scored]]) -> Conditions:
    """Return the shared conditions; in each field the most common value is the reference."""
    rollouts = [(arm, s) for arm, scored in arms.items() for s in scored]
    reference: dict[str, str] = {}
    for name in (f.name for f in fields(Conditions)):
        votes = Counter(getattr(s.conditions, name) for _, s in rollouts)
        value = "skill_validation" if name == "split" else min(votes, key=lambda v: (-votes[v], v))
        found = {f"{arm} {s}": getattr(s.conditions, name) for arm, s in rollouts}
        _refuse(
            {f"{rollout} ({other})" for rollout, other in found.items() if other != value},
            f"rollouts ran under another {name} than {value}",
            _CONDITION_REMEDIES[name],
        )
        reference[name] = value
    return Conditions(**reference)


def _audit_contexts(arms: Mapping[str, list[Scored]], planned: Mapping[str, Visible]) -> None:
    _refuse(
        {str(s) for s in arms["bare"] if s.visible},
        "bare rollouts saw a non-empty context",
        "run them again without skill",
    )
    _refuse(
        {str(s) for s in arms["masked"] if s.visible != planned[s.task_id]},
        "masked rollouts saw another visible set than the planned one",
        "run them again under the plan; a changed plan starts a new gate",
    )


def _audit_rewards(arms: Mapping[str, list[Scored]]) -> tuple[str, ...]:
    """Return the component names, main one included."""
    rollouts = [(f"{arm} {s}", s) for arm, scored in arms.items() for s in scored]
    names = {MAIN_PART}.union(*(s.parts for _, s in rollouts))
    _refuse_where(
        rollouts,
        lambda s: s.reward is None or not all(map(isfinite, (s.reward, *s.parts.values()))),
        "rollouts have a reward that is not finite",
        "mark what broke as a fault and run them again",
    )
    _refuse_where(
        rollouts,
        lambda s: set(s.parts) != names,
        f"rollouts lack a reward component of {sorted(names)}",
        "score them again with every component",
    )
    _refuse_where(
        rollouts,
        lambda s: s.reward != s.parts[MAIN_PART],
        f"rollouts have a reward that differs from their {MAIN_PART}",
        f"give {MAIN_PART} as the main reward",
    )
    return tuple(sorted(names))


def _refuse_where(
    rollouts: Iterable[tuple[str, Scored]], wrong: Callable[[Scored], bool], what: str, remedy: str
) -> None:
    _refuse({name for name, scored in rollouts if wrong(scored)}, what, remedy)


def _refuse(wrong: Collection[str], what: str, remedy: str) -> None:
    if wrong:
        raise PairingError(f"{what}, {offenders(sorted(wrong))}; {remedy}")


def _task_means(rollouts: list[Scored], task_ids: tuple[str, ...], part: str) -> NDArray[np.float64]:
    """Average the replicates of each task, (N,)."""
    values: dict[str, list[float]] = {task_id: [] for task_id in task_ids}
    for scored in rollouts:
        values[scored.task_id].append(scored.parts[part])
    return _frozen(np.array([sum(values[task_id]) / len(values[task_id]) for task_id in task_ids]))


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    array.setflags(write=False)
    return array
