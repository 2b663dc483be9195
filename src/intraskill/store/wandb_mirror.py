"""Metrics in wandb: one run for one run directory, whatever stopped it in between; offline by default."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intraskill.store.run_directory import read_text, write_text

_ID = ".wandb-id"
_STEP = "global_step"


class WandbMirror:
    """Mirror into a wandb run.

    Names are ``train/…`` for training, ``<stage>/…`` for every other stage, such as ``bare/reward``, ``gate/r_free``,
    ``gate/r_pair`` and ``gate/gap`` with their ends, and ``chunk/<title>/beta``. All stand over ``global_step``, the
    training steps since the start. Each round's skill is a version of the artifact ``skill-<run id>``.

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
        stage, trained = str(row["stage"]), row["stage"] == "train"
        at = self._at(int(row["round"]), int(row["step"]) + 1 if trained else None)
        numbers = {key: value for key, value in row.items() if "/" in key and isinstance(value, int | float)}
        named = numbers if trained else {key.replace("eval/", f"{stage}/", 1): value for key, value in numbers.items()}
        self._run.log({_STEP: at, **named})

    def finish_round(self, row: Mapping[str, Any], skill: Path) -> None:
        """Take what a gate measured, and the skill that its round committed."""
        import wandb

        values: dict[str, float] = {}
        for name, key in (("r_free", "r_free_interval"), ("r_pair", "r_pair_interval"), ("gap", "gap")):
            interval = row.get(key) or {}
            values |= {f"gate/{name}": interval["mean"]} if interval else {}
            values |= {f"gate/{name}_{end}": interval[end] for end in ("low", "high") if interval}
        for chunk in row["chunks"]:
            title = chunk["title"].replace("/", " ")
            numbers = {name: chunk.get(name) for name in ("beta", "se", "exposure")}
            values |= {f"chunk/{title}/{name}": value for name, value in numbers.items() if value is not None}
        self._run.log({_STEP: self._at(int(row["round"]), None), **values})
        document = wandb.Artifact(f"skill-{self._run.id}", type="skill", metadata={"round": row["round"]})
        document.add_file(str(skill), name="skill.md")
        self._run.log_artifact(document, aliases=[f"round-{row['round']}"])

    def close(self) -> None:
        """Finish the wandb run."""
        self._run.finish()

    def _at(self, round_index: int, step: int | None) -> int:
        """Return the training steps so far: round 0 has none, and a gate stands at the end of its round's."""
        return max(0, round_index - 1) * self._steps + (step if step is not None else self._steps * (round_index > 0))
