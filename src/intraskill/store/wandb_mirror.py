"""Metrics in wandb: one run for one run directory, whatever stopped it in between; offline by default."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intraskill.store.run_directory import read_text, write_text
from intraskill.store.tracked import gate_numbers, numbers_of, step_of

_ID = ".wandb-id"
_STEP = "global_step"


class WandbMirror:
    """Mirror into a wandb run.

    All names of `intraskill.store.tracked` stand over ``global_step``, the training steps since the start. Each round's
    skill is a version of the artifact ``skill-<run id>``.

    Args:
        directory: the run directory; wandb keeps its files there, and the run's id.
        project: wandb project.
        mode: ``offline``, ``online`` or ``disabled``.
        group: wandb group; empty = none.
        config: resolved config by dotted name.
    """

    def __init__(self, directory: Path, project: str, mode: str, config: Mapping[str, Any], group: str = "") -> None:
        import wandb

        self._steps = int(config.get("grpo.steps_per_round", 0))
        kept = directory / _ID
        if not kept.exists():
            write_text(kept, secrets.token_hex(8))
        self._run = wandb.init(
            dir=str(directory),
            project=project,
            mode=mode,  # type: ignore[arg-type]
            id=read_text(kept).strip(),
            resume="allow",
            group=group or None,
            name=directory.name,
            config=dict(config),
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric(_STEP)
        self._run.define_metric("*", step_metric=_STEP)

    def log(self, row: Mapping[str, Any]) -> None:
        """Take one line; its numbers only."""
        self._run.log({_STEP: step_of(row, self._steps), **numbers_of(row)})

    def finish_round(self, row: Mapping[str, Any], skill: Path) -> None:
        """Take what a gate measured, and the skill that its round committed."""
        import wandb

        self._run.log({_STEP: step_of(row, self._steps), **gate_numbers(row)})
        document = wandb.Artifact(f"skill-{self._run.id}", type="skill", metadata={"round": row["round"]})
        document.add_file(str(skill), name="skill.md")
        self._run.log_artifact(document, aliases=[f"round-{row['round']}"])

    def close(self) -> None:
        """Finish the wandb run."""
        self._run.finish()
