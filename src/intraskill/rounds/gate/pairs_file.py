"""``pairs.parquet``: every audited pair of a gate and all that a refit needs, or a refusal that names what is wrong.

One row per masked replicate: task, split, sample, ``feature.NAME``, ``visible.CHUNK``, B, R, and ``B.PART``, ``R.PART``
for every further reward component. B is the mean of the task's bare replicates. The facts of the gate, the conditions
and the full arm stand in the file's metadata, under the key ``intraskill``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from intraskill.method.errors import ArtifactError, PairingError, SplitError, offenders
from intraskill.method.gate.intervals import Interval
from intraskill.method.gate.pairs import MAIN_PART, VALIDATION_SPLIT, Conditions, Pairs, Scored, pair
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import BARE, Visible
from intraskill.method.tasks import Task
from intraskill.rounds.gate.assess import Validation, assess
from intraskill.rounds.gate.plan import GateFacts, facts_json, read_facts
from intraskill.store.records import from_json, to_json
from intraskill.store.run_directory import dumps, full_disk_is_one_error

_Frame: TypeAlias = Any
"""A pandas data frame."""
KEY = b"intraskill"
_FIXED = ("task_id", "split", "sample", "B", "R")


def write_pairs(path: Path, found: Validation, tasks: Sequence[Task]) -> None:
    """Write the file whole or not at all; equal gates give equal bytes under equal versions of pandas and pyarrow."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = pd.DataFrame(_columns(found.pairs, {task.id: task for task in tasks}))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    about = _metadata(found) | {"rows": _rows_hash(frame)}
    metadata = {**(table.schema.metadata or {}), KEY: dumps(about).encode()}
    aside = path.with_name(f".{path.name}.tmp")
    with full_disk_is_one_error(path):
        pq.write_table(table.replace_schema_metadata(metadata), aside)
        aside.replace(path)


def _columns(pairs: Pairs, tasks: Mapping[str, Task]) -> dict[str, Any]:
    """Return the columns in file order; samples count the rows of a task."""
    seen: dict[str, int] = {}
    samples = []
    for task_id in pairs.task_ids:
        samples.append(seen.get(task_id, 0))
        seen[task_id] = samples[-1] + 1
    features = sorted({name for task in tasks.values() for name in task.features})
    columns: dict[str, Any] = {
        "task_id": list(pairs.task_ids),
        "split": [pairs.conditions.split] * len(pairs.task_ids),
        "sample": samples,
    }
    for name in features:
        columns[f"feature.{name}"] = [tasks[task_id].features.get(name, "") for task_id in pairs.task_ids]
    for j, chunk_id in enumerate(pairs.chunk_ids):
        columns[f"visible.{chunk_id}"] = pairs.design_NJ[:, j] == 1.0
    columns |= {"B": pairs.bare_N, "R": pairs.masked_N}
    for part in sorted(set(pairs.masked_parts) - {MAIN_PART}):
        columns |= {f"B.{part}": pairs.bare_parts[part], f"R.{part}": pairs.masked_parts[part]}
    return columns


def _rows_hash(frame: _Frame) -> str:
    """Return a hash of every value, whatever the order of the rows."""
    columns = sorted(frame.columns)
    rows = frame.sort_values(["task_id", "sample"])[columns]
    return content_hash(columns, [rows[name].tolist() for name in columns])


def _metadata(found: Validation) -> dict[str, Any]:
    pairs = found.pairs
    return {
        "version": 1,
        "facts": facts_json(found.facts),
        "conditions": to_json(pairs.conditions),
        "titles": {chunk.id: chunk.title for chunk in found.facts.columns.chunks},
        "tasks": sorted(set(pairs.task_ids)),
        "parts": sorted(pairs.masked_parts),
        "num_bare": pairs.num_bare,
        "num_masked": pairs.num_masked,
        "excluded": list(found.excluded),
        "stopped": found.stopped,
        "shown": sorted(found.shown),
        "full": [{"task_id": s.task_id, "sample": s.sample, "parts": dict(s.parts)} for s in found.full],
        **{name: to_json(getattr(found, name)) for name in ("r_free", "r_pair", "gap")},
    }


def read_pairs(path: Path, **changed: Any) -> Validation:
    """Recompute a gate from its recorded rows: no model, no environment, the same numbers bit for bit.

    Args:
        path: what `write_pairs` wrote.
        changed: options of the section ``gate`` to replace, such as ``estimator`` or ``policy``.

    Raises:
        ArtifactError: when it is no such file, lacks a column, or was edited.
        PairingError: for a number that is not finite, a duplicate or missing pair, or two bare rewards of one task.
        SplitError: for a row of another split than skill_validation.
    """
    frame, about = _read(path)
    facts = read_facts(about["facts"], path)
    facts = replace(facts, gate=replace(facts.gate, **changed))
    conditions = from_json(Conditions, about["conditions"], path)
    _audit_rows(path, frame, about, facts)
    bare, masked, planned = _scored(frame, about["parts"], facts, conditions)
    pairs = pair(bare, masked, planned, facts.columns.ids)
    pairs = replace(pairs, num_bare=about["num_bare"], num_masked=about["num_masked"])
    shown = frozenset(about["shown"])
    full = [
        Scored(row["task_id"], row["sample"], shown, row["parts"][MAIN_PART], row["parts"], conditions)
        for row in about["full"]
    ]
    measured = {name: _interval(about[name], path) for name in ("r_pair", "gap")}
    r_free = from_json(Interval, about["r_free"], path)
    found = assess(facts, pairs, every_estimator=True)
    left = tuple(about["excluded"])
    return Validation(facts, pairs, found, left, shown, tuple(full), r_free, **measured, stopped=about["stopped"])


