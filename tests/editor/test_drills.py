"""Reading drills: the answer is what the shown chunks say on each topic, and only it is learnt."""

import re

from intraskill.editor.domains.planted import TOPICS
from intraskill.editor.prompt import TERSE_SYSTEM
from intraskill.editor.tiny.tiny_editor import ABSENT, drill, encoded_drill
from intraskill.rl.start import policy_directory

NUMBERS = range(60)
IGNORES, TAKES_ANY, NARROW = "misled", "unclear", "one"


def shown(prompt: str) -> list[tuple[str, str]]:
    """The numbers and texts of the chunks of a prompt, read off it."""
    body = prompt.split("# Evidence")[0]
    return re.findall(r"\[(\d+)\]\n(.*?)(?=\n\n\[|\Z)", body, flags=re.DOTALL)


def test_every_line_names_exactly_the_chunks_on_its_topic_in_order() -> None:
    for number in NUMBERS:
        prompt, lines = drill(number, 0)
        for topic, said in lines:
            named = [] if said == ABSENT else re.findall(r"(\d+) [a-z]+", said)
            assert named == [n for n, text in shown(prompt) if f" {topic} " in re.sub(r"[^a-z]+", " ", text.lower())]


def test_the_word_after_a_number_tells_texts_apart_by_what_they_say() -> None:
    found: dict[str, set[str]] = {}
    for number in NUMBERS:
        prompt, lines = drill(number, 0)
        texts = dict(shown(prompt))
        for topic, said in lines:
            for n, word in [] if said == ABSENT else re.findall(r"(\d+) ([a-z]+)", said):
                found.setdefault(texts[n].replace(topic, "…").replace(topic.capitalize(), "…"), set()).add(word)
    assert all(len(words) == 1 for words in found.values())
    assert {word for words in found.values() for word in words} == {"slip", TAKES_ANY, NARROW, IGNORES}
    assert all(words == {IGNORES} for text, words in found.items() if "whatever the …" in text)


def test_a_drill_asks_of_absent_topics_too_and_is_reproducible() -> None:
    absent = [[topic for topic, said in drill(number, 0)[1] if said == ABSENT] for number in NUMBERS]
    assert all(1 <= len(topics) <= 2 for topics in absent)
    assert drill(7, 0) == drill(7, 0) != drill(7, 1)
    assert {topic for topics in absent for topic in topics} <= set(TOPICS)


def test_only_what_is_said_of_a_topic_is_learnt() -> None:
    from transformers import AutoTokenizer

    from intraskill.rl.chat import ChatCodec

    tokenizer = AutoTokenizer.from_pretrained(policy_directory("tiny_editor"))
    ids, mask = encoded_drill(3, 0, ChatCodec(tokenizer, (), system=TERSE_SYSTEM), tokenizer)
    prompt, lines = drill(3, 0)
    learnt = tokenizer.decode([token for token, own in zip(ids, mask, strict=True) if own])
    assert learnt.split() == " ".join(said for _, said in lines).split()
    assert prompt.split("\n")[0].strip("# ") in tokenizer.decode(ids[: mask.index(1)])
