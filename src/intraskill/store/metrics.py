"""Metrics: ``metrics.jsonl`` always, and an optional mirror in wandb or TensorBoard.

One line per step or stage: ``round``, ``stage``, ``step``, then keys ``area/quantity[_unit]``. Only keys that end in
``_s`` or ``_per_s`` hold wall-clock time; everything else is the same bytes after a kill and a resume.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from intraskill.method.errors import ArtifactError
from intraskill.store.json_rows import lines_of, rows_of
from intraskill.store.run_directory import dumps, full_disk_is_one_error, write_text
from intraskill.store.usage import Usage


class Monitor(Protocol):
    """Whoever watches a run: a live display, plain lines, or nobody."""

    def stage(self, round_index: int | None, name: str, total: int) -> None:
        """A stage with ``total`` units of work begins; ``None`` for one that belongs to no round."""

    def advance(self, done: int, *, tokens: int = 0, note: str = "") -> None:
        """``done`` units of the stage are finished, ``tokens`` more were sampled."""

    def spent(self, usage: Usage) -> None:
        """An LLM was asked; ``usage`` is what the run has spent on it so far."""

    def say(self, message: str) -> None:
        """Show one line that stays."""


class Silence:
    """A monitor that shows nothing."""

    def stage(self, round_index: int | None, name: str, total: int) -> None:
        """Ignore it."""

    def advance(self, done: int, *, tokens: int = 0, note: str = "") -> None:
        """Ignore it."""

    def spent(self, usage: Usage) -> None:
        """Ignore it."""

    def say(self, message: str) -> None:
        """Ignore it."""


class Mirror(Protocol):
    """A second place for metrics."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Take one line."""

    def finish_round(self, row: Mapping[str, Any], skill: Path) -> None:
        """Take a finished round's line of ``summary.json``, and the skill document that it committed."""

    def close(self) -> None:
        """Flush."""


class Metrics:
    """The run's metric log.

    Args:
        path: ``metrics.jsonl``.
        mirror: second place, or ``None``.
    """

    def __init__(self, path: Path, mirror: Mirror | None = None) -> None:
        self._path = path
        self._mirror = mirror

    def rewind(self, round_index: int, stage: str, step: int = 0) -> None:
        """Forget what a killed process logged for this stage from ``step`` on; the stage logs it again."""
        if not self._path.exists():
            return
        text = self._path.read_text(encoding="utf-8")
        kept = [line for line in lines_of(text) if _before(line, round_index, stage, step)]
        rewound = "".join(line + "\n" for line in kept)
        if rewound != text:
            write_text(self._path, rewound)

    def log(self, round_index: int, stage: str, step: int, values: Mapping[str, Any]) -> None:
        """Append one line and mirror it."""
        row = {"round": round_index, "stage": stage, "step": step, **values}
        with full_disk_is_one_error(self._path), self._path.open("a", encoding="utf-8") as stream:
            stream.write(dumps(row) + "\n")
        if self._mirror is not None:
            self._mirror.log(row)

    def rows(self) -> list[dict[str, Any]]:
        """Return every whole line; a killed process may have left half of one, which the next run drops.

        Raises:
            ArtifactError: when a whole line is not JSON.
        """
        if not self._path.exists():
            return []
        text = self._path.read_text(encoding="utf-8")
        try:
            return rows_of(text[: text.rfind("\n") + 1])
        except ValueError as error:
            raise ArtifactError(f"{self._path}, {error}; remove that line") from error

    def finish_round(self, row: Mapping[str, Any], skill: Path) -> None:
        """Tell the mirror of a finished round; its own record is the round's directory."""
        if self._mirror is not None:
            self._mirror.finish_round(row, skill)

    def close(self) -> None:
        """Flush the mirror."""
        if self._mirror is not None:
            self._mirror.close()


def _before(line: str, round_index: int, stage: str, step: int) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return not (row["round"] == round_index and row["stage"] == stage and row["step"] >= step)


def log_spending(metrics: Metrics, monitor: Monitor, usage: Usage | None, round_index: int, stage: str) -> None:
    """Log and say what LLMs have cost since the start of the run, in one row per stage; ``None``: none was asked.

    A stage logs it when it ends, also when a budget or an endpoint ends it: all that it asks is paid by then, so the
    row is the same after a kill and a resume.
    """
    if usage is None:
        return
    metrics.rewind(round_index, stage)
    metrics.log(round_index, stage, 0, {f"llm/{name}": value for name, value in usage.spending.items()})
    monitor.say(f"LLM so far: {usage.words()}")
