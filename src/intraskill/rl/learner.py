"""The seam between the loop and whatever acts and learns, and its saved states between two commits."""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from intraskill.method.rollouts import Episode, GroupResult, Rollout
from intraskill.store.run_directory import directory_written_whole, read_json, write_json


class Learner(Protocol):
    """A policy in its environment, with its optimizer."""

    @property
    def checkpoint(self) -> str:
        """Hash of the weights that `run` would serve now."""

    @property
    def conditions(self) -> dict[str, str]:
        """Hashes of what else a fair comparison holds fixed: ``sampling``, ``prompt``, ``environment``."""

    def run(self, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        """Run every episode at the current weights, in order; a technical failure becomes a `Rollout.fault`."""

    def update(self, groups: Sequence[GroupResult]) -> dict[str, Any]:
        """Take one optimizer step on groups that carry signal; return metrics named ``area/quantity[_unit]``.

        ``train/warning`` is one sentence for whoever watches the run.
        """

    def save(self, directory: Path) -> None:
        """Write weights and optimizer state into ``directory`` (which exists)."""

    def load(self, directory: Path) -> None:
        """Restore exactly what `save` wrote.

        Raises:
            CheckpointError: if it is missing, corrupt, or of another model.
        """


_PROGRESS = "progress.json"


class SavePoints:
    """When a training state is due: every so many steps, and when so many minutes have passed since the last one.

    Where a step takes seconds the steps decide, where it takes half an hour the clock does; a save changes no number.

    Args:
        steps: steps between two states.
        minutes: longest time without one.
    """

    def __init__(self, steps: int, minutes: float) -> None:
        self._steps, self._seconds = steps, 60.0 * minutes
        self._last = time.monotonic()

    def due(self, done: int) -> bool:
        """Return whether a state is due after ``done`` steps; if so the clock starts again."""
        due = done % self._steps == 0 or time.monotonic() - self._last >= self._seconds
        if due:
            self._last = time.monotonic()
        return due


def save_state(learner: Learner, folder: Path, step: int, facts: Mapping[str, Any]) -> None:
    """Write weights, optimizer state and ``facts`` as ``folder/step_000012``; older states go."""
    folder.mkdir(exist_ok=True)
    name = f"step_{step:06d}"
    with directory_written_whole(folder / name) as aside:
        learner.save(aside)
        write_json(aside / _PROGRESS, {"step": step, **facts})
    for older in folder.glob("step_*"):
        if older.name != name:
            shutil.rmtree(older)


def load_newest(learner: Learner, folder: Path) -> dict[str, Any] | None:
    """Load the newest saved state and return its facts, ``step`` among them, or ``None`` when there is none."""
    saved = sorted(path for path in folder.glob("step_*") if (path / _PROGRESS).exists())
    if not saved:
        return None
    facts: dict[str, Any] = read_json(saved[-1] / _PROGRESS)
    learner.load(saved[-1])
    return facts
