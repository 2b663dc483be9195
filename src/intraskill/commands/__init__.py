"""Command groups of the command line that need no experiment: one module each, with ``add(verb)``.

``verb(name, help, command)`` returns the sub-parser; ``command(arguments, overrides)`` returns the exit status.
"""

import argparse
import os
import sys
from collections.abc import Callable

Command = Callable[[argparse.Namespace, list[str]], int]
Verb = Callable[[str, str, Command], argparse.ArgumentParser]

READER_GONE = 141
"""Exit status when whoever reads our output has gone, as a shell counts a program that SIGPIPE ended."""


def ignore_broken_pipe(act: Callable[[], int]) -> int:
    """Run an action and return its exit status; a reader that goes away ends it without a word."""
    try:
        status = act()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        # What is still buffered would fail again when the interpreter leaves.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


def never(arguments: argparse.Namespace, overrides: list[str]) -> int:
    """Stand for a command that has actions: argparse asks for one of them."""
    raise AssertionError("argparse asks for an action")
