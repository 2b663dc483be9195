"""Planted editing worlds: no model, every effect known; the wind tunnel of skill editors.

A world has five topics, each in one condition: its rule is *missing*, *vague*, *harmful*, said twice (*clash*), or
*fine*.
A query asks for one topic in one case, and its success probability under a skill is

    p = 0.15 + worth of the skill's rules on its topic − 0.02 · (chunks beyond six),  clipped to [0.02, 0.98]

where a general rule is worth 0.6, a vague one 0.2, a narrow one 0.6 in its own case only, a harmful one −0.13, and
several rules on one topic are worth 0.4 of the best. Evidence is what a worker with the first skill went through, with
a feedback code that is wrong one time in eight; drafts of unequal quality come with it. Once a topic is mended, later
evidence on it is stale and the right edit is none.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal

from intraskill.config.config import Config
from intraskill.editor.domain import Answer, Job, Part, Query, Stream, Workbench
from intraskill.editor.evidence import Unit
from intraskill.editor.workers_options import read_options
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.leakage.filter import Secrets
from intraskill.method.randomness import content_hash, shuffled, uniform
from intraskill.method.skill.skill import Chunk, Skill

Quality = Literal["general", "vague", "narrow", "harmful"]
TOPICS = (
    "colour", "size", "brand", "budget", "delivery", "gift wrap", "warranty", "material", "returns", "voltage",
    "quantity", "seller", "coupon", "address", "invoice", "fabric", "battery", "language", "edition", "weight",
)  # fmt: skip
CASES = ("red", "blue", "small", "large", "monday", "paris", "cotton", "steel", "seven", "twelve")
_GENERAL = ("Read the {topic} in the request and choose by it.", "Always match the {topic} that the request states.")
_VAGUE = ("Think about the {topic}.", "Keep the {topic} in mind.")
_NARROW = ("When the {topic} is {case}, choose {case}.", "For {topic} take {case}.")
_HARMFUL = ("Take the first one, whatever the {topic} is.", "Never look at the {topic}.")
_TEXTS: dict[Quality, tuple[str, ...]] = {
    "general": _GENERAL,
    "vague": _VAGUE,
    "narrow": _NARROW,
    "harmful": _HARMFUL,
}


@dataclass(frozen=True, slots=True)
class PlantedRule:
    """What a text is worth: its topic, its quality, and for a narrow one its case."""

    topic: str
    quality: Quality
    case: str = ""


def rule_chunk(topic: str, quality: Quality, variant: int, case: str = "") -> Chunk:
    """Return a rule's text in one of its two wordings."""
    return Chunk(f"{topic.capitalize()} rule", _TEXTS[quality][variant % 2].format(topic=topic, case=case))


def read_rule(chunk: Chunk) -> PlantedRule | None:
    """Return what a chunk is worth, read off its words; ``None`` when it is about no topic.

    A text in other words than these that names a topic counts as vague: the planted worker understands half of it.
    """
    known = _catalogue().get(chunk.body)
    if known is not None:
        return known
    words = re.sub(r"[^a-z]+", " ", f"{chunk.title} {chunk.body}".lower())
    topic = next((topic for topic in TOPICS if f" {topic} " in f" {words} "), None)
    return None if topic is None else PlantedRule(topic, "vague")


@cache
def _catalogue() -> dict[str, PlantedRule]:
    found: dict[str, PlantedRule] = {}
    for quality in _TEXTS:
        for topic in TOPICS:
            for variant in (0, 1):
                for case in CASES if quality == "narrow" else ("",):
                    found[rule_chunk(topic, quality, variant, case).body] = PlantedRule(topic, quality, case)
    return found


CONDITIONS = ("missing", "vague", "harmful", "clash", "fine")
_FEEDBACK = {"missing": "missed", "vague": "unclear", "harmful": "misled", "clash": "clash", "fine": "slip"}
WORTH: dict[Quality, float] = {"general": 0.6, "vague": 0.2, "narrow": 0.6, "harmful": -0.13}
BASE, CLASH, CLUTTER, ROOM = 0.15, 0.4, 0.02, 6
LEAST, MOST = 0.02, 0.98
_WRONG_FEEDBACK = 1 / 8
PREAMBLE = "Rules."


