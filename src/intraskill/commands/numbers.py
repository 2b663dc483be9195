"""Numbers of the command line, each with its range: what no command could use is refused before it does anything."""

import argparse
from collections.abc import Callable

from intraskill.config.option import inside


def whole(interval: str = "[1, inf)") -> Callable[[str], int]:
    """Return the type of an integer argument within an interval such as ``[1, inf)``."""
    return lambda text: int(_checked(text, int, interval))


def real(interval: str = "(0, inf)") -> Callable[[str], float]:
    """Return the type of a real argument within an interval such as ``(0, 1]``; NaN lies in none."""
    return lambda text: float(_checked(text, float, interval))


def _checked(text: str, kind: type[int] | type[float], interval: str) -> float:
    try:
        value = kind(text)
    except ValueError:
        name = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"must be {name} in {interval}, got {text!r}") from None
    if not inside(value, interval):
        raise argparse.ArgumentTypeError(f"must lie in {interval}, got {text}")
    return value
