"""What a model thinks before it answers: one block between think tags at the very start, which is no answer."""

import re

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


def without_thought(text: str) -> str:
    """Return a text without a leading think block; a later one stays."""
    return _THOUGHT.sub("", text)
