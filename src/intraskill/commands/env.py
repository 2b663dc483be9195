"""`intraskill env`: look at, play, check and serve an environment."""

from intraskill.commands import Verb


def add(verb: Verb) -> None:
    """Register the command."""
