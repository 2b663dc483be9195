"""The leak filter: code that refuses chunks which leak a task, a goal or control text (method §1.2).

A chunk may hold a transferable procedure, never a product, a task, an answer, a held-out instruction, or text
that speaks to the model's own machinery. Every rejection names the rule and the exact span as it stands. Disguises
are undone first (`text`, `undone`); leaks are found as runs of words, as sets of rare words in any
order (`index`), as amounts (`rules`) and as patterns (`rules`), commands by what they do
(`rules`), and what is said in another language is refused for that (`language`). What stands side
by side is also read together (`together`).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache

from intraskill.method.errors import ConfigError
from intraskill.method.leakage.index import COMMON_WORDS, BagIndex, IdIndex, RunIndex, copied_share, frequent_units
from intraskill.method.leakage.language import foreign, languages_of
from intraskill.method.leakage.rules import amounts, commands, pattern_violations, stated_amounts
from intraskill.method.leakage.text import Reading, disguised_words, hidden_characters, shown, words_in
from intraskill.method.leakage.text import Tokens as Tokens
from intraskill.method.leakage.text import normalise as normalise
from intraskill.method.leakage.text import tokens as tokens
from intraskill.method.leakage.together import Pieces, told_together
from intraskill.method.leakage.undone import undone
from intraskill.method.skill.likeness import repeats
from intraskill.method.skill.skill import Chunk, ChunkId, Skill

_HEADING_MARK = re.compile(r"(?m)^ {0,3}#+[ \t]*")
_KEPT = 1024  # texts whose pieces are kept: a round inspects the same ones side by side again and again


@dataclass(frozen=True, slots=True)
class LeakRule:
    """Limits of the leak filter; where words are counted, two Han characters count as one.

    Attributes:
        max_chars: size cap of a chunk's title and body together, and of a proposal's reason, in characters.
        max_chunks: the most chunks that one edit may add.
        ngram: length n of the runs of words compared with held-out instructions, at least 2.
        title_run: this many consecutive words of a product's title give it away, at least 2.
        bag: this many rare words of one held-out instruction or title in one sentence, in any order, give it away,
            at least 3.
        pieces_share: this share of a text's rare words, in pieces of two words or a number in several chunks, gives it
            away (never less than ``bag``); all of them do, however strewn. At 0.7 harmless pools are refused.
        copy_share: a chunk copies another one when it shares more than this share of its word triples or words and
            adds nothing decisive: what differs in a number, a negation or a direction is another rule.
        common_share: words in at least this share of the held-out instructions (or titles) count as common.

    Raises:
        ConfigError: for a value out of range.
    """

    max_chars: int = 1200
    max_chunks: int = 8
    ngram: int = 4
    title_run: int = 4
    bag: int = 4
    pieces_share: float = 0.8
    copy_share: float = 0.8
    common_share: float = 0.2

    def __post_init__(self) -> None:
        if min(self.max_chars, self.max_chunks, self.ngram - 1, self.title_run - 1, self.bag - 2) < 1:
            raise ConfigError(
                "leak filter: max_chars and max_chunks must be at least 1, ngram and title_run at least 2, "
                "bag at least 3"
            )
        if not all(0 < share <= 1 for share in (self.pieces_share, self.copy_share, self.common_share)):
            raise ConfigError("leak filter: pieces_share, copy_share and common_share must lie in (0, 1]")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What no chunk may hold; made by whoever can see the environment's private side.

    Attributes:
        product_ids: ids of products; those shorter than three characters are not looked for.
        product_titles: titles of products.
        task_ids: ids of tasks and of users.
        goals: strings that give a goal away, such as a goal's whole attribute list.
        prices: prices and budgets of goals, in currency units; amounts in ``instructions`` are prices too.
        instructions: instructions of every split that proposals must not see (all but train).
    """

    product_ids: Collection[str] = ()
    product_titles: Collection[str] = ()
    task_ids: Collection[str] = ()
    goals: Collection[str] = ()
    prices: Collection[float] = ()
    instructions: Collection[str] = ()

    def __add__(self, other: "Secrets") -> "Secrets":
        """Return the secrets of both."""
        return Secrets(**{one.name: (*getattr(self, one.name), *getattr(other, one.name)) for one in fields(self)})


