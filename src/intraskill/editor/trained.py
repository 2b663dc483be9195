"""A trained editor as files: how its prompts look, and where its weights are; free of heavy imports.

An editor is only as good as the prompts that it was trained on, so one without a record of them is refused.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from intraskill.config.config import Config, unflatten
from intraskill.config.quoting import assignment
from intraskill.config.shipped import CONFIGS
from intraskill.editor.evidence import EvidenceLimits
from intraskill.editor.setup import limits_of
from intraskill.method.errors import ConfigError
from intraskill.store.artifacts import PLAN
from intraskill.store.provenance import plan_record
from intraskill.store.run_directory import is_sealed

TINY, TINY_EXPERIMENT = "tiny_editor", "editor_tiny"


@dataclass(frozen=True, slots=True)
class TrainedEditor:
    """What a directory says about the editor in it.

    Attributes:
        path: as given.
        config: of its training; `policy.path` there holds the weights that it started from.
        checkpoint: its weights, on top of these; ``None`` for the shipped one, which is there already.
        prompt: hash of the prompts that it was trained on; ``""`` for the shipped one.
    """

    path: str
    config: Config
    checkpoint: Path | None = None
    prompt: str = ""

    @property
    def limits(self) -> EvidenceLimits:
        """How much evidence one of its prompts holds."""
        return limits_of(self.config)

    @property
    def takes_drafts(self) -> bool:
        """Whether it was trained on the bare format, which names drafts: the tiny editor, and what came of it."""
        return self.config.editor.terse


def trained_editor(path: str) -> TrainedEditor:
    """Read what is known of a trained editor.

    Args:
        path: a run of `intraskill editor train`, or ``tiny_editor``.

    Raises:
        ConfigError: for a directory that is not there, holds no run of an editor, or an unfinished one.
        ArtifactError: for a plan that cannot be read.
    """
    if path == TINY:
        return TrainedEditor(path, _shipped())
    root, where = Path(path), f"proposer.editor={path}"
    if not root.is_dir():
        raise ConfigError(f"{where}: there is no such directory; give a run of intraskill editor train, or {TINY}")
    if not PLAN.path(root).is_file():
        raise ConfigError(
            f"{where} holds no plan.json, so nobody knows what prompts its editor was trained on; give a run of "
            "intraskill editor train. Bare weights become one by intraskill editor train editor.steps=0 "
            f"editor.eval_streams=0 {shlex.quote(assignment('policy.path', path))} run_dir=DIR, with their own options "
            "of editor. and rollout."
        )
    if not is_sealed(root / "editor"):
        raise ConfigError(
            f"{where} holds no finished training of an editor (no editor/DONE); finish it with its intraskill editor "
            "train command, or give another run"
        )
    record = plan_record(root)
    prompt = record["about"].get("conditions", {}).get("prompt")
    if not prompt:
        raise ConfigError(
            f"{where}: its plan.json lacks the hash of the prompts that it was trained on (about.conditions.prompt); "
            "restore the file, or train the editor again"
        )
    return TrainedEditor(path, unflatten(record["plan"]), root / "editor" / "checkpoint", prompt)


def _shipped() -> Config:
    """Return the config of the shipped editor: what its experiment sets is what its weights were made for."""
    from omegaconf import OmegaConf

    deltas = OmegaConf.load(CONFIGS / "exp" / f"{TINY_EXPERIMENT}.yaml")
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), deltas))
    assert isinstance(config, Config)
    return config
