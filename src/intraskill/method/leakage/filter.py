"""The leak filter: code that refuses chunks which leak a task, a goal or control text (method §1.2).

A chunk may hold a transferable procedure, never a product, a task, an answer, a held-out instruction, or text
that speaks to the model's own machinery. Every rejection names the rule and the exact span as it stands. Disguised
letters are read as what they look like (`text`). Leaks are runs of words, sets of rare words in any order, and ids
(`index`), and amounts of money; commands and markup are patterns (`rules`).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

from intraskill.method.leakage.index import BagIndex, IdIndex, RunIndex, common_words, copied_share, frequent_units
from intraskill.method.leakage.index import LeakLimits as LeakLimits
from intraskill.method.leakage.rules import amounts, commands, pattern_violations, stated_amounts, tool_calls
from intraskill.method.leakage.text import Reading, disguised_words, hidden_characters, shown, words_in
from intraskill.method.leakage.text import Tokens as Tokens
from intraskill.method.leakage.text import normalise as normalise
from intraskill.method.leakage.text import tokens as tokens
from intraskill.method.skill.likeness import repeats
from intraskill.method.skill.skill import Chunk, ChunkId, Skill

REMEDIES = {
    "product_id": "describe the product by what matters for the task",
    "task_id": "say for which kind of task it holds",
    "private_field": "say what the agent can see",
    "control_text": "a policy may take it for a command or a turn of its chat; say it in a sentence",
    "markup": "a policy may take it for markup of its chat; plain sentences or a list say the same",
    "link": "no policy can open it; write down what stands there",
    "chunk_id": "name the other chunk by its title",
    "repetition": "say it once",
    "encoded_text": "write it in words",
    "invisible_text": "delete these characters",
    "mixed_script": "type the word anew with one alphabet",
    "size": "split it, or raise leak_filter.max_chars",
    "copy": "keep one of the two",
    "goal_price": "a price of a task's goal; say how to find the price",
}
"""Rule → what a person can do about a text that breaks it and gives no answer away."""
_HEADING_MARK = re.compile(r"(?m)^ {0,3}#+[ \t]*")


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
    limits: LeakLimits = field(default_factory=LeakLimits)

    def inspect(self, chunk: Chunk, others: Iterable[Chunk] = ()) -> tuple[Rejection, ...]:
        """Return every broken rule with its first span; empty means that the chunk may enter the pool.

        Args:
            chunk: the candidate.
            others: chunks that would stand beside it; those that it replaces are left out.
        """
        reading, body = Reading(f"{chunk.title}\n{chunk.body}"), Reading(chunk.body)
        broken = {rejection.rule: rejection for rejection in _first_of_each(self._violations(reading))}
        for other in others:
            if other.id in reading.text:
                broken.setdefault("chunk_id", Rejection("chunk_id", other.id))
            whole = copied_share(reading, Reading(f"{other.title}\n{other.body}"))
            shared = max(whole, copied_share(body, Reading(other.body)))
            if shared > self.limits.copy_share and repeats(chunk.body, other.body):
                broken.setdefault("copy", Rejection("copy", shown(f"{other.title[:60]} ({shared:.0%})")))
        return tuple(broken.values())

    def inspect_reasons(self, texts: Iterable[str]) -> tuple[Rejection, ...]:
        """Return every rule that a proposal's own words break: why it is made, what it should change.

        No agent sees them, but the proposers that unite proposals, a person's review and the log of edits do.
        """
        return tuple(broken for text in texts if text for broken in _first_of_each(self._violations(Reading(text))))

    def inspect_edit(
        self, chunks: Sequence[Chunk], skill: Skill, without: Iterable[ChunkId] = (), beside: Sequence[Chunk] = ()
    ) -> tuple[Rejection, ...]:
        """Return every rule that the new chunks of an edit break, each beside what stays and those before it.

        Args:
            chunks: what the edit adds.
            skill: the document that it changes.
            without: ids of the chunks that it takes out.
            beside: other chunks that would come in with it.
        """
        gone = frozenset(without)
        stays = [*(chunk for chunk in skill.chunks if chunk.id not in gone), *beside]
        if len(chunks) > self.limits.max_chunks:
            return (Rejection("size", f"{len(chunks)} chunks, at most {self.limits.max_chunks}"),)
        return tuple(
            rejection
            for place, chunk in enumerate(chunks)
            for rejection in self.inspect(chunk, (*stays, *chunks[:place]))
        )

    def inspect_preamble(self, skill: Skill) -> tuple[Rejection, ...]:
        """Return every rule that the text before the chunks breaks: whoever sees a chunk sees it too.

        It may hold headings, its document's name for one; what else a chunk may not hold, it may not hold either.
        """
        return _first_of_each(self._violations(Reading(_HEADING_MARK.sub("", skill.preamble))))

    def inspect_skill(self, skill: Skill) -> Iterator[tuple[str, Rejection]]:
        """Yield every rule that ``skill`` breaks, and where: in its preamble, or in a chunk beside the others."""
        yield from (("the preamble", rejection) for rejection in self.inspect_preamble(skill))
        for chunk in skill.chunks:
            others = [other for other in skill.chunks if other.id != chunk.id]
            yield from ((f"chunk {chunk.title!r}", rejection) for rejection in self.inspect(chunk, others))

    def inspect_persons(self, skill: Skill) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what a person's skill gives away, and what else a policy may stumble over; place and rule first."""
        leaks = [(where, leak) for where, text in _texts_of(skill) for leak in self._given_away(text)]
        known = {(where, leak.rule) for where, leak in leaks}
        rest = [(where, broken) for where, broken in self.inspect_skill(skill) if (where, broken.rule) not in known]
        refused = tuple(f"{where}, {leak}" for where, leak in leaks)
        return refused, tuple(f"{where}, {_kept(broken)}" for where, broken in rest)

    def inspect_persons_edit(
        self, chunks: Sequence[Chunk], skill: Skill, without: Iterable[ChunkId] = (), beside: Sequence[Chunk] = ()
    ) -> tuple[tuple[Rejection, ...], tuple[str, ...]]:
        """Return what a person's edit gives away or repeats, and what else a policy may stumble over.

        Args as of `inspect_edit`. A machine's habits are what the other rules are for.
        """
        gone = frozenset(without)
        stays = [*(chunk for chunk in skill.chunks if chunk.id not in gone), *beside]
        refused: list[Rejection] = []
        remarks: list[str] = []
        for place, chunk in enumerate(chunks):
            leaks = self._given_away(f"{chunk.title}\n{chunk.body}")
            rest = [broken for broken in self.inspect(chunk, (*stays, *chunks[:place])) if broken not in leaks]
            refused += [*leaks, *(broken for broken in rest if broken.rule == "copy")]
            remarks += [f"chunk {chunk.title!r}, {_kept(broken)}" for broken in rest if broken.rule != "copy"]
        return tuple(refused), tuple(remarks)

    def commands(self, text: str) -> tuple[Rejection, ...]:
        """Return the commands to a policy that a text holds, and what it hides: no author unknown may slip these in."""
        reading = Reading(text)
        hidden = [("invisible_text", f"U+{ord(c):04X}") for c in hidden_characters(text)]
        return _first_of_each(
            [*hidden, *(("control_text", span) for span in (*commands(reading), *tool_calls(reading)))]
        )

    def _given_away(self, text: str) -> tuple[Rejection, ...]:
        """Return only what gives an answer away: ids, and words of the private texts of the environment."""
        return _first_of_each(self._leaks(Reading(text)))

    def _violations(self, reading: Reading) -> Iterator[tuple[str, str]]:
        if len(reading.raw) > self.limits.max_chars:
            yield "size", f"{len(reading.raw)} characters, at most {self.limits.max_chars}"
            reading = Reading(reading.raw[: 4 * self.limits.max_chars])
        if hidden := hidden_characters(reading.raw):
            yield "invisible_text", " ".join(f"U+{ord(c):04X}" for c in hidden)
        for word in disguised_words(reading.raw):
            yield "mixed_script", word
        yield from pattern_violations(reading, self.limits)
        for value, start, end in amounts(reading.text):
            if value in self._prices:
                yield "goal_price", reading.span(start, end)
        yield from self._leaks(reading)

    def _leaks(self, reading: Reading) -> Iterator[tuple[str, str]]:
        """Yield the ids, runs of words and sets of rare words of private texts."""
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
            if ends := bags.find_strewn(reading.words):
                yield rule, reading.span(ends[0].start, ends[1].end)

    @cached_property
    def _prices(self) -> frozenset[float]:
        stated = stated_amounts(self.secrets.instructions)
        return frozenset(round(float(price), 2) for price in (*self.secrets.prices, *stated))

    @cached_property
    def _ids(self) -> dict[str, IdIndex]:
        ids = {"product_id": self.secrets.product_ids, "task_id": self.secrets.task_ids}
        return {rule: IdIndex.of(names, self.limits.id_part) for rule, names in ids.items()}

    @cached_property
    def _texts(self) -> dict[str, tuple[list[Tokens], frozenset[str]]]:
        """Rule → words of its private texts, and what is common among them."""
        lines = {line for text in self.secrets.instructions for line in text.splitlines()}
        texts = {"held_out_instruction": lines, "product_title": set(self.secrets.product_titles)}
        read = {rule: [words_in(text) for text in sorted(private)] for rule, private in texts.items()}
        share = self.limits.common_share
        return {rule: (words, common_words() | frequent_units(words, share)) for rule, words in read.items()}

    @cached_property
    def _runs(self) -> dict[str, RunIndex]:
        lengths = {"held_out_instruction": self.limits.instruction_run, "product_title": self.limits.title_run}
        return {
            rule: RunIndex.of(words, lengths[rule], common, self.limits)
            for rule, (words, common) in self._texts.items()
        }

    @cached_property
    def _bags(self) -> dict[str, BagIndex]:
        goals = [words_in(goal) for goal in sorted(set(self.secrets.goals))]
        bags = {
            rule: BagIndex.of(words, common, self.limits, all_of=False) for rule, (words, common) in self._texts.items()
        }
        return bags | {"goal_string": BagIndex.of(goals, frozenset(), self.limits, all_of=True)}


def _texts_of(skill: Skill) -> Iterator[tuple[str, str]]:
    yield "the preamble", skill.preamble
    yield from ((f"chunk {chunk.title!r}", f"{chunk.title}\n{chunk.body}") for chunk in skill.chunks)


def _kept(broken: Rejection) -> str:
    return f"{broken}: kept as you wrote it; {REMEDIES.get(broken.rule, 'reword it')}"


def _first_of_each(broken: Iterable[tuple[str, str]]) -> tuple[Rejection, ...]:
    """Return every rule once, with the first span that broke it."""
    first: dict[str, str] = {}
    for rule, span in broken:
        first.setdefault(rule, span)
    return tuple(Rejection(rule, shown(span)) for rule, span in first.items())
