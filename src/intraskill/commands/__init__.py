"""The commands of the command line, one module each, with ``add(verb)``.

``verb(name, help, command)`` returns the sub-parser; ``command(arguments, overrides)`` returns the exit status.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from intraskill.config.config import Config, unflatten
from intraskill.config.overrides import compose, override
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


def add_look(parser: argparse.ArgumentParser, default: str = FORMATS[0]) -> None:
    """Register how a command prints its tables."""
    forms = dict.fromkeys((default, *FORMATS))
    parser.add_argument("--format", choices=tuple(forms), default=default, help=f"how tables are printed ({default})")
    parser.add_argument("--wide", action="store_true", help="every column of a table, however wide the terminal")


def look_of(arguments: argparse.Namespace) -> Look:
    """Return how a command prints its tables."""
    return Look(arguments.format, arguments.wide)


def config_beside(root: Path | None, overrides: list[str]) -> Config:
    """Return the config that a checkpoint was trained with, plus overrides; the default one for loose weights.

    Args:
        root: the run directory, or ``None`` for weights without one.
        overrides: words of the command line.
    """
    if root is None:
        return compose(overrides)
    from intraskill.store.provenance import plan_record

    return override(unflatten(plan_record(root)["plan"]), overrides)
