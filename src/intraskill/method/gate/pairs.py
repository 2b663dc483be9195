"""Pairs: rewards of the same tasks with no skill and under planned visible sets, audited (method §7.2).

    B_i      reward of task i with no skill; the mean of its bare runs
    C_ij     whether a masked run of task i shows chunk j: drawn before any reward (`intraskill.method.gate.designs`)
    R_i      reward of task i under C_i
    delta_i  R_i − B_i

`pair` makes one row of each masked run. With several masked runs a task has several rows over one B, and they are
clustered by it. The records refuse to be built by hand: what is in them has passed the audit.

Shape letters: N rows (masked runs of tasks), J chunks of the pool.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import PairingError, offenders
from intraskill.method.gate.designs import Masks
from intraskill.method.rewards import MAIN_PART as MAIN_PART
from intraskill.method.skill.skill import ChunkId, Visible

Vector = NDArray[np.float64]
Parts = Mapping[str, Vector]
VALIDATION_SPLIT = "skill_validation"


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


def _audit_presence(arms: Mapping[str, list[Scored]], planned: Mapping[str, set[tuple[str, int]]]) -> None:
    """Refuse, in every arm, a (task, sample) that was never planned, and a planned one that is missing."""
    if not all(planned.values()):
        raise PairingError("the plan holds no task; the gate needs skill-validation tasks")
    for arm, scored in arms.items():
        present = {(s.task_id, s.sample) for s in scored}
        extra, lacking = (
            {f"{task_id}#{sample}" for task_id, sample in keys}
            for keys in (present - planned[arm], planned[arm] - present)
        )
        _refuse(extra, f"{arm} rollouts were run but never planned", "remove them")
        _refuse(lacking, f"{arm} rollouts are missing", "run them at the same checkpoint; nothing stands in for them")


_CONDITION_REMEDIES = {
    "checkpoint": "run both arms at the same weights; an old checkpoint's bare run never stands in for B",
    "split": "run both arms on the skill-validation split only",
    "sampling": "run both arms with the same decoding parameters",
    "prompt": "run both arms with the same system prompt and chat template",
    "environment": "run both arms in the same environment version",
}


def _audit_conditions(arms: Mapping[str, list[Scored]], given: Conditions | None = None) -> Conditions:
    """Return the shared conditions: those given, or else in each field the most common value."""
    rollouts = [(arm, s) for arm, scored in arms.items() for s in scored]
    reference: dict[str, str] = {}
    for name in (f.name for f in fields(Conditions)):
        votes = Counter(getattr(s.conditions, name) for _, s in rollouts)
        value = VALIDATION_SPLIT if name == "split" else min(votes, key=lambda v: (-votes[v], v))
        value = value if given is None else getattr(given, name)
        found = {f"{arm} {s}": getattr(s.conditions, name) for arm, s in rollouts}
        _refuse(
            {f"{rollout} ({other})" for rollout, other in found.items() if other != value},
            f"rollouts ran under another {name} than {value}",
            _CONDITION_REMEDIES[name],
        )
        reference[name] = value
    return Conditions(**reference)


def _audit_contexts(arms: Mapping[str, list[Scored]], planned: Masks) -> None:
    """Refuse a bare rollout that saw a chunk, and a masked one that saw another set than planned."""
    _refuse(
        {str(s) for s in arms["bare"] if s.visible},
        "bare rollouts saw a non-empty context",
        "run them again without skill",
    )
    _refuse(
        {str(s) for s in arms["masked"] if s.visible != planned[s.task_id][s.sample]},
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


def audit_shown_arm(
    arm: str, rollouts: Iterable[Scored], tasks: Collection[str], shown: Visible, conditions: Conditions
) -> list[Scored]:
    """Return the completed rollouts of an arm that shows one set of chunks on some of a gate's tasks, or refuse."""
    done = _completed(arm, rollouts)
    _refuse({str(s) for s in done if s.task_id not in tasks}, f"{arm} rollouts of tasks without a pair", "remove them")
    _audit_conditions({arm: done}, conditions)
    _refuse(
        {str(s) for s in done if s.visible != shown},
        f"{arm} rollouts saw another visible set than the {len(shown)} chunks of their arm",
        "run them again with these chunks",
    )
    _audit_rewards({arm: done})
    return done


def _refuse_where(
    rollouts: Iterable[tuple[str, Scored]], wrong: Callable[[Scored], bool], what: str, remedy: str
) -> None:
    _refuse({name for name, scored in rollouts if wrong(scored)}, what, remedy)


def _refuse(wrong: Collection[str], what: str, remedy: str) -> None:
    if wrong:
        raise PairingError(f"{what}, {offenders(sorted(wrong))}; {remedy}")


_MADE_BY_AUDIT = object()


def _frozen(array: Vector) -> Vector:
    """Make an array read-only."""
    array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True, eq=False)
