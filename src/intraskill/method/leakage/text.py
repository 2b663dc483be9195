"""How the leak filter reads text: folded to plain letters, with a way back to the text as it stands.

Folding undoes disguises: compatibility forms, accents, case, invisible characters, letters of other alphabets that
look Latin. Two readings follow. Words: Latin words, numbers, single Han characters. Squashed: letters and digits
alone, so that "i g-n.o r e" reads "ignore". `normalise` and `tokens` are the plain reading that proposers use.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

Tokens = tuple[str, ...]


@cache
def shipped(name: str) -> dict[str, Any]:
    """Return the words or patterns of a file that stands beside this module."""
    import yaml  # type: ignore[import-untyped]

    read: dict[str, Any] = yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8"))
    return read


HAN = "\u3400-\u9fff\U00020000-\U0003ffff"
INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters of a visible category that show nothing."""

_TOKEN = re.compile(r"[a-z]+|\d+(?:\.\d+)?|[\u3400-\u9fff]|[^\W\d_]+")
_WORD = re.compile(rf"[a-z]+|\d+(?:\.\d+)?|[{HAN}]|[^\W\d_{HAN}]+")
_SENTENCE_END = re.compile(r"[!?;。]|\.(?!\d)|\n")
_PLAIN_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs"})
_LOOKALIKES = {
    alike: letter
    for letter, others in {
        "a": "аα", "b": "вβь", "c": "сϲ", "d": "ԁδ", "e": "еєεҽ", "g": "ɡց", "h": "һнհ", "i": "іιɩ", "j": "јϳ",
        "k": "кκ", "l": "ӏլ", "m": "м", "n": "пηռո", "o": "оοσօ", "p": "рρ", "q": "ԛգ", "r": "гᴦ", "s": "ѕꮪ", "t": "тτ",
        "u": "υսц", "v": "νѵ", "w": "ωԝшա", "x": "хχ", "y": "уγ", "z": "ζʐ",
    }.items()
    for alike in others
}  # fmt: skip
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True))
_ENCLOSED = ((0x1F150, 26), (0x1F170, 26), (0x1F1E6, 26))  # letters that have no compatibility form
_SPECIAL = {"ı": "i", "ø": "o", "đ": "d", "ł": "l", "\u2044": "/", "\u2215": "/"}
_EAST = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"})
_UNITS = frozenset("µμΩΩ°")  # noqa: RUF001
_LETTERS = re.compile(r"[^\W\d_]+")
_ENCLOSED_RUN = re.compile("[\u00b2\u00b3\u00b9\u2070-\u2089]{2,}|[\u249c-\u24e9\U0001f110-\U0001f1ff]{3,}")


class _Folds(dict[int, str]):
    """Code point → what it folds to; filled on first use."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_character(chr(code))
        return folded


_FOLDS = _Folds()


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a folded text, and where it stands there."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Reading:
    """A text, its folded form, and the place of every folded character in the text."""

    raw: str

    @cached_property
    def text(self) -> str:
        """The folded text."""
        return fold(self.raw)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Its words, in order."""
        return tuple(Word(_stem(m[0]), m.start(), m.end()) for m in _WORD.finditer(self.text))

    @cached_property
    def sentences(self) -> tuple[tuple[Word, ...], ...]:
        """Its words, sentence by sentence."""
        ends = [match.start() for match in _SENTENCE_END.finditer(self.text)]
        found: list[tuple[Word, ...]] = []
        rest = self.words
        for end in [*ends, len(self.text) + 1]:
            cut = next((i for i, word in enumerate(rest) if word.start >= end), len(rest))
            if cut:
                found.append(rest[:cut])
            rest = rest[cut:]
        return tuple(found)

    @cached_property
    def squashed(self) -> tuple[str, tuple[int, ...]]:
        """Its letters and digits alone, and the place of each in the folded text."""
        return squash(self.text)

    @cached_property
    def _places(self) -> tuple[int, ...]:
        return tuple(i for i, c in enumerate(self.raw) for _ in _FOLDS[ord(c)])

    def span(self, start: int, end: int) -> str:
        """Return the text as it stands that became the folded characters from ``start`` to ``end``."""
        places = self._places[start:end]
        return self.raw[places[0] : places[-1] + 1] if places else ""


def fold(text: str) -> str:
    """Return text without case, accents, compatibility forms, invisible characters and look-alike letters."""
    return text.translate(_FOLDS)