@dataclass(frozen=True, slots=True)
class PlantedDomain:
    """Planted editing worlds; an `intraskill.editor.domain.Domain`.

    Attributes:
        seed: seed of the worlds.
        worlds: worlds to learn from.
        held_out: further worlds for evaluation.
        units: pieces of evidence per world.
        probes: held-out queries per world.
        anchors: queries that a failure names: its own, then further ones of its topic in drawn cases.
        family: name of the task family.
    """

    seed: int = 0
    worlds: int = 200
    held_out: int = 64
    units: int = 16
    probes: int = 10
    anchors: int = 1
    family: str = field(default="planted_editing", init=False)

    def __post_init__(self) -> None:
        if min(self.worlds, self.held_out, self.units, self.anchors) < 1 or self.probes < 0:
            raise ConfigError(
                "planted editing: worlds, held_out, units and anchors must be at least 1, probes at least 0"
            )

    @property
    def version(self) -> str:
        """Hash of everything that could change a stream or a score."""
        return content_hash("planted-editing-2", repr(self))

    @property
    def secrets(self) -> Secrets:
        """Nothing here is secret."""
        return Secrets()

    def streams(self, part: Part) -> tuple[Stream, ...]:
        """Return one stream per world."""
        names = range(self.worlds) if part == "train" else range(self.worlds, self.worlds + self.held_out)
        return tuple(self._world(number).stream() for number in names)

    def value(self, stream_id: str) -> Callable[[Skill], float]:
        """Return the mean success probability over a world's topics and all cases; see `KnowsWorth`.

        Raises:
            SplitError: for a stream that is no world of this domain.
        """
        number = stream_id.removeprefix("world-")
        if not number.isdecimal() or int(number) >= self.worlds + self.held_out:
            raise SplitError(
                f"{stream_id!r} is no planted world; they are world-0 to {self.worlds + self.held_out - 1}"
            )
        topics = self._world(int(number)).conditions

        def mean_success(skill: Skill) -> float:
            rules = [rule for chunk in skill.chunks if (rule := read_rule(chunk)) is not None]
            return fmean(_chance(rules, skill, topic, case) for topic in topics for case in CASES)

        return mean_success

    def query(self, query_id: str) -> Query:
        """Return a query; its id says all: world, topic, case, number.

        Raises:
            SplitError: for an id of another form.
        """
        parts = query_id.split("/")
        if len(parts) != 4 or parts[1] not in TOPICS or parts[2] not in CASES:
            raise SplitError(f"{query_id!r} is no planted query; its form is world/topic/case/number")
        return Query(query_id, f"Buy by {parts[1]} {parts[2]}.", {"topic": parts[1], "case": parts[2]})

    def _world(self, number: int) -> "EditingWorld":
        return EditingWorld(self.seed, number, self.units, self.probes, self.anchors)


