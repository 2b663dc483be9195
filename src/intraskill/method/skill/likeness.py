"""When two texts say the same: equal words after small change, and nothing decisive that differs.

A text becomes a set of terms: its words, folded as the leak filter reads them (case, accents and look-alike letters do
not count), without plural s, filler words and the labels of a chunk; written numbers as digits, but not those that only
count steps; Han text as pairs of neighbouring characters. Two texts are alike when the share of terms that they have in
common (Jaccard) reaches `THRESHOLD`, and when they agree in what turns a rule round: numbers, negations and words of
direction. Word order does not count.
"""

import re
from collections.abc import Iterable
from typing import TypeAlias

from intraskill.method.leakage.text import fold

Terms: TypeAlias = frozenset[str]

THRESHOLD = 0.8
"""Share of common terms from which two texts are alike; tests/method/test_likeness.py shows pairs on both sides."""

_STEP = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_\u3400-\u9fff]+(?:'[^\W\d_]+)?|[\u3400-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u9fff]")
_WORD = re.compile(r"[a-z']+")
_FILLER = frozenset(
    _WORD.findall(
        "a an and are applies as at be been being by do does for from if in into is it its just of on or please"
        " procedure so than that the their them then there these they this those to use using verify was were when"
        " will with would you your should can could may might must always simply"
    )
)
_NUMBERS = {
    word: str(value)
    for value, word in enumerate(
        _WORD.findall("zero one two three four five six seven eight nine ten eleven twelve"),
    )
} | {"once": "1", "twice": "2"}
_NEGATIONS = frozenset(
    _WORD.findall("no not never without avoid don't doesn't cannot can't neither nor none won't isn't aren't")
)
_DIRECTIONS = frozenset(
    _WORD.findall(
        "first last before after above below more less most least min max minimum maximum cheap cheaper cheapest"
        " expensive short shorter long longer same different include exclude add remove only except all any every"
        " higher lower highest lowest top bottom earliest latest smaller smallest larger largest"
    )
)
_HAN_FILLER = frozenset("的了着过吗呢吧请把就再也还")
_HAN_DECISIVE = frozenset("不没無无别勿非未前后後先末最多少高低大小一二三四五六七八九十两")


def terms_of(texts: Iterable[str]) -> Terms:
    """Return the terms of some texts together; those that turn a rule round are marked with ``!``."""
    found: set[str] = set()
    for text in texts:
        for token in _TOKEN.findall(_STEP.sub("", fold(text)).replace("’", "'")):
            found |= _han(token) if _HAN.match(token) else _word(token)
    return frozenset(found)


def alike(one: Terms, other: Terms) -> bool:
    """Return whether two texts say the same; two empty ones do."""
    return not decisive(one ^ other) and len(one & other) >= THRESHOLD * len(one | other)


def decisive(terms: Terms) -> Terms:
    """Return the terms that turn a rule round: numbers, negations, directions."""
    return frozenset(term for term in terms if term.startswith("!"))


def repeats(text: str, other: str) -> bool:
    """Return whether a text adds nothing decisive to another one: the same turns, and no number that it lacks.

    Numbers may be missing: who leaves one out says less, not something else.
    """
    mine, theirs = decisive(terms_of([text])), decisive(terms_of([other]))
    return _numbers(mine) <= _numbers(theirs) and mine - _numbers(mine) == theirs - _numbers(theirs)


def _numbers(terms: Terms) -> Terms:
    return frozenset(term for term in terms if term[1].isdigit())


def _word(token: str) -> set[str]:
    token = _NUMBERS.get(token, token)
    if token[0].isdigit():
        value = float(token.replace(",", "")) if re.fullmatch(r"\d+(?:,\d{3})*(?:\.\d+)?", token) else token
        return {f"!{value:g}" if isinstance(value, float) else f"!{value}"}
    if token in _NEGATIONS:
        return {"!not"}
    if token in _DIRECTIONS:
        return {f"!{token}"}
    if token in _FILLER:
        return set()
    return {token[:-1] if len(token) > 3 and token.endswith("s") and not token.endswith("ss") else token}


def _han(run: str) -> set[str]:
    kept = [character for character in run if character not in _HAN_FILLER]
    pairs = {"".join(pair) for pair in zip(kept, kept[1:], strict=False)} or set(kept)
    return pairs | {f"!{character}" for character in kept if character in _HAN_DECISIVE}
