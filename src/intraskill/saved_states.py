"""Training states between two commits: the newest whole one is where a killed stage goes on."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intraskill.runtime.learner import Learner
from intraskill.runtime.run_directory import directory_written_whole, read_json, write_json

_PROGRESS = "progress.json"


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