@dataclass(frozen=True)
class EditingWorld:
    """One planted world: conditions of five topics, the first skill, and evidence collected with it."""

    seed: int
    number: int
    units: int
    probes: int
    anchors: int = 1

    def draw(self, *where: str | int) -> float:
        """Return the uniform number at an address of this world."""
        return uniform(self.seed, "editing", self.number, *where)

    def pick(self, items: Sequence[str], *where: str | int) -> str:
        """Return one of some items."""
        return items[int(self.draw(*where) * len(items))]

    @cached_property
    def conditions(self) -> dict[str, str]:
        """Topic → condition; every condition occurs once."""
        topics = shuffled(TOPICS, self.seed, "editing", str(self.number), "topics")[: len(CONDITIONS)]
        return dict(zip(topics, CONDITIONS, strict=True))

    @cached_property
    def skill(self) -> Skill:
        """z_0: the rules that the conditions say, in a drawn order."""
        chunks: dict[str, Chunk] = {}
        for topic, condition in self.conditions.items():
            for chunk in self._first_rules(topic, condition):
                chunks[chunk.id] = chunk
        order = shuffled(chunks, self.seed, "editing", str(self.number), "order")
        return Skill(PREAMBLE, tuple(chunks[chunk_id] for chunk_id in order))

    def stream(self) -> Stream:
        """Return the world's evidence and probes."""
        name = f"world-{self.number}"
        probes = tuple(
            f"{name}/{topic}/{self.pick(CASES, 'probe', topic, k)}/probe-{k}"
            for k in range(-(-self.probes // len(self.conditions)))
            for topic in self.conditions
        )[: self.probes]
        return Stream(name, tuple(self.unit(k) for k in range(self.units)), self.skill, probes)

    def unit(self, number: int) -> Unit:
        """Return what a worker with z_0 went through in one task, and the drafts that somebody wrote for it."""
        topic = self.pick(list(self.conditions), "unit", number)
        case = self.pick(CASES, "case", number)
        query = f"world-{self.number}/{topic}/{case}/{number}"
        if self.draw("outcome", number) < success(self.skill, topic, case):
            return Unit(query, "experience", f"Task: buy by {topic} {case}.\nReward: 1", ())
        code = _FEEDBACK[self.conditions[topic]]
        if self.draw("wrong", number) < _WRONG_FEEDBACK:
            code = self.pick(sorted(_FEEDBACK.values()), "code", number)
        text = f"Task: buy by {topic} {case}.\n1. choose {topic} -> {code}\nReward: 0"
        more = [
            f"world-{self.number}/{topic}/{self.pick(CASES, 'anchor', number, k)}/{number}-{k}"
            for k in range(1, self.anchors)
        ]
        return Unit(query, "experience", text, (query, *more), self._drafts(number, topic, case, code))

    def _first_rules(self, topic: str, condition: str) -> list[Chunk]:
        variant, case = int(self.draw("variant", topic) * 2), self.pick(CASES, "narrow", topic)
        texts: dict[str, list[tuple[Quality, int]]] = {
            "missing": [],
            "vague": [("vague", variant)],
            "harmful": [("harmful", variant)],
            "clash": [("vague", variant), ("narrow", variant)],
            "fine": [("general", variant)],
        }
        return [rule_chunk(topic, quality, version, case) for quality, version in texts[condition]]

    def _drafts(self, number: int, topic: str, case: str, code: str) -> tuple[Chunk, ...]:
        """A general and a narrow draft in a drawn order; after a slip one that is beside the point; often none."""
        if code == "slip":
            other = self.pick([t for t in TOPICS if t not in self.conditions], "other", number)
            return (rule_chunk(other, "narrow", number, case),)
        if code == "misled" and self.draw("silence", number) < 0.5:
            return ()
        drafts = (rule_chunk(topic, "general", number), rule_chunk(topic, "narrow", number, case))
        return drafts if self.draw("drafts", number) < 0.5 else drafts[::-1]


def success(skill: Skill, topic: str, case: str) -> float:
    """Return p of the module's formula."""
    return _chance([rule for chunk in skill.chunks if (rule := read_rule(chunk)) is not None], skill, topic, case)


def _chance(known: Sequence[PlantedRule], skill: Skill, topic: str, case: str) -> float:
    rules = [rule for rule in known if rule.topic == topic]
    worths = [WORTH[r.quality] if r.quality != "narrow" or r.case == case else 0.0 for r in rules]
    worth = 0.0 if not worths else worths[0] if len(worths) == 1 else CLASH * max(worths)
    return min(max(BASE + worth - CLUTTER * max(len(skill.chunks) - ROOM, 0), LEAST), MOST)


class PlantedWorker:
    """Succeeds with the probability that the skill's words deserve; the draw depends on the job's seed only."""

    version = "planted-worker-1"

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Draw every outcome."""
        return [Answer(facts={"reward": float(uniform(job.seed, "outcome") < self._chance(job))}) for job in jobs]

    def _chance(self, job: Job) -> float:
        return success(job.skill, job.query.facts["topic"], job.query.facts["case"])


class RewardVerifier:
    """The environment's own reward."""

    version = "reward-1"

    def score(self, query: Query, answer: Answer) -> float:
        """Return it."""
        return float(answer.facts["reward"])


def planted(config: Config, root: Path) -> Workbench:
    """Return planted worlds of ``editor.options``: the fields of `PlantedDomain`, anchors apart.

    A failure names as many queries as an edit is tried on, ``editor.anchors``.

    Raises:
        ConfigError: for an option that is none of these, or no whole number.
    """
    known = {one.name: one.default for one in fields(PlantedDomain) if one.init and one.name != "anchors"}
    options = read_options(config.editor.options, known, "editor.options")
    return Workbench(PlantedDomain(**options, anchors=config.editor.anchors), PlantedWorker(), RewardVerifier())
