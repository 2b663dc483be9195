"""How the history of a skill is said: a measurement, a title, a list of rollouts, and where text goes."""

import re
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from intraskill.history import Measured
from intraskill.method.errors import counted

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
WIDTH = 120


def number(found: Measured | None) -> str:
    """Return ``+0.104 ± 0.057``, or a dash for what no gate measured."""
    return "–" if found is None else f"{found.beta:+.3f} ± {found.se:.3f}"


def some(items: Sequence[str], noun: str, limit: int = 3) -> str:
    """Return ``13 rollouts: a, b, c, …``; empty for none."""
    if not items:
        return ""
    more = ", …" if len(items) > limit else ""
    return f"{counted(len(items), noun)}: {', '.join(map(shown, items[:limit]))}{more}"


def support_words(support: Sequence[str]) -> str:
    """Return `some` rollouts, or training groups where the evidence was a round's randomised contexts."""
    return some(support, "rollout" if any("#" in name for name in support) else "group")


def shown(text: str) -> str:
    """Return text whose control characters cannot reach a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def print_lines(lines: Iterable[Text]) -> None:
    """Print lines: with colours on a terminal, plain and whole elsewhere."""
    console = Console(highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)