@dataclass(frozen=True, slots=True)
class Rejection:
    """One broken rule and the span of the chunk (or the chunk's size) that broke it."""

    rule: str
    span: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.span!r}"


@dataclass(frozen=True)
class LeakFilter:
    """Checks chunks against secrets; its indexes are built once."""

    secrets: Secrets = field(default_factory=Secrets)
    rule: LeakRule = field(default_factory=LeakRule)

    def inspect(self, chunk: Chunk, others: Iterable[Chunk] = ()) -> tuple[Rejection, ...]:
        """Return every broken rule with its first span; empty means that the chunk may enter the pool.

        Args:
            chunk: the candidate.
            others: chunks that would stand beside it; those that it replaces are left out.
        """
        reading, body = Reading(_text(chunk)), Reading(chunk.body)
        found = {rejection.rule: rejection for rejection in _first_of_each(self._violations(reading))}
        for other in others:
            if other.id in reading.text:
                found.setdefault("chunk_id", Rejection("chunk_id", other.id))
            shared = max(copied_share(reading, Reading(_text(other))), copied_share(body, Reading(other.body)))
            if shared > self.rule.copy_share and repeats(chunk.body, other.body):
                found.setdefault("copy", Rejection("copy", shown(f"{other.title[:60]} ({shared:.0%})")))
        return tuple(found.values())

    def inspect_reasons(self, texts: Iterable[str]) -> tuple[Rejection, ...]:
        """Return every rule that a proposal's own words break: why it is made, what it should change.

        No agent sees them, but the analysts that unite proposals, a person's review and the log of edits do.
        """
        return tuple(found for text in texts if text for found in _first_of_each(self._violations(Reading(text))))

    def inspect_together(self, chunks: Sequence[Chunk], beside: Iterable[Chunk] = ()) -> tuple[Rejection, ...]:
        """Return what some chunks give away side by side, or beside others, that none gives away alone.

        Args:
            chunks: would come in together: the parts of a SPLIT, the proposals of a round.
            beside: are there; what they give away among themselves is not found again.
        """
        return self._together(map(_text, chunks), map(_text, beside))

    def inspect_edit(
        self, chunks: Sequence[Chunk], skill: Skill, without: Iterable[ChunkId] = (), beside: Sequence[Chunk] = ()
    ) -> tuple[Rejection, ...]:
        """Return every rule that the new chunks of an edit break: each alone, else all together.

        Args:
            chunks: what the edit adds.
            skill: the document that it changes.
            without: ids of the chunks that it takes out.
            beside: other chunks that would come in with it.
        """
        gone = frozenset(without)
        stays = [*(chunk for chunk in skill.chunks if chunk.id not in gone), *beside]
        if len(chunks) > self.rule.max_chunks:
            return (Rejection("size", f"{len(chunks)} chunks, at most {self.rule.max_chunks}"),)
        alone = tuple(
            rejection
            for place, chunk in enumerate(chunks)
            for rejection in self.inspect(chunk, (*stays, *chunks[:place]))
        )
        return alone or self._together(map(_text, chunks), (_head(skill), *map(_text, stays)))

    def inspect_preamble(self, skill: Skill) -> tuple[Rejection, ...]:
        """Return every rule that the text before the chunks breaks: whoever sees a chunk sees it too.

        It may hold headings, its document's name for one; what else a chunk may not hold, it may not hold either.
        """
        head = _head(skill)
        alone = _first_of_each(self._violations(Reading(head)))
        return alone or self._together([head], map(_text, skill.chunks))

    def inspect_skill(self, skill: Skill) -> Iterator[tuple[str, Rejection]]:
        """Yield every rule that ``skill`` breaks, and where: its preamble, a chunk beside the others, all together."""
        yield from (("the preamble", rejection) for rejection in self.inspect_preamble(skill))
        for chunk in skill.chunks:
            others = [other for other in skill.chunks if other.id != chunk.id]
            yield from ((f"chunk {chunk.title!r}", rejection) for rejection in self.inspect(chunk, others))
        yield from (("the chunks together", rejection) for rejection in self.inspect_together(skill.chunks))

    def _together(self, new: Iterable[str], beside: Iterable[str]) -> tuple[Rejection, ...]:
        pieces, there = ([self._pieces(text) for text in texts if text] for texts in (new, beside))
        return _first_of_each(told_together(pieces, there, self._bags, self._runs, self.rule.pieces_share))

    def _violations(self, reading: Reading) -> Iterator[tuple[str, str]]:
        if len(reading.raw) > self.rule.max_chars:
            yield "size", f"{len(reading.raw)} characters, at most {self.rule.max_chars}"
            reading = Reading(reading.raw[: 4 * self.rule.max_chars])
        if hidden := hidden_characters(reading.raw):
            yield "invisible_text", " ".join(f"U+{ord(c):04X}" for c in hidden)
        for word in disguised_words(reading.raw):
            yield "mixed_script", word
        yield from (("control_text", span) for span in commands(reading))
        yield from pattern_violations(reading)
        yield from (("language", found.span) for found in foreign(reading.raw, self._languages))
        for value, start, end in amounts(reading.text):
            if value in self._prices:
                yield "goal_price", reading.span(start, end)
        yield from self._leaks(reading)
        for text in undone(reading.text):
            yield from self._leaks(Reading(text))

    def _leaks(self, reading: Reading) -> Iterator[tuple[str, str]]:
        for rule, ids in self._ids.items():
            if (span := ids.find(reading)) is not None:
                yield rule, span
        for rule, runs in self._runs.items():
            if ends := runs.find(reading.words):
                yield rule, reading.span(ends[0].start, ends[1].end)
        for rule, bags in self._bags.items():
            for sentence in reading.sentences:
                if ends := bags.find(sentence):
                    yield rule, reading.span(ends[0].start, ends[1].end)
                    break
            if ends := bags.find_strewn(reading.words, self.rule.pieces_share):
                yield rule, reading.span(ends[0].start, ends[1].end)

    @cached_property
    def _prices(self) -> frozenset[float]:
        stated = stated_amounts(self.secrets.instructions)
        return frozenset(round(float(price), 2) for price in (*self.secrets.prices, *stated))

    @cached_property
    def _languages(self) -> frozenset[str]:
        return languages_of(tuple(self.secrets.instructions), self.rule.common_share)

    @cached_property
    def _pieces(self) -> Callable[[str], Pieces]:
        most = 4 * self.rule.max_chars
        return lru_cache(_KEPT)(lambda text: Pieces.of(Reading(text[:most]), self._bags))

    @cached_property
    def _ids(self) -> dict[str, IdIndex]:
        return {"product_id": IdIndex.of(self.secrets.product_ids), "task_id": IdIndex.of(self.secrets.task_ids)}

    @cached_property
    def _texts(self) -> dict[str, tuple[list[Tokens], frozenset[str]]]:
        """Rule → words of its private texts, and what is common among them."""
        lines = {line for text in self.secrets.instructions for line in text.splitlines()}
        texts = {"held_out_instruction": lines, "product_title": set(self.secrets.product_titles)}
        read = {rule: [words_in(text) for text in sorted(found)] for rule, found in texts.items()}
        share = self.rule.common_share
        return {rule: (words, COMMON_WORDS | frequent_units(words, share)) for rule, words in read.items()}

    @cached_property
    def _runs(self) -> dict[str, RunIndex]:
        lengths = {"held_out_instruction": self.rule.ngram, "product_title": self.rule.title_run}
        return {rule: RunIndex.of(words, lengths[rule], common) for rule, (words, common) in self._texts.items()}

    @cached_property
    def _bags(self) -> dict[str, BagIndex]:
        bags = {rule: BagIndex.of(words, self.rule.bag, common) for rule, (words, common) in self._texts.items()}
        goals = [words_in(goal) for goal in sorted(set(self.secrets.goals))]
        return bags | {"goal_string": BagIndex.of(goals, None, frozenset())}


def _text(chunk: Chunk) -> str:
    return f"{chunk.title}\n{chunk.body}"


def _head(skill: Skill) -> str:
    """Return the preamble without the marks of its headings."""
    return _HEADING_MARK.sub("", skill.preamble)


def _first_of_each(found: Iterable[tuple[str, str]]) -> tuple[Rejection, ...]:
    """Return every rule once, with the first span that broke it."""
    first: dict[str, str] = {}
    for rule, span in found:
        first.setdefault(rule, span)
    return tuple(Rejection(rule, shown(span)) for rule, span in first.items())
