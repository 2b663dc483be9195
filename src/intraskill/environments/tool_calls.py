"""Reading one tool call out of a policy's text by the tools' JSON schemas, and writing one, in the Hermes/Qwen form.

<tool_call>
{"name": "assign", "arguments": {"ticket": 17, "team": "billing"}}
</tool_call>
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intraskill.store.json_rows import value_of

# Up to the next mark of either kind, so that the time is linear in a text of openings that nothing closes.
_CALL = re.compile(r"<tool_call>((?:(?!</?tool_call>).)*)</tool_call>", re.DOTALL)
INVALID, SEVERAL, EMPTY = "invalid_format", "multiple_actions_not_allowed", "empty_argument"
_MOST_WORDS = 200


@dataclass(frozen=True, slots=True)
class TypedCall:
    """A tool and its arguments, as its JSON schema has them."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a text is not one call.

    Attributes:
        code: feedback code: `INVALID`, `SEVERAL` or `EMPTY`.
        reason: in words, for the page that the policy sees next.
    """

    code: str
    reason: str


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


def read_typed_call(text: str, tools: Sequence[Mapping[str, Any]]) -> TypedCall | Refusal:
    """Return the one call in ``text`` whose arguments fit the JSON schema of its tool, or why there is none.

    Nothing is repaired: an unknown tool, an argument that is unknown, missing or of another type, and a second call are
    refused.

    Args:
        text: what the policy produced.
        tools: with a JSON schema of ``parameters`` each; a tool without one takes no arguments.
    """
    body = _one_body(text)
    if isinstance(body, Refusal):
        return body
    name, arguments = body.name, body.arguments
    functions = {str(tool["function"]["name"]): tool["function"] for tool in tools}
    if name not in functions:
        return Refusal(INVALID, f"there is no tool {name[:_MOST_WORDS]!r}; there are {', '.join(functions)}")
    from jsonschema import Draft202012Validator  # slow to import: not before a call is read

    schema = {"type": "object", "additionalProperties": False, **functions[name].get("parameters", {})}
    for error in Draft202012Validator(schema).iter_errors(dict(arguments)):
        where = f"{name}, {error.json_path[2:]}" if error.json_path != "$" else name
        return Refusal(INVALID, f"{where}: {error.message}"[:_MOST_WORDS])
    if takes_text(functions[name]) and not "".join(arguments.values()).strip():
        return Refusal(EMPTY, f"{name}: the argument is empty")
    return body


def read_call(text: str, parameters: dict[str, str]) -> ToolCall | str:
    """Return the one call in ``text``, or the feedback code that says why there is none.

    Args:
        text: what the policy produced.
        parameters: tool name → the name of its one parameter, a text.
    """
    body = _one_body(text)
    if isinstance(body, Refusal):
        return body.code
    argument = body.arguments.get(parameters.get(body.name, ""))
    if not isinstance(argument, str) or len(body.arguments) != 1:
        return INVALID
    return ToolCall(body.name, argument.strip()) if argument.strip() else EMPTY


def _one_body(text: str) -> TypedCall | Refusal:
    """Return the one call in ``text``, whatever its tool and arguments."""
    calls = list(_CALL.finditer(text))
    if len(calls) > 1:
        return Refusal(SEVERAL, f"reply with one call, not {len(calls)}")
    if not calls:
        return Refusal(INVALID, "there is no call between <tool_call> and </tool_call>")
    if "<tool_call>" in text[: calls[0].start()]:  # what was begun before is no draft to pass over
        return Refusal(INVALID, "a call is opened and not closed")
    try:
        call = value_of(calls[0][1])
    except ValueError as error:
        return Refusal(INVALID, f"the call is no JSON: {error}"[:_MOST_WORDS])
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return Refusal(INVALID, "a call is a JSON object with a name and arguments")
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict):
        return Refusal(INVALID, "the arguments of a call are a JSON object")
    return TypedCall(call["name"], arguments)


_EXAMPLES: Mapping[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}


def example_call(tool: Mapping[str, Any], text: str = "...") -> TypedCall:
    """Return a call of a tool with a value of its type for every parameter.

    Args:
        tool: with a JSON schema of ``parameters``, or without, for one that takes none.
        text: what stands for a text.
    """
    function = tool["function"]
    properties = function.get("parameters", {}).get("properties", {})
    return TypedCall(str(function["name"]), {name: _example(schema, text) for name, schema in properties.items()})


def _example(schema: Mapping[str, Any], text: str) -> Any:
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if choices := schema.get("enum") or schema.get("examples"):
        return choices[0]
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind in ("integer", "number") and "minimum" in schema:
        return schema["minimum"]
    return _EXAMPLES.get(kind, text)


def takes_text(function: Mapping[str, Any]) -> bool:
    """Whether a tool's function has one parameter and that is any text."""
    schemas = function.get("parameters", {}).get("properties", {}).values()
    return len(schemas) == 1 and all(s.get("type", "string") == "string" and "enum" not in s for s in schemas)


def argument_words(arguments: Mapping[str, Any]) -> str:
    """Return arguments as one text for a log: the value of the only one, else JSON."""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0].strip()
    return json.dumps(dict(arguments), ensure_ascii=False) if values else ""
