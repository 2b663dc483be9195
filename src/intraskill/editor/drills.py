"""Reading drills for the tiny editor: which chunk says what on a topic? Before an edit is right, this must be known.

An edit trace asks it of one topic and shows one number of the answer, which a small model hardly learns from: warmed up
on traces alone it knows a good draft from a poor one and gives the same answer whatever the skill says. A drill asks it
of several topics at once. The words of its answer are the feedback codes, so that they mean something already.
"""

from intraskill.editor.domains.planted_rules import CASES, TOPICS, Quality, Rule, read_rule, rule_chunk
from intraskill.editor.prompt import numbered
from intraskill.editor.warm_start import Pair
from intraskill.method.randomness import shuffled, uniform
from intraskill.method.skill import Chunk, Skill

ABSENT = "missed"
SAYS: dict[Quality, str] = {"general": "slip", "vague": "unclear", "narrow": "one", "harmful": "misled"}
QUALITIES: tuple[Quality, ...] = ("general", "vague", "narrow", "harmful")
LONGEST, ASKED = 8, 8


def drill(number: int, seed: int) -> Pair:
    """Return drill ``number``: a skill and topics, and for each topic the chunks that are about it."""
    topics = shuffled(TOPICS, seed, "drill", number)
    known, chunks = topics[: LONGEST - 1], dict[str, Chunk]()
    for k in range(1 + int(uniform(seed, "drill", number, "length") * LONGEST)):
        topic, quality, case = (
            items[int(uniform(seed, "drill", number, what, k) * len(items))]
            for what, items in (("topic", known), ("quality", QUALITIES), ("case", CASES))
        )
        chunk = rule_chunk(topic, _quality(quality), int(uniform(seed, "drill", number, "variant", k) * 2), case)
        chunks[chunk.id] = chunk
    skill = Skill("Rules.", tuple(chunks.values()))
    asked = shuffled([*known, *topics[LONGEST - 1 : LONGEST + 1]], seed, "drill", number, "asked")[:ASKED]
    prompt = "\n\n".join(["# Skill", numbered(skill), "# Evidence", "\n".join(asked)])
    return prompt, "\n".join(f"{topic} {_said(skill, topic)}" for topic in asked)


def _quality(name: str) -> Quality:
    return next(quality for quality in QUALITIES if quality == name)


def _said(skill: Skill, topic: str) -> str:
    rules = [(n, rule) for n, chunk in enumerate(skill.chunks, 1) if _about(rule := read_rule(chunk), topic)]
    return " ".join(f"{n} {SAYS[rule.quality]}" for n, rule in rules if rule is not None) or ABSENT


def _about(rule: Rule | None, topic: str) -> bool:
    return rule is not None and rule.topic == topic
