"""Metrics in TensorBoard: event files in the run directory that say what the run's own records say."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intraskill.method.errors import ConfigError
from intraskill.store.artifacts import METRICS, ROUND, SKILL
from intraskill.store.metrics import Metrics
from intraskill.store.run_directory import is_sealed, read_text
from intraskill.store.tracked import gate_numbers, numbers_of, step_of


class TensorBoardMirror:
    """Mirror into event files under ``RUN/tensorboard``; `intraskill.store.tracked` gives the names.

    Each process writes the files anew from ``metrics.jsonl`` and the sealed rounds, and goes on from there, so nothing
    of a killed process stands there twice. The config and each round's skill are texts.

    Args:
        directory: the run directory.
        config: resolved config by dotted name.

    Raises:
        ConfigError: when tensorboardX is not installed.
    """

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        try:
            import tensorboardX  # noqa: F401  # asked for here, so that a run without it ends before it begins
        except ImportError as error:
            remedy = "pip install 'intraskill[tensorboard]'"
            raise ConfigError(f"tracking.name=tensorboard needs tensorboardX: {remedy}") from error
        self._directory, self._config = directory, config
        self._steps = int(config.get("grpo.steps_per_round", 0))
        self._writer: Any = None

    def log(self, row: Mapping[str, Any]) -> None:
        """Take one line of ``metrics.jsonl``, which stands there already; its numbers only."""
        if self._writer is None:
            self._catch_up()
        else:
            self._add(numbers_of(row), step_of(row, self._steps))

    def finish_round(self, row: Mapping[str, Any], skill: Path) -> None:
        """Take what a gate measured, and the skill that its sealed round committed."""
        if self._writer is None:
            self._catch_up()
        else:
            self._finish(row, skill)

    def close(self) -> None:
        """Flush."""
        if self._writer is not None:
            self._writer.close()

    def _catch_up(self) -> None:
        from tensorboardX import SummaryWriter

        folder = self._directory / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self._writer = SummaryWriter(str(folder))
        self._writer.add_text("config", "\n".join(f"    {key}={value}" for key, value in self._config.items()), 0)
        for row in Metrics(METRICS.path(self._directory)).rows():
            self._add(numbers_of(row), step_of(row, self._steps))
        for round_directory in filter(is_sealed, sorted(self._directory.glob("round_*"))):
            self._finish(ROUND.read(round_directory), SKILL.path(round_directory))

    def _finish(self, row: Mapping[str, Any], skill: Path) -> None:
        at = step_of(row, self._steps)
        self._add(gate_numbers(row), at)
        self._writer.add_text("skill", read_text(skill), at)

    def _add(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
