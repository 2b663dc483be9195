"""Code blocks and small tables of a chunk: what of them breaks nothing, so that it is no markup.

A lesson about spreadsheets or programs shows code, and one about pages a table. The text in them is read by every
other rule; what is passed over here are the marks alone.
"""

# ruff: noqa: E501
import re

_FENCE = re.compile(r"(?m)(?<=\S\n)(?:[ \t]*\n)?^ {0,3}(`{3,})[a-z0-9+#-]{0,12}[ \t]*\n((?:.*\n)*?) {0,3}\1[ \t]*$")
"""A closed fence after a line of text, with at most the name of a language."""
_TABLE = re.compile(
    r"(?m)(?<![^\n])(?:^[ \t]*\|[^|\n]*(?:\|[^|\n]*){1,5}\|[ \t]*\n)[ \t]*\|(?:\s*:?-+:?\s*\|)+[ \t]*(?:\n[ \t]*\|.*\|[ \t]*$){1,12}"
)
_SECTION = re.compile(
    r"\|[\s*_]*(?:applies when|when|procedure|verify|avoid|rule|system|user|assistant|tool|适用于?|步骤|验证|避免)[\s*_]*\|"
)
"""Cells that would pass for a chunk's own sections or for a role."""
_CALL = re.compile(r"(?:(?<=\.)|(?<=with )|(?<== ))(?:open|search|select|find)(?=\()")


def without_layout(text: str) -> str:
    """Return a folded text, as long as it was, without the marks of its code blocks and small tables."""
    return _TABLE.sub(_blank_table, _FENCE.sub(_blank_fence, text))


def without_code_calls(text: str) -> str:
    """Return a folded text, as long as it was, in which calls that any program makes are no calls of a tool."""
    return _FENCE.sub(lambda fence: _CALL.sub(lambda call: "x" * len(call[0]), fence[0]), text)


def _blank_fence(fence: re.Match[str]) -> str:
    """Blank a code block that a sentence leads to: a chunk that is nothing but one, below its title, says no lesson."""
    above = fence.string[: fence.start()].strip().count("\n")
    return _blank(fence[0], r"[`#\[\]|=*_~$&-]") if above else fence[0]


def _blank_table(table: re.Match[str]) -> str:
    return table[0] if _SECTION.search(table[0]) else _blank(table[0], r"[|-]")


def _blank(text: str, marks: str) -> str:
    return re.sub(marks, " ", text)
