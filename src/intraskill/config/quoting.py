"""Texts quoted for who reads them: commands for a shell, overrides for Hydra, other people's words for a terminal."""

import re
import shlex

_PLAIN = re.compile(r"(?!(?:null|true|false|nan|inf)$)[A-Za-z_./][\w./@-]*", re.ASCII | re.IGNORECASE)
_BARRED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, marks that turn the direction of writing or hide, and halves of letters."""
_SPECIAL = re.compile(r"(\\*)('|\$\{|$)")


def command(*words: object) -> str:
    """Return an `intraskill` command as a shell takes it.

    Args:
        words: its arguments, such as ``"skill", "log", root``.
    """
    return shlex.join(["intraskill", *map(str, words)])


def assignment(key: str, value: object) -> str:
    """Return ``key=value`` as Hydra takes it; in a message it still needs `command` or `shlex.quote`."""
    text = str(value)
    return f"{key}={text if _PLAIN.fullmatch(text) else quoted(text)}"


def quoted(text: str) -> str:
    """Return a text as a quoted string of Hydra: a backslash is doubled only before what it would escape."""
    return "'" + _SPECIAL.sub(_escaped, text) + "'"


def _escaped(match: re.Match[str]) -> str:
    slashes, sign = match.groups()
    return slashes * 2 + (f"\\{sign}" if sign else "")


def escape(letter: str) -> str:
    """Return a letter as JSON escapes it, by its code units."""
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def shown(text: str) -> str:
    """Return a text whose control characters are escapes to read; line ends and tabs stay."""
    return _BARRED.sub(lambda match: escape(match.group()), text)