def squash(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the letters and digits of ``text``, and the place of each."""
    kept = [(c, i) for i, c in enumerate(text) if c.isalnum()]
    return "".join(c for c, _ in kept), tuple(i for _, i in kept)


def words_in(text: str) -> Tokens:
    """Return the words of a text after folding."""
    return tuple(_stem(word) for word in _WORD.findall(fold(text)))


def units(words: Iterable[str]) -> Iterator[str]:
    """Yield what carries meaning: words and numbers, and pairs of neighbouring Han characters."""
    previous = ""
    for word in words:
        han = is_han(word)
        if han and previous:
            yield previous + word
        if not han:
            yield word
        previous = word if han else ""


def is_han(word: str) -> bool:
    """Whether a word or a unit is of Han characters."""
    return "\u3400" <= word < "\ua000" or "\U00020000" <= word < "\U00040000"


def hidden_characters(raw: str) -> list[str]:
    """Return the characters of a text that show nothing, reorder it, or pile up, each once."""
    found = {c for c in raw if (unicodedata.category(c) in INVISIBLE or c in BLANKS) and c not in "\n\t"}
    for i, c in enumerate(raw):
        selector = "\ufe00" <= c <= "\ufe0f" or "\U000e0100" <= c <= "\U000e01ef"
        if selector and not (c == "\ufe0f" and i and unicodedata.category(raw[i - 1]) == "So"):
            found.add(c)
        if i > 1 and all(unicodedata.category(d) in {"Mn", "Me"} for d in raw[i - 2 : i + 1]):
            found.add(c)
    return sorted(found)


def disguised_words(raw: str) -> Iterator[str]:
    """Yield words that mix alphabets, that only look Latin among Latin ones, or are written in symbol letters."""
    latin = any(c.isascii() and c.isalpha() for c in raw)
    for match in _LETTERS.finditer(raw):
        word = match[0]
        if word.isascii():
            continue
        letters = [c for c in word if c not in _UNITS and c.isalpha()]  # a power or a fraction, as in m², is none
        scripts = {_script(c) for c in letters} - {"EAST"}
        looks_latin = "LATIN" not in scripts and all(fold(c).isascii() for c in letters)
        if len(scripts) > 1 or "SYMBOL" in scripts or (scripts and latin and looks_latin and len(word) > 1):
            yield word
    yield from (match[0] for match in _ENCLOSED_RUN.finditer(raw))


def shown(text: str, limit: int = 80) -> str:
    """Return a span in at most ``limit`` characters, with every character that shows nothing named."""
    named = "".join(
        c if c in "\n\t" or not (unicodedata.category(c) in INVISIBLE or c in BLANKS) else f"U+{ord(c):04X}"
        for c in text.strip()[:limit]
    )
    return named[:limit]


def normalise(text: str) -> str:
    """Return text after NFKC, without invisible characters, casefolded."""
    kept = "".join(
        c for c in unicodedata.normalize("NFKC", text) if c in "\n\t" or unicodedata.category(c) not in _PLAIN_INVISIBLE
    )
    return kept.casefold()


def tokens(text: str) -> Tokens:
    """Return the words, numbers and single Han characters of normalised text."""
    return tuple(_TOKEN.findall(text))


def _fold_character(c: str) -> str:
    if c in "\n\t":
        return c
    if c in BLANKS or unicodedata.category(c) in INVISIBLE:
        return "\n" if c in "\v\f\x1c\x1d\x1e\x85\u2028\u2029" else ""
    for first, count in _ENCLOSED:
        if first <= ord(c) < first + count:
            return chr(ord("a") + ord(c) - first)
    plain = (d for d in unicodedata.normalize("NFKD", c).casefold() if not unicodedata.category(d).startswith("M"))
    folded = "".join(_LOOKALIKES.get(d, _SMALL_CAPITALS.get(d, _SPECIAL.get(d, _digit(d)))) for d in plain)
    return " " if unicodedata.category(c) == "Zs" else folded


def _digit(c: str) -> str:
    """Return a decimal digit of any script as the plain one, anything else as it is."""
    value = unicodedata.decimal(c, None)
    return c if value is None else str(value)


def _stem(word: str) -> str:
    """Drop a plural s, so that "kettles" and "kettle" are one word."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _script(c: str) -> str:
    first, *rest = unicodedata.name(c, "UNKNOWN").split()
    if first in _EAST:
        return "EAST"
    if first == "FULLWIDTH":
        return "LATIN"
    if first in {"MATHEMATICAL", "MODIFIER", "SUPERSCRIPT", "SUBSCRIPT", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER"}:
        return "SYMBOL"
    return "SYMBOL" if first == "LATIN" and "CAPITAL" in rest and "SMALL" in rest else first
