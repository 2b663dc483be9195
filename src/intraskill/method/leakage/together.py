"""What several chunks give away side by side that none of them gives away alone: a leak that was cut into pieces.

A piece is what one sentence holds of a private text. A text is given away when the pieces of different chunks hold all
of its rare words, however strewn; when solid pieces, each two rare words or more, or a number, hold most of them; or
when a run of its words goes on from the end of one chunk's sentence at the start of another one's. One sentence needs
less (`index`): the chunks of a pool hold, all together, some words of a great many private texts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from intraskill.method.leakage.index import BagIndex, RunIndex, bag_width, outermost
from intraskill.method.leakage.text import Reading

Text: TypeAlias = tuple[str, int]
"""A private text: its rule, and its number in the rule's index."""
_SHOWN = 36  # characters of a piece in a rejection, so that two of them stand there


@dataclass(frozen=True, slots=True)
class Piece:
    """What one chunk holds of one private text.

    Attributes:
        units: its rare units.
        solid: those of them that stand in solid pieces.
        span: the first piece, as it stands.
    """

    units: frozenset[str]
    solid: frozenset[str]
    span: str


@dataclass(frozen=True)
class Pieces:
    """What one chunk holds of all private texts."""

    reading: Reading
    held: Mapping[Text, Piece]

    @classmethod
    def of(cls, reading: Reading, bags: Mapping[str, BagIndex]) -> "Pieces":
        """Read the pieces of a chunk."""
        held: dict[Text, Piece] = {}
        for rule, bag in bags.items():
            for sentence in reading.sentences:
                for number, places in bag.held(sentence).items():
                    units = frozenset(places)
                    solid = units if len(units) > 1 or min(units)[0].isdigit() else frozenset[str]()
                    if before := held.get((rule, number)):
                        held[rule, number] = Piece(before.units | units, before.solid | solid, before.span)
                    else:
                        first, last = outermost(sentence, places.values())
                        held[rule, number] = Piece(units, solid, reading.span(first.start, last.end))
        return cls(reading, held)


def told_together(
    new: Sequence[Pieces],
    beside: Sequence[Pieces],
    bags: Mapping[str, BagIndex],
    runs: Mapping[str, RunIndex],
    share: float,
) -> Iterator[tuple[str, str]]:
    """Yield rule and span of every private text that ``new`` gives away side by side, or beside the others.

    Args:
        new: chunks that would come in.
        beside: chunks that are there; what they give away among themselves is not the new ones' doing.
        bags: rule → sets of rare words.
        runs: rule → runs of words.
        share: this share of a text's rare words in solid pieces gives it away.
    """
    for text in dict.fromkeys(text for one in new for text in one.held):
        there = [piece for one in beside if (piece := one.held.get(text))]
        pieces = [*(piece for one in new if (piece := one.held.get(text))), *there]
        rule, number = text
        bag = bags[rule]
        if len(pieces) > 1 and _tells(pieces, bag, number, share) and not _tells(there, bag, number, share):
            yield rule, " + ".join(piece.span[:_SHOWN] for piece in pieces)
    for left, right in _pairs(new, beside):
        for rule, index in runs.items():
            yield from ((rule, span) for span in _crossings(left.reading, right.reading, index))


def _tells(pieces: Sequence[Piece], bag: BagIndex, number: int, share: float) -> bool:
    whole = bag.whole[number]
    if bag_width(frozenset[str]().union(*(piece.units for piece in pieces))) >= whole:
        return True
    most = max(bag.need[number], math.ceil(share * whole))
    return bag_width(frozenset[str]().union(*(piece.solid for piece in pieces))) >= most


def _pairs(new: Sequence[Pieces], beside: Sequence[Pieces]) -> Iterator[tuple[Pieces, Pieces]]:
    """Yield each pair in both orders, since a gate or a reader may put either first."""
    for place, one in enumerate(new):
        for other in (*new[:place], *beside):
            yield one, other
            yield other, one


def _crossings(left: Reading, right: Reading, index: RunIndex) -> Iterator[str]:
    for tail in left.sentences:
        for head in right.sentences:
            if ends := index.across(tail, head):
                pieces = left.span(ends[0].start, tail[-1].end), right.span(head[0].start, ends[1].end)
                yield " + ".join(piece[:_SHOWN] for piece in pieces)
