"""Reading one tool call out of a policy's text, and writing one, in the Hermes/Qwen form.

<tool_call>
{"name": "search", "arguments": {"query": "waterproof jacket"}}
</tool_call>
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from intraskill.store.json_rows import value_of

# Up to the next mark of either kind, so that the time is linear in a text of openings that nothing closes.
_CALL = re.compile(r"<tool_call>((?:(?!</?tool_call>).)*)</tool_call>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool name and its one text argument."""

    name: str
    argument: str


def write_call(name: str, parameter: str, argument: str) -> str:
    """Return the text of one call with one argument."""
    return write_arguments(name, {parameter: argument})


def write_arguments(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the text of one call."""
    body = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def read_call(text: str, parameters: dict[str, str]) -> ToolCall | str:
    """Return the one call in ``text``, or the feedback code that says why there is none.

    Args:
        text: what the policy produced.
        parameters: tool name → the name of its one parameter.
    """
    bodies = _CALL.findall(text)
    if len(bodies) > 1:
        return "multiple_actions_not_allowed"
    if not bodies:
        return "invalid_format"
    try:
        call = value_of(bodies[0])
        name, argument = call["name"], call["arguments"][parameters[call["name"]]]
        str.encode(argument)  # JSON can escape half a character, which no file would take
    except (ValueError, KeyError, TypeError, RecursionError):
        return "invalid_format"
    if len(call["arguments"]) != 1:
        return "invalid_format"
    return ToolCall(name, argument.strip()) if argument.strip() else "empty_argument"
