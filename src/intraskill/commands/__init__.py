"""The commands of the command line, one module each, with ``add(verb)``.

``verb(name, help, command)`` returns the sub-parser; ``command(arguments, overrides)`` returns the exit status.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from intraskill.config.config import Config, unflatten
from intraskill.config.overrides import (
    DEFAULT_EXPERIMENT,
    OWN,
    OWN_EXPERIMENT,
    compose,
    named,
    override,
    own_words,
)
from intraskill.method.errors import ConfigError
from intraskill.report.screen import FORMATS, Look

Command = Callable[[argparse.Namespace, list[str]], int]
Verb = Callable[[str, str, Command], argparse.ArgumentParser]


def never(arguments: argparse.Namespace, overrides: list[str]) -> int:
    """Stand for a command that has actions: argparse asks for one of them."""
    raise AssertionError("argparse asks for an action")


def no_overrides(overrides: list[str]) -> None:
    """Refuse overrides, for a command that reads no config.

    Raises:
        ConfigError: naming them.
    """
    if overrides:
        raise ConfigError(f"this command takes no overrides, got {' '.join(overrides)}")


def said(overrides: Sequence[str], config: Config, brought: Sequence[str] = ()) -> tuple[str, str]:
    """Return the two lines that say which experiment a command took and why, and what of it matters most.

    Args:
        overrides: words of the command line.
        config: what they were resolved to.
        brought: flags of the command that bring something of the user's own; then no experiment is taken.
    """
    experiment, own = named(overrides, "exp"), [*brought, *own_words(overrides)]
    if experiment:
        first = f"+exp={experiment}, as given"
    elif brought:
        first = f"no experiment, because of your {' and '.join(own)}"
    elif own:
        first = f"+exp={OWN_EXPERIMENT}, because of your {' and '.join(own)}; +exp={DEFAULT_EXPERIMENT} is the demo"
    else:
        first = f"+exp={DEFAULT_EXPERIMENT}, the demo, because nothing of yours is given: {', '.join(OWN)}"
    if ablation := named(overrides, "ablate"):
        first += f"; ablate={ablation}"
    world = ", ".join([config.env.name, *(f"{key}={value}" for key, value in config.env.options.items())])
    rollout, draft = config.rollout, config.coldstart.draft or "none"
    return first, (
        f"world {world}; weights {config.policy.path}; draft {draft}; proposer {config.proposer.name}; an episode: ≤ "
        f"{rollout.max_turns} actions of ≤ {rollout.max_new_tokens} tokens, ≤ {rollout.max_context:,} in all; "
        f"grpo.lr={config.grpo.lr:g}"
    )


def add_look(parser: argparse.ArgumentParser, default: str = FORMATS[0]) -> None:
    """Register how a command prints its tables."""
    forms = dict.fromkeys((default, *FORMATS))
    parser.add_argument("--format", choices=tuple(forms), default=default, help=f"how tables are printed ({default})")
    parser.add_argument("--wide", action="store_true", help="every column of a table, however wide the terminal")


def look_of(arguments: argparse.Namespace) -> Look:
    """Return how a command prints its tables."""
    return Look(arguments.format, arguments.wide)


def config_beside(root: Path | None, overrides: list[str]) -> Config:
    """Return the config that a checkpoint was trained with, plus overrides; that of +exp=own for loose weights.

    Args:
        root: the run directory, or ``None`` for weights without one.
        overrides: words of the command line.
    """
    if root is None:
        return compose(overrides if named(overrides, "exp") else [f"+exp={OWN_EXPERIMENT}", *overrides])
    from intraskill.store.provenance import plan_record

    return override(unflatten(plan_record(root)["plan"]), overrides)
