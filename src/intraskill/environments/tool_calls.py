"""Reading one tool call out of a policy's text, and writing one, in the Hermes/Qwen form.

<tool_call>
{"name": "search", "arguments": {"query": "waterproof jacket"}}
</tool_call>
"""

import json
import re
from dataclasses import dataclass

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool name and its one text argument."""

    name: str
    argument: str


def write_call(name: str, parameter: str, argument: str) -> str:
    """Return the text of one call."""
    body = json.dumps({"name": name, "arguments": {parameter: argument}}, ensure_ascii=False)
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
        call = json.loads(bodies[0])
        name, argument = call["name"], call["arguments"][parameters[call["name"]]]
        str.encode(argument)  # JSON can escape half a character, which no file would take
    except (ValueError, KeyError, TypeError, RecursionError):
        return "invalid_format"
    if len(call["arguments"]) != 1:
        return "invalid_format"
    return ToolCall(name, argument.strip()) if argument.strip() else "empty_argument"