def _interval(data: Any, path: Path) -> Interval | None:
    return None if data is None else from_json(Interval, data, path)


def _read(path: Path) -> tuple[_Frame, dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise ArtifactError(f"there is no file {path}; give the pairs.parquet of a gate")
    try:
        table = pq.read_table(path)
        about: dict[str, Any] = json.loads((table.schema.metadata or {})[KEY])
    except (OSError, pa.ArrowException) as error:
        raise ArtifactError(f"{path} cannot be read as parquet ({error}); give the pairs.parquet of a gate") from error
    except (KeyError, ValueError) as error:
        raise ArtifactError(
            f"{path} does not say which gate its rows are from; give a pairs.parquet that `intraskill validate` wrote"
        ) from error
    return table.to_pandas(), about


def _audit_rows(path: Path, frame: _Frame, about: Mapping[str, Any], facts: GateFacts) -> None:
    """Refuse what cannot be the rows of one gate."""
    further = [part for part in about["parts"] if part != MAIN_PART]
    numbers = ["B", "R", *(f"{arm}.{part}" for part in further for arm in "BR")]
    shown = [f"visible.{chunk_id}" for chunk_id in facts.columns.ids]
    needed = [*_FIXED, *numbers[2:], *shown]
    if lacking := [name for name in needed if name not in frame.columns]:
        raise ArtifactError(f"{path} lacks columns, {offenders(lacking)}; restore the file that `validate` wrote")
    if empty := [name for name in needed if frame[name].isna().any()]:
        rows = _names(frame[frame[empty].isna().any(axis=1)])
        raise PairingError(f"{path} holds NaN in {offenders(empty)}, in pairs {offenders(rows)}; restore the rows")
    if infinite := [name for name in numbers if not np.isfinite(frame[name].to_numpy(dtype=float)).all()]:
        raise PairingError(f"{path} holds numbers that are not finite in {offenders(infinite)}; restore the rows")
    if (wrong := frame[frame["split"] != VALIDATION_SPLIT]).size:
        rows = [f"{row.task_id} ({row.split})" for row in wrong.itertuples()]
        raise SplitError(f"{path} holds rows of another split than {VALIDATION_SPLIT}, {offenders(rows)}; remove them")
    if (twice := frame[frame.duplicated(["task_id", "sample"])]).size:
        raise PairingError(f"{path} holds pairs more than once, {offenders(_names(twice))}; keep the first of each")
    planned = {f"{task_id}#{s}" for task_id in about["tasks"] for s in range(facts.design.masked_replicates)}
    if lost := sorted(planned - set(_names(frame))):
        raise PairingError(f"{path} lacks pairs of its gate, {offenders(lost)}; restore the rows, none may be dropped")
    if extra := sorted(set(_names(frame)) - planned):
        raise PairingError(f"{path} holds pairs that its gate never ran, {offenders(extra)}; remove them")
    bare = frame.groupby("task_id")[["B", *(f"B.{part}" for part in further)]].nunique().max(axis=1)
    if unequal := sorted(bare[bare > 1].index):
        raise PairingError(f"{path} holds several bare rewards for one task, {offenders(unequal)}; restore the rows")
    if about.get("rows") != _rows_hash(frame):
        raise ArtifactError(f"{path} was changed since its gate wrote it; restore the file, or run the gate again")


def _names(frame: _Frame) -> list[str]:
    return [f"{row.task_id}#{row.sample}" for row in frame.itertuples()]


def _scored(
    frame: _Frame, parts: Sequence[str], facts: GateFacts, conditions: Conditions
) -> tuple[list[Scored], list[Scored], dict[str, tuple[Visible, ...]]]:
    """Return bare rollouts, masked rollouts and masks; a task's B stands as one bare rollout."""
    bare: dict[str, Scored] = {}
    masked: list[Scored] = []
    planned: dict[str, tuple[Visible, ...]] = {}
    chunk_ids = facts.columns.ids
    for row in frame.sort_values(["task_id", "sample"]).to_dict("records"):
        shown = frozenset(chunk_id for chunk_id in chunk_ids if row[f"visible.{chunk_id}"])
        task_id, sample = row["task_id"], int(row["sample"])
        b, r = ({part: float(row[_column(arm, part)]) for part in parts} for arm in "BR")
        bare[task_id] = Scored(task_id, 0, BARE, b[MAIN_PART], b, conditions)
        masked.append(Scored(task_id, sample, shown, r[MAIN_PART], r, conditions))
        planned[task_id] = (*planned.get(task_id, ()), shown)
    return list(bare.values()), masked, planned


def _column(arm: str, part: str) -> str:
    return arm if part == MAIN_PART else f"{arm}.{part}"
