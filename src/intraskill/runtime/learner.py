"""The seam between the loop and whatever acts and learns: a torch policy, or a planted world without a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from intraskill.method.rollouts import Episode, GroupResult, Rollout


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
