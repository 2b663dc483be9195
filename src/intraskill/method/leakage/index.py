"""Indexes of private texts: which runs of words, and which sets of rare words, give one of them away.

Limits in words are compared by width: a Latin word or a number is as wide as two pairs of neighbouring Han
characters, or as 4/3 Han characters in a run. A run is a phrase in the text's own order. A bag is the set of a text's
rare words, found in any order within one sentence.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from intraskill.method.leakage.text import Reading, Tokens, Word, fold, is_han, shipped, squash, units, words_in
from intraskill.method.option import option

_RUN_WORD, _RUN_HAN = 4, 3  # widths in a run
_BAG_WORD, _BAG_PAIR = 2, 1  # widths in a bag
_PAIRS_KEPT = 0.6  # of a Chinese text's pairs, those that lie within words and so survive another order


@dataclass
class LeakLimits:
    """What a chunk may hold; where words are counted, two Han characters count as one."""

    max_chars: int = option(1200, "most characters of a chunk, title included, and of a proposal's reason", "[1, inf)")
    max_chunks: int = option(8, "most chunks that one edit may add", "[1, inf)")
    instruction_run: int = option(4, "words of a held-out instruction in a row that give it away", "[2, inf)")
    title_run: int = option(4, "words of a product's title in a row that give it away", "[2, inf)")
    run_rare_words: int = option(2, "of a run, so many words at least are not common ones", "[1, inf)")
    rare_words: int = option(4, "rare words of one text in one sentence, in any order, that give it away", "[3, inf)")
    naming_words: int = option(2, "of those, so many at least are no number, letter or measure", "[0, inf)")
    strewn_words: int = option(5, "fewest rare words of one text, strewn over a whole chunk, that may tell", "[3, inf)")
    strewn_share: float = option(0.8, "share of one text's rare words, strewn over a chunk, that tells", "(0, 1]")
    shortest_text: int = option(3, "texts of fewer rare words give nothing away", "[1, inf)")
    common_share: float = option(0.2, "words in this share of the instructions, or titles, are common", "(0, 1]")
    copy_share: float = option(0.8, "a chunk that shares more of its words with another one is a copy", "(0, 1]")
    id_part: int = option(8, "characters at either end of a longer id that give it away", "[3, inf)")
    encoded_letters: int = option(20, "letters and digits in a row that are code when they change often", "[6, inf)")
    encoded_words: int = option(3, "shorter words that look like code which together are refused", "[1, inf)")
    repeated_words: int = option(24, "fewest word triples of a text that may repeat itself by half", "[1, inf)")


@dataclass(frozen=True)
class RunIndex:
    """Runs of words that occur in private texts.

    Attributes:
        runs: every run that gives a text away.
        widths: of the runs, widest first.
    """

    runs: frozenset[Tokens]
    widths: range

    @classmethod
    def of(cls, texts: Iterable[Tokens], length: int, common: frozenset[str], limits: LeakLimits) -> "RunIndex":
        """Index every run of ``length`` words with enough rare ones; a shorter text counts as one run."""
        runs: set[Tokens] = set()
        for words in texts:
            widths = [_width(word) for word in words]
            rare = [0 if known else width for width, known in zip(widths, _known(words, common), strict=True)]
            before = (0, *itertools.accumulate(rare))
            spoken = [width if _names(word) else 0 for word, width in zip(words, rare, strict=True)]
            before_spoken = (0, *itertools.accumulate(spoken))
            wanted = _RUN_WORD * min(length, max(sum(widths) // _RUN_WORD, limits.shortest_text))
            for start, end in _spans(widths, wanted):
                enough = before[end] - before[start] >= _RUN_WORD * limits.run_rare_words
                if enough and before_spoken[end] > before_spoken[start]:  # "US 9/EU 42" is everybody's size
                    runs.add(words[start:end])
        shortest = min(length, limits.shortest_text)
        return cls(frozenset(runs), range(_RUN_WORD * length, _RUN_WORD * shortest - 1, -_RUN_WORD))

    def find(self, words: Sequence[Word]) -> tuple[Word, Word] | None:
        """Return the first and the last word of the first run in ``words`` that gives a text away."""
        texts = tuple(word.text for word in words)
        widths = [_width(word) for word in texts]
        for width in self.widths:
            for start, end in _spans(widths, width):
                if texts[start:end] in self.runs:
                    return words[start], words[end - 1]
        return None


@dataclass(frozen=True)
class BagIndex:
    """Sets of rare units, one per private text.

    Attributes:
        postings: unit → numbers of the texts that hold it.
        need: per text, the width of rare units that give it away.
        whole: per text, the width of all its rare units; of a Chinese one, as much as another order leaves.
        limits: what gives a text away.
    """

    postings: dict[str, tuple[int, ...]]
    need: tuple[int, ...]
    whole: tuple[int, ...]
    limits: LeakLimits

    @classmethod
    def of(cls, texts: Iterable[Tokens], common: frozenset[str], limits: LeakLimits, *, all_of: bool) -> "BagIndex":
        """Index texts; ``limits.rare_words`` of one, or all where it has fewer or ``all_of`` is asked for, tell."""
        bags = dict.fromkeys(frozenset(units(words)) - common for words in texts)
        kept = [bag for bag in bags if _bag_width(bag) >= _BAG_WORD * limits.shortest_text - _BAG_PAIR]
        postings: dict[str, list[int]] = {}
        for number, bag in enumerate(kept):
            for unit in bag:
                postings.setdefault(unit, []).append(number)
        whole = tuple(_kept_width(bag) for bag in kept)
        need = whole if all_of else tuple(min(_BAG_WORD * limits.rare_words, width) for width in whole)
        return cls({unit: tuple(numbers) for unit, numbers in postings.items()}, need, whole, limits)

    def find(self, words: Sequence[Word]) -> tuple[Word, Word] | None:
        """Return the outermost words of a sentence that hold the rare units of one text."""
        return self._first(words, self._tells)

    def find_strewn(self, words: Sequence[Word]) -> tuple[Word, Word] | None:
        """Return the outermost words of a chunk whose sentences hold, all together, most of one text's rare units.

        A few rare words are strewn over many a harmless chunk, so they count in one sentence only.
        """
        return self._first(words, self._tells_strewn)

    def _first(self, words: Sequence[Word], tells: Callable[[int, Iterable[str]], bool]) -> tuple[Word, Word] | None:
        held: dict[int, dict[str, tuple[int, int]]] = {}
        for unit, place in _places(words):
            for number in self.postings.get(unit, ()):
                held.setdefault(number, {})[unit] = place
        told = min((number for number, rare in held.items() if tells(number, rare)), default=None)
        if told is None:
            return None
        firsts, lasts = zip(*held[told].values(), strict=True)
        return words[min(firsts)], words[max(lasts)]

    def _tells(self, number: int, rare: Iterable[str]) -> bool:
        """Whether enough rare units stand there, some of them words: sizes and counts alone are everybody's."""
        return _bag_width(rare) >= self.need[number] and sum(map(_names, rare)) >= self.limits.naming_words

    def _tells_strewn(self, number: int, rare: Iterable[str]) -> bool:
        most = math.ceil(self.limits.strewn_share * self.whole[number])
        return _bag_width(rare) >= max(self.need[number], most, _BAG_WORD * self.limits.strewn_words)