class MaskedOnly:
    """Audited masked rows with no place for a bare reward; only `Pairs.masked_only` makes them.

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
        if self._maker is not _MADE_BY_AUDIT:
            raise PairingError("MaskedOnly comes from the masked_only of audited Pairs only")


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Audited pairs; only `pair` makes them.

    Attributes:
        task_ids: (N,) task of each row, sorted; it repeats where a task has several masked runs.
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
        if self._maker is not _MADE_BY_AUDIT:
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
            _maker=_MADE_BY_AUDIT,
        )

    def of_tasks(self, tasks: Iterable[str]) -> "Pairs":
        """Return the rows of some tasks: part of audited pairs is audited.

        Rollouts are counted in proportion.
        """
        wanted = frozenset(tasks)
        keep_N = np.array([task_id in wanted for task_id in self.task_ids], dtype=bool)
        share = float(keep_N.mean()) if keep_N.size else 0.0

        def part(parts: Parts) -> dict[str, Vector]:
            return {name: _frozen(values_N[keep_N]) for name, values_N in parts.items()}

        return replace(
            self,
            task_ids=tuple(task_id for task_id in self.task_ids if task_id in wanted),
            design_NJ=_frozen(self.design_NJ[keep_N]),
            delta_N=_frozen(self.delta_N[keep_N]),
            part_deltas=part(self.part_deltas),
            bare_N=_frozen(self.bare_N[keep_N]),
            masked_N=_frozen(self.masked_N[keep_N]),
            bare_parts=part(self.bare_parts),
            masked_parts=part(self.masked_parts),
            num_bare=round(self.num_bare * share),
            num_masked=round(self.num_masked * share),
        )


def pair(
    bare: Iterable[Scored],
    masked: Iterable[Scored],
    planned: Masks,
    chunk_ids: Sequence[ChunkId],
    *,
    bare_replicates: int = 1,
) -> Pairs:
    """Join every masked run with the mean bare reward of its task, or refuse; input order does not matter.

    Args:
        bare: rollouts without skill, samples 0 … ``bare_replicates`` − 1 of every task: the very ones behind the
            reported skill-free score.
        masked: rollouts under the planned visible sets; sample s of a task saw ``planned[task][s]``.
        planned: one visible set per task and masked run, from `intraskill.method.gate.designs.plan_masks`.
        chunk_ids: chunks of the pool, (J,), in document order.
        bare_replicates: bare runs of every task.

    Raises:
        PairingError: for every kind of non-pair, each with its own message: count, three offenders, remedy.
    """
    arms = {"bare": _completed("bare", bare), "masked": _completed("masked", masked)}
    rows = [(task_id, sample) for task_id in sorted(planned) for sample in range(len(planned[task_id]))]
    shown = [planned[task_id][sample] for task_id, sample in rows]
    if unknown := sorted(frozenset().union(*shown) - set(chunk_ids)):
        raise PairingError(f"the plan shows chunks that are not in the pool, {offenders(unknown)}; plan on this pool")
    needed = {(task_id, sample) for task_id in planned for sample in range(bare_replicates)}
    _audit_presence(arms, {"bare": needed, "masked": set(rows)})
    conditions = _audit_conditions(arms)
    _audit_contexts(arms, planned)
    task_ids, parts = tuple(task_id for task_id, _ in rows), _audit_rewards(arms)
    part_B, part_R = _bare_means(arms["bare"], task_ids, parts), _rewards(arms["masked"], parts)
    design_NJ = np.array([[chunk_id in visible for chunk_id in chunk_ids] for visible in shown], dtype=float)
    return Pairs(
        task_ids=task_ids,
        chunk_ids=tuple(chunk_ids),
        design_NJ=_frozen(design_NJ.reshape(len(rows), len(chunk_ids))),
        delta_N=_frozen(part_R[MAIN_PART] - part_B[MAIN_PART]),
        part_deltas={name: _frozen(part_R[name] - part_B[name]) for name in parts},
        bare_N=part_B[MAIN_PART],
        masked_N=part_R[MAIN_PART],
        conditions=conditions,
        bare_parts=part_B,
        masked_parts=part_R,
        num_bare=len(arms["bare"]),
        num_masked=len(arms["masked"]),
        _maker=_MADE_BY_AUDIT,
    )


def _bare_means(bare: Sequence[Scored], task_ids: Sequence[str], parts: Sequence[str]) -> dict[str, Vector]:
    """Return the mean of each row's task, (N,) per reward component."""
    runs: dict[str, list[Scored]] = {}
    for scored in bare:
        runs.setdefault(scored.task_id, []).append(scored)
    means = {name: {t: sum(s.parts[name] for s in own) / len(own) for t, own in runs.items()} for name in parts}
    return {name: _frozen(np.array([mean[task_id] for task_id in task_ids])) for name, mean in means.items()}


def _rewards(masked: Sequence[Scored], parts: Sequence[str]) -> dict[str, Vector]:
    """Return the rewards of the masked runs, which are sorted by (task, sample) as the rows are."""
    return {name: _frozen(np.array([float(scored.parts[name]) for scored in masked])) for name in parts}
