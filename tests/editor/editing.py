"""A tiny random model that edits planted worlds: what the tests of training run."""

from pathlib import Path

from intraskill.config.config import Config


def planted_editing(place: Path, name: str, **options: int) -> Config:
    """Return the config of a small run; the model is written by `rl.toy.write_model` into ``place/model``."""
    config = Config(run_dir=str(place / name))
    config.editor.options = {"worlds": 3, "held_out": 2, "units": 3, "probes": 2} | options
    config.editor.steps, config.editor.eval_streams, config.editor.terse = 4, 2, True
    config.editor.prompt_tokens, config.editor.characters = 900, 200
    config.policy.path = str(place / "model")
    config.rollout.batch, config.rollout.max_turns, config.rollout.max_new_tokens = 8, 1, 12
    config.rollout.max_context = 1024
    config.grpo.group_size, config.grpo.groups_per_step = 6, 2
    config.grpo.save_every_steps, config.grpo.lr = 2, 1e-3
    return config


WORDS = ("NOOP", "PRUNE 1", "PRUNE 2", "PRUNE 3")


def write_editor(directory: Path) -> Path:
    """Save the random model of `rl.toy` with whole answers as tokens, which it prefers like the end mark."""
    from rl.toy import write_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    write_model(directory)
    words, model = AutoTokenizer.from_pretrained(directory), AutoModelForCausalLM.from_pretrained(directory)
    words.add_tokens(list(WORDS))
    table = model.model.embed_tokens.weight.data
    for number, text in enumerate(WORDS):
        (token,) = words.encode(text, add_special_tokens=False)
        table[token] = table[10 + number]
        table[token, 0] = 2.5 * table[words.eos_token_id, 0]
    table[words.eos_token_id, 0] *= 2.75
    words.save_pretrained(directory)
    model.save_pretrained(directory)
    return directory
