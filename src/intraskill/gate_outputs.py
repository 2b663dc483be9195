"""The files of a gate that ran alone or was refitted: contributions as CSV and JSON, pairs, and what else was found."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intraskill.assessment import contributions_json, slice_rows
from intraskill.gate_findings import Findings, chunk_table, findings_json
from intraskill.method.tasks import Task
from intraskill.pairs_file import write_pairs
from intraskill.runtime.records import to_json
from intraskill.runtime.run_directory import write_json, write_text
from intraskill.validation import Validation


def write_outputs(
    directory: Path,
    found: Validation,
    findings: Findings,
    *,
    tasks: Sequence[Task] | None,
    further: Mapping[str, Any] | None = None,
) -> None:
    """Write every table of a gate; equal gates give equal bytes.

    Args:
        directory: where.
        found: the gate.
        findings: from `intraskill.gate_findings.find`.
        tasks: with their public features, for ``pairs.parquet``; ``None`` writes none, as after a refit.
        further: other keys of ``gate.json``.
    """
    rows = chunk_table(found)
    content = contributions_json(found.assessment, found.pairs, list(found.excluded))
    write_json(directory / "contributions.json", content | {"chunks": rows})
    write_text(directory / "contributions.csv", _csv(rows))
    write_json(directory / "decision.json", to_json(found.decision) | {"kept": list(found.decision.kept)})
    write_text(directory / "skill.md", found.decision.skill.to_markdown())
    if found.assessment.slices is not None:
        write_text(directory / "slices.csv", _csv(slice_rows(found.assessment.slices)))
    if tasks is not None:
        write_pairs(directory / "pairs.parquet", found, tasks)
    write_json(directory / "gate.json", {**findings_json(found, findings), **(further or {})})


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV; numbers keep every digit, what a row lacks stays empty."""
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["id"]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