@dataclass(frozen=True)
class IdIndex:
    """Ids, compared without anything between their letters and digits.

    Attributes:
        parts: ids and the ends of long ids, squashed.
        lengths: the lengths that occur.
        sure: so many characters with a digit among them are an id, even within a longer word.
    """

    parts: frozenset[str]
    lengths: tuple[int, ...]
    sure: int

    @classmethod
    def of(cls, ids: Iterable[str], part: int) -> "IdIndex":
        """Index ids, and ``part`` characters at either end of longer ones; those shorter than three are left out."""
        whole = {letters for name in ids if len(letters := squash(fold(name))[0]) >= 3}
        ends = {end for name in whole if len(name) >= 1.5 * part for end in (name[:part], name[-part:])}
        parts = frozenset(whole | {end for end in ends if re.search(r"\d", end) and re.search(r"[a-z]", end)})
        return cls(parts, tuple(sorted(set(map(len, parts)))), part)

    def find(self, reading: Reading) -> str | None:
        """Return the first id as it stands; one without a digit counts only as whole words."""
        letters, places = reading.squashed
        for length in self.lengths:
            for start in range(len(letters) - length + 1):
                part, first, last = letters[start : start + length], places[start], places[start + length - 1]
                sure = length >= self.sure and any(c.isdigit() for c in part)
                if part in self.parts and (sure or _alone(reading.text, first, last)):
                    return reading.span(first, last + 1)
        return None


