"""Reading drills for the tiny editor: which chunk says what on a topic? Before an edit is right, this must be known.

An edit trace asks it of one topic and shows one number of the answer, which a small model hardly learns from: warmed up
on traces alone it knows a good draft from a poor one and gives the same answer whatever the skill says. A drill asks it
of several topics at once. The words of its answer are the feedback codes, so that they mean something already.
"""

from transformers import PreTrainedTokenizerFast

from intraskill.editor.domains.planted_rules import CASES, TOPICS, Quality, Rule, read_rule, rule_chunk
from intraskill.editor.prompt import numbered
from intraskill.editor.warm_start import Pair
from intraskill.method.randomness import shuffled, uniform
from intraskill.method.skill import Chunk, Skill
from intraskill.runtime.chat import ChatCodec
from intraskill.runtime.fitting import Example

ABSENT = "missed"
SAYS: dict[Quality, str] = {"general": "slip", "vague": "unclear", "narrow": "one", "harmful": "misled"}
QUALITIES: tuple[Quality, ...] = ("general", "vague", "narrow", "harmful")
LONGEST = 8


def drill(number: int, seed: int) -> tuple[str, list[Pair]]:
    """Return drill ``number``: what is read, and a line for each topic: the topic, which is given, and what is said."""
    topics = shuffled(TOPICS, seed, "drill", number)
    known, chunks = topics[: LONGEST - 1], dict[str, Chunk]()
    for k in range(2 + int(uniform(seed, "drill", number, "length") * (LONGEST - 1))):
        topic, quality, case = (
            items[int(uniform(seed, "drill", number, what, k) * len(items))]
            for what, items in (("topic", known), ("quality", QUALITIES), ("case", CASES))
        )
        chunk = rule_chunk(topic, _quality(quality), int(uniform(seed, "drill", number, "variant", k) * 2), case)
        chunks[chunk.id] = chunk
    skill = Skill("Rules.", tuple(chunks.values()))
    said = {topic: _said(skill, topic) for topic in known}
    absent = [topic for topic in topics if said.get(topic, ABSENT) == ABSENT][:2]
    asked = shuffled([*absent, *(t for t in known if said[t] != ABSENT)], seed, "drill", number, "asked")
    return f"# Skill\n\n{numbered(skill)}\n\n# Evidence", [(topic, said.get(topic, ABSENT)) for topic in asked]


def encoded_drill(number: int, seed: int, codec: ChatCodec, tokenizer: PreTrainedTokenizerFast) -> Example:
    """Return a drill's token ids (T,) and a mask (T,) that is 1 on what it asks for; the topics are given."""
    prompt, lines = drill(number, seed)
    ids = list(codec.prompt("", prompt))
    mask = [0] * len(ids)
    for topic, said in lines:
        for text, own in ((f"\n{topic.capitalize()}", 0), (f" {said}", 1)):
            tokens = tokenizer.encode(text, add_special_tokens=False)
            ids += tokens
            mask += [own] * len(tokens)
    return ids, mask


def _quality(name: str) -> Quality:
    return next(quality for quality in QUALITIES if quality == name)


def _said(skill: Skill, topic: str) -> str:
    rules = [(n, rule) for n, chunk in enumerate(skill.chunks, 1) if _about(rule := read_rule(chunk), topic)]
    return " ".join(f"{n} {SAYS[rule.quality]}" for n, rule in rules if rule is not None) or ABSENT


def _about(rule: Rule | None, topic: str) -> bool:
    return rule is not None and rule.topic == topic
