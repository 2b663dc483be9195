"""`intraskill gate`: plan a gate before it is run."""

from intraskill.commands import Verb


def add(verb: Verb) -> None:
    """Register the command."""
