"""`intraskill warmstart`: the start weights of an experiment, from scripted demonstrations of its shop."""

import argparse
from pathlib import Path

from intraskill.commands import Verb
from intraskill.commands.numbers import real, whole
from intraskill.config.overrides import compose
from intraskill.method.errors import ConfigError, counted
from intraskill.report.screen import say


def add(verb: Verb) -> None:
    """Register the command."""
    parser = verb("warmstart", "fine-tune start weights on demonstrations and write them to policy.path", _warm_start)
    parser.add_argument("--from", dest="start", default="smollm2", help="smollm2 (default) or a model directory")
    parser.add_argument("--demonstrations", type=whole(), default=320, metavar="N", help="episodes shown, each once")
    parser.add_argument("--lr", type=real(), default=1e-3, help="learning rate")
    parser.add_argument("--out", metavar="DIR", help="where to write instead of policy.path")


def _warm_start(arguments: argparse.Namespace, overrides: list[str]) -> int:
    config = compose(overrides, default=False)
    if arguments.demonstrations < 1:
        raise ConfigError(f"--demonstrations={arguments.demonstrations}: give 1 or more")
    if config.env.name != "shopworld":
        raise ConfigError(f"demonstrations exist for env.name=shopworld only, not for {config.env.name!r}")
    if config.policy.path == "tiny" and not arguments.out:
        raise ConfigError("policy.path=tiny is shipped with the package; set policy.path or --out to a new directory")
    out = Path(arguments.out or config.policy.path)
    if out.exists():
        raise ConfigError(f"{out} exists already; choose another directory, or delete it to make it anew")
    from transformers.utils import logging

    from intraskill.recipes.sft import SftSettings, fine_tune
    from intraskill.recipes.shop_demonstrations import shop_examples
    from intraskill.recipes.smollm import smollm_directory
    from intraskill.rl.policy import lora_of

    logging.disable_progress_bar()
    start = smollm_directory() if arguments.start == "smollm2" else Path(arguments.start)
    examples = shop_examples(start, config.env.preset, config.env.options, arguments.demonstrations)
    lora = lora_of(config.policy)
    settings = SftSettings(learning_rate=arguments.lr, lora=lora, threads=config.threads, seed=config.seed)
    tokens = sum(len(ids) for ids, _ in examples)
    say(f"{counted(len(examples), 'demonstration')}, {tokens:,} tokens, from {start}")
    fine_tune(start, examples, out, settings, print_step)
    say(f"Start weights: {out}")
    return 0


def print_step(row: dict[str, float]) -> None:
    """Print one optimizer step of a warm start."""
    say(f"step {row['step']:.0f}: loss {row['loss']:.3f}, {row['seconds']:.0f} s", flush=True)
