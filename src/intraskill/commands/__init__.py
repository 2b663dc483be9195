"""The commands of the command line, one module each, with ``add(verb)``.

``verb(name, help, command)`` returns the sub-parser; ``command(arguments, overrides)`` returns the exit status.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from intraskill.config.config import Config, unflatten
from intraskill.config.overrides import compose, override
from intraskill.method.errors import ConfigError

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