def copied_share(mine: Reading, other: Reading) -> float:
    """Return how much of a chunk another one holds: its triples of words within sentences, or all words alike."""
    triples, theirs = set(_triples(mine)), set(_triples(other))
    bag, bag_theirs = frozenset(units(w.text for w in mine.words)), frozenset(units(w.text for w in other.words))
    if not triples or len(bag) < 3:
        return float(mine.text.strip() == other.text.strip())
    return max(len(triples & theirs) / len(triples), len(bag & bag_theirs) / len(bag | bag_theirs))


@cache
def common_words() -> frozenset[str]:
    """Return the words of any request, and the pairs of characters of Chinese ones."""
    return frozenset(units(words_in(shipped("words.yaml")["common"])))


@cache
def _measures() -> frozenset[str]:
    return frozenset(words_in(shipped("words.yaml")["measures"]))


def frequent_units(texts: Sequence[Tokens], share: float) -> frozenset[str]:
    """Return the units of at least ``share`` of the texts (and of three or more): the template, not the task."""
    counts = Counter(unit for words in texts for unit in set(units(words)))
    return frozenset(unit for unit, count in counts.items() if count >= max(3, share * len(texts)))


def _triples(reading: Reading) -> Iterator[Tokens]:
    for sentence in reading.sentences:
        texts = tuple(word.text for word in sentence)
        yield from (texts[i : i + 3] for i in range(len(texts) - 2))


def _alone(text: str, first: int, last: int) -> bool:
    """Whether what stands there is a word of its own."""
    before, after = text[first - 1 : first], text[last + 1 : last + 2]
    return not any(c.isalnum() and c.isascii() for c in (before, after))


def _width(word: str) -> int:
    return _RUN_HAN if is_han(word) else _RUN_WORD


def _names(word: str) -> bool:
    """Whether a word names something, and is no number, letter or measure."""
    return is_han(word) or not (word[0].isdigit() or len(word) == 1 or word in _measures())


def _unit_width(unit: str) -> int:
    return _BAG_PAIR if is_han(unit) else _BAG_WORD


def _bag_width(bag: Iterable[str]) -> int:
    return sum(map(_unit_width, bag))


def _kept_width(bag: frozenset[str]) -> int:
    """Width that is left of a text in another order: pairs across two words are lost."""
    pairs = sum(map(is_han, bag))
    return _BAG_WORD * (len(bag) - pairs) + math.ceil(_PAIRS_KEPT * pairs * _BAG_PAIR)


def _known(words: Tokens, common: frozenset[str]) -> list[bool]:
    """Per word, whether it is common; a Han character is where a common pair covers it."""
    pairs = [a + b in common if is_han(a) and is_han(b) else False for a, b in zip(words, words[1:], strict=False)] + [
        False
    ]
    return [(pairs[i] or (i > 0 and pairs[i - 1])) if is_han(word) else word in common for i, word in enumerate(words)]


def _spans(widths: Sequence[int], width: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the narrowest run from each start that is at least ``width`` wide."""
    end, held = 0, 0
    for start, first in enumerate(widths):
        while held < width and end < len(widths):
            held += widths[end]
            end += 1
        if held < width:
            return
        yield start, end
        held -= first


def _places(words: Sequence[Word]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each unit with the numbers of its first and last word."""
    for i, word in enumerate(words):
        if not is_han(word.text):
            yield word.text, (i, i)
        elif i and is_han(words[i - 1].text):
            yield words[i - 1].text + word.text, (i - 1, i)
