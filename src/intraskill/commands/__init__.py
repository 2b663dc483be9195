"""Command groups of the command line that need no experiment: one module each, with ``add(verb)``.

``verb(name, help, command)`` returns the sub-parser; ``command(arguments, overrides)`` returns the exit status.
"""

import argparse
from collections.abc import Callable

Command = Callable[[argparse.Namespace, list[str]], int]
Verb = Callable[[str, str, Command], argparse.ArgumentParser]


def never(arguments: argparse.Namespace, overrides: list[str]) -> int:
    """Stand for a command that has actions: argparse asks for one of them."""
    raise AssertionError("argparse asks for an action")
