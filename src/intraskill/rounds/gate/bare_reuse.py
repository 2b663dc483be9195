"""A gate alone may reuse a bare run of the same run directory: the very rollouts that it would run itself, or none.

A bare rollout is addressed by the run's seed, the round of its checkpoint, task and sample. Under the same weights and
conditions the same address gives the same rollout, so reuse never changes a number; everything else is refused by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.method.errors import PairingError, offenders
from intraskill.method.rollouts import Episode
from intraskill.rl.learner import Learner
from intraskill.store.artifacts import BARE_ARM, MASKS, PLAN
from intraskill.store.contents import GateMasks
from intraskill.store.run_directory import is_sealed, verify, write_jsonl

Rows = dict[tuple[str, int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class BareRun:
    """Where the bare rollouts of a gate come from.

    Attributes:
        source: the reused file, or ``None`` when they were run anew.
        refused: what was found but not reused, and why.
    """

    source: str | None
    refused: tuple[str, ...] = ()

    def words(self) -> str:
        """Say it in one sentence."""
        if self.source is not None:
            return f"The bare rollouts are those of {self.source}."
        why = f": {'; '.join(self.refused)}" if self.refused else ""
        return f"The bare rollouts were run anew{why}."


@dataclass(frozen=True, slots=True)
class Wanted:
    """The bare run that a gate needs.

    Attributes:
        episodes: its episodes, in order.
        round_index: of its address.
        seed: of its address.
        learner: at the weights of the gate.
    """

    episodes: Sequence[Episode]
    round_index: int
    seed: int
    learner: Learner


def take_bare_run(directory: Path, root: Path | None, wanted: Wanted, named: Path | None = None) -> BareRun:
    """Copy a matching bare run into ``directory``, if there is one.

    Args:
        directory: of the gate alone.
        root: the run directory to search, or ``None``.
        wanted: what would be run otherwise.
        named: a directory or file that the user named; it matches or the gate is refused.

    Raises:
        PairingError: when the named run does not match, saying why.
    """
    candidates = [named] if named is not None else _candidates(root, directory, wanted.learner.checkpoint)
    refused: list[str] = []
    for candidate in candidates:
        gate = candidate.parent if candidate.name == BARE_ARM.name else candidate
        rows, why = _matching(gate, wanted)
        if why:
            refused.append(f"{gate} not reused: {why}")
            continue
        write_jsonl(BARE_ARM.path(directory), [rows[episode.task.id, episode.sample] for episode in wanted.episodes])
        return BareRun(str(BARE_ARM.path(gate)), tuple(refused))
    if named is not None:
        raise PairingError(f"{refused[0]}; leave out --bare to run the bare arm anew")
    return BareRun(None, tuple(refused))


def dependence(directory: Path, root: Path | None, wanted: Wanted) -> str:
    """Say which gates share rollouts with this one, so that nobody averages what was measured once.

    Args:
        directory: of the gate alone, holding its ``masks.json``.
        root: the run directory to search, or ``None``; gates beside ``directory`` are searched too.
        wanted: its bare run.
    """
    own = MASKS.read(directory).seeds or {}
    plans = {gate: MASKS.read(gate) for gate in _gates_at(root, directory, wanted.learner.checkpoint)}
    same = {gate: plan for gate, plan in plans.items() if plan.round == wanted.round_index}
    bare = [gate.name for gate, plan in same.items() if bare_seed(plan, gate) == wanted.seed]
    drawn = [gate.name for gate, plan in same.items() if (plan.seeds or {}).get("masks") == own["masks"]]
    advice = (
        "An independent measurement needs another seed; another policy or estimator of the same rows is `validate "
        "--refit`."
    )
    if not bare and not drawn:
        known = "of this run" if root else "beside it; the checkpoint is of no run, so no more is known"
        return f"Shares its seeds with no finished gate {known}. {advice}"
    text = f"Not independent of {', '.join(bare)}: same bare runs" if bare else ""
    if drawn:
        text += f"{'; n' if text else 'N'}ot independent of {', '.join(drawn)}: same seeds of masks and masked runs"
    return f"{text}. {advice}"


def _gates_at(root: Path | None, directory: Path, checkpoint: str) -> list[Path]:
    """Return the other gates at these weights, rounds first: of the run, and beside ``directory``."""
    found = [path.parent for path in sorted(root.glob(f"round_*/{BARE_ARM.name}"))] if root else []
    beside = [*(root.glob(f"validations/*/{MASKS.name}") if root else ()), *directory.parent.glob(f"*/{MASKS.name}")]
    unique = {gate.resolve(): gate for gate in (*found, *(path.parent for path in sorted(beside)))}
    unique.pop(directory.resolve(), None)
    planned = [gate for gate in unique.values() if MASKS.exists(gate)]
    return [gate for gate in planned if MASKS.read(gate).checkpoint == checkpoint]


def _candidates(root: Path | None, directory: Path, checkpoint: str) -> list[Path]:
    """Return every gate of the run at these weights that has a whole bare arm: rounds first, the newest first."""
    if root is None:
        return []
    rounds = [path.parent for path in sorted(root.glob(f"round_*/{BARE_ARM.name}"), reverse=True)]
    alone = [path.parent for path in sorted(root.glob(f"validations/*/{BARE_ARM.name}"))]
    whole = [gate for gate in (*rounds, *alone) if gate != directory and MASKS.exists(gate)]
    return [gate for gate in whole if MASKS.read(gate).checkpoint == checkpoint]


def _matching(gate: Path, wanted: Wanted) -> tuple[Rows, str]:
    """Return the rows by task and sample, or why this run cannot stand in."""
    if not MASKS.exists(gate) or not BARE_ARM.exists(gate):
        return {}, "it holds no masks.json and bare.jsonl of a gate"
    if is_sealed(gate):
        verify(gate, MASKS.name, BARE_ARM.name)
    if why := _other_conditions(MASKS.read(gate), gate, wanted):
        return {}, why
    rows: Rows = {(row["task_id"], row["sample"]): row for row in BARE_ARM.data(gate)}
    keys = [(episode.task.id, episode.sample) for episode in wanted.episodes]
    if lacking := [f"{task_id}#{sample}" for task_id, sample in keys if (task_id, sample) not in rows]:
        return {}, f"it lacks rollouts, {offenders(lacking)}"
    needed = {f"{key[0]}#{key[1]}": rows[key] for key in keys}
    checkpoint = wanted.learner.checkpoint
    for what, wrong in {
        "rollouts of another checkpoint": [name for name, row in needed.items() if row["checkpoint"] != checkpoint],
        "rollouts that saw a chunk": [name for name, row in needed.items() if row["visible"]],
        "rollouts that ended in a fault": [name for name, row in needed.items() if row["fault"] is not None],
    }.items():
        if wrong:
            return {}, f"it holds {what}, {offenders(wrong)}"
    return rows, ""


def _other_conditions(plan: GateMasks, gate: Path, wanted: Wanted) -> str:
    """Return which of checkpoint, sampling, prompt, environment, seed and address differs."""
    here: dict[str, Any] = {**wanted.learner.conditions, "checkpoint": wanted.learner.checkpoint}
    here |= {"seed": wanted.seed, "round": wanted.round_index}
    there = {
        **plan.conditions,
        "checkpoint": plan.checkpoint,
        "round": plan.round,
        "seed": bare_seed(plan, gate),
    }
    differing = sorted(name for name in here if there.get(name) != here[name])
    return f"another {' and '.join(differing)}" if differing else ""


def bare_seed(plan: GateMasks, gate: Path) -> int | None:
    """Return the seed of the bare arm; a gate that did not write it down had the seed of its run."""
    if plan.seeds is not None:
        return plan.seeds["bare"]
    return int(PLAN.read(gate.parent)["plan"]["seed"]) if PLAN.exists(gate.parent) else None
