"""What a model thinks before it answers, between think tags: no part of the answer."""

import re

_THOUGHT = re.compile(r"\A\s*(?:<think>)?(?:(?!<think>).)*?</think>\s*", re.DOTALL)
_ANSWER = re.compile(r"\A\s*(?:[\[{]|```)")


def without_thought(text: str) -> str:
    """Return a text without the thought at its start; a later one stays.

    Where the prompt opens the thought, or a server swallows the tag, only the closing one is there. A text that begins
    as JSON or a fence has no thought: a closing tag in it stands in a string.
    """
    return text if _ANSWER.match(text) else _THOUGHT.sub("", text)


def without_thoughts(text: str, *, thinking: bool) -> str | None:
    """Return what follows the thoughts of an answer; ``None`` when a thought does not end.

    Args:
        text: the answer.
        thinking: the prompt has opened a thought already, so the answer begins inside it.
    """
    rest = f"<think>{text}" if thinking else text
    kept: list[str] = []
    while True:
        before, opened, rest = rest.partition("<think>")
        kept.append(before)
        if not opened:
            answer = "".join(kept)
            # A closing tag that was never opened here ends a thought which the model began in its own way.
            return answer.rpartition("</think>")[2] if "</think>" in answer else answer
        _, closed, rest = rest.partition("</think>")
        if not closed:
            return None
