"""What else a text may say: read backwards, by its initials, shifted along the alphabet, decoded.

`text` folds single characters, so a span can be shown as it stands. The readings here turn the whole text
into another one, which commands and leaks are looked for in as well; their spans are of the reading.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_CODES = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
_MORSE = dict(zip(re.findall(r"\S+", _CODES), _ALPHABET, strict=True))
_MORSE_RUN = re.compile(r"(?:(?<![.·\-–—_])[.·\-–—_]{1,4}(?:\s*/\s*|\s+|$)){6,}")
_SPELLED = re.compile(r"(?<![^\W_])(?:[a-z][\s.,_*|/-]{1,3}){6,}[a-z](?![^\W_])")


def undone(text: str) -> Iterator[str]:
    """Yield what a folded text says backwards (whole, or word by word), in rot13, spelled out and decoded."""
    yield text[::-1]
    yield re.sub(r"[^\W\d_]+", lambda word: word[0][::-1], text)
    yield shifted(text, 13)
    yield from decoded(text)


def decoded(text: str) -> Iterator[str]:
    """Yield what percent signs, Morse code or single letters in a folded text spell."""
    if (plain := unquote(text)) != text:
        yield plain
    yield from (_morse(match[0]) for match in _MORSE_RUN.finditer(text))
    if joined := spelled(text):
        yield joined


def spelled(text: str) -> str:
    """Return the text with its spelled words joined ("w o r d  b y  w o r d"), empty where there is none.

    What counts is a run of seven single letters: labels such as "A, B, C" stand in the order of the alphabet.
    """
    joined = _SPELLED.sub(lambda run: _joined(run[0]), text)
    return "" if joined == text else joined


def turned(text: str) -> str:
    """Return a folded text with the words of each sentence in reverse."""
    return "\n".join(" ".join(reversed(re.findall(r"[^\W\d_]+", part))) for part in re.split(r"[.!?;:\n]", text))


def hidden(text: str) -> Iterator[str]:
    """Yield the letters of readings in which a folded text may hide a short command: initials and shifts."""
    words = re.findall(r"[^\W\d_]+", text)
    yield "".join(word[0] for word in words)
    for cut in (r"\n", r"[.!?;\n]"):
        parts = (re.search(r"[^\W\d_]", part) for part in re.split(cut, text))
        yield "".join(first[0] for first in parts if first)
    yield from (shifted("".join(words), by) for by in range(1, 26))


def shifted(text: str, by: int) -> str:
    """Return a text with every letter moved along the alphabet."""
    return text.translate(str.maketrans(_ALPHABET, _ALPHABET[by:] + _ALPHABET[:by]))


def _morse(run: str) -> str:
    plain = run.translate(str.maketrans("·–—_", ".---"))
    return " ".join("".join(_MORSE.get(code, "") for code in word.split()) for word in plain.split("/"))


def _joined(run: str) -> str:
    letters = re.findall("[a-z]", run)
    if letters == sorted(letters):
        return run
    return " ".join("".join(re.findall("[a-z]", word)) for word in re.split(r"\s{2,}|\s*[/|]\s*", run))
