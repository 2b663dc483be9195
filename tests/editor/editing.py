"""A tiny random model that edits planted worlds: what the tests of training run."""

from pathlib import Path

from intraskill.config import Config


def planted_editing(place: Path, name: str, **options: int) -> Config:
    """Return the config of a small run; the model is written by `runtime.toy.write_model` into ``place/model``."""
    config = Config(run_dir=str(place / name))
    config.editor.options = {"worlds": 3, "held_out": 2, "units": 3, "probes": 2} | options
    config.editor.steps, config.editor.eval_streams, config.editor.terse = 4, 2, True
    config.editor.prompt_tokens, config.editor.characters = 900, 200
    config.policy.path = str(place / "model")
    config.rollout.batch, config.rollout.max_turns, config.rollout.max_new_tokens = 8, 1, 12
    config.rollout.max_context = 1024
    config.grpo.group_size, config.grpo.groups_per_step = 3, 2
    config.grpo.save_every_steps, config.grpo.lr = 2, 1e-3
    return config
