"""The rules of planted editing worlds: topics, and texts on each whose quality is known.

A *general* rule says what to do in every case of its topic; a *vague* one helps a little; a *narrow* one names one
case and helps in that one only; a *harmful* one misleads. Nothing but the words tells them apart.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from intraskill.method.skill import Chunk

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
class Rule:
    """What a text is worth: its topic, its quality, and for a narrow one its case."""

    topic: str
    quality: Quality
    case: str = ""


def rule_chunk(topic: str, quality: Quality, variant: int, case: str = "") -> Chunk:
    """Return a rule's text in one of its two wordings."""
    return Chunk(f"{topic.capitalize()} rule", _TEXTS[quality][variant % 2].format(topic=topic, case=case))


def read_rule(chunk: Chunk) -> Rule | None:
    """Return what a chunk is worth, read off its words; ``None`` when it is about no topic.

    A text in other words than these that names a topic counts as vague: the planted worker understands half of it.
    """
    known = _catalogue().get(chunk.body)
    if known is not None:
        return known
    words = re.sub(r"[^a-z]+", " ", f"{chunk.title} {chunk.body}".lower())
    topic = next((topic for topic in TOPICS if f" {topic} " in f" {words} "), None)
    return None if topic is None else Rule(topic, "vague")


@cache
def _catalogue() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for quality in _TEXTS:
        for topic in TOPICS:
            for variant in (0, 1):
                for case in CASES if quality == "narrow" else ("",):
                    found[rule_chunk(topic, quality, variant, case).body] = Rule(topic, quality, case)
    return found
