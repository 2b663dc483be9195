"""How a chat template has tool calls written, and how such a text is read: one form per model family.

The form is not looked up by a model's name. One call is rendered through the loaded template, and the form that reads
this very call back is the form of the template. Reading is strict: a text holds exactly the calls that it states, or
none; nothing is repaired, and nothing inside a thought is a call.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intraskill.store.json_rows import value_of, without_duplicates

Call = tuple[str, dict[str, Any]]
"""The name of a tool and its arguments."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """One way to write tool calls.

    Attributes:
        name: for messages.
        mark: what begins a call; a text without it holds none.
        whole: matches one call from its first to its last character.
        read: from that match to the calls in it.

    Raises:
        ValueError: ``read`` raises it, or a `KeyError`, `TypeError`, `SyntaxError`, for a call that is malformed.
    """

    name: str
    mark: re.Pattern[str]
    whole: re.Pattern[str]
    read: Callable[[re.Match[str]], list[Call]]

    def calls(self, text: str) -> list[Call] | None:
        """Return the calls of an answer in order; ``None`` when one is malformed or cut off."""
        calls: list[Call] = []
        rest = self.mark.search(text)
        while rest is not None:
            match = self.whole.match(text, rest.start())
            if match is None:
                return None
            try:
                calls += self.read(match)
            except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError):
                return None
            rest = self.mark.search(text, match.end())
        return calls


def _call(value: Any, arguments_key: str = "arguments") -> Call:
    if not isinstance(value, dict) or set(value) - {"name", arguments_key, "id"}:
        raise ValueError("a call has a name and arguments")
    name, arguments = value["name"], value.get(arguments_key, {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ValueError("a call has a name and arguments")
    return name, arguments


def _hermes(match: re.Match[str]) -> list[Call]:
    return [_call(value_of(match[1]))]


def _mistral(match: re.Match[str]) -> list[Call]:
    value = value_of(match[1])
    if not isinstance(value, list):
        raise ValueError("calls are a list")
    return [_call(item) for item in value]


def _llama(match: re.Match[str]) -> list[Call]:
    return [_call(value_of(match[0]), "parameters")]


_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n(.*?)\n</parameter>", re.DOTALL)
_ARGUMENT = re.compile(r"\s*<arg_key>([^<]+)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


def _tagged(pattern: re.Pattern[str]) -> Callable[[re.Match[str]], list[Call]]:
    def read(match: re.Match[str]) -> list[Call]:
        pairs, end = [], 0
        while (parameter := pattern.match(match[2], end)) is not None:
            pairs.append((parameter[1].strip(), parameter[2]))
            end = parameter.end()
        if match[2][end:].strip():
            raise ValueError("text stands between the parameters")
        return [(match[1].strip(), without_duplicates(pairs))]

    return read


def _python(match: re.Match[str]) -> list[Call]:
    """Read ``[name(key='value'), other()]``; values are literals, and nothing is evaluated."""
    tree = ast.parse(match[1].strip(), mode="eval").body
    if not isinstance(tree, ast.List):
        raise ValueError("calls are a list")
    calls = []
    for node in tree.elts:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
            raise ValueError("a call has a name and named arguments")
        pairs = [(str(keyword.arg), ast.literal_eval(keyword.value)) for keyword in node.keywords]
        calls.append((node.func.id, without_duplicates(pairs)))
    return calls


def _between(opening: str, closing: str) -> re.Pattern[str]:
    """Match from an opening mark to the next closing one, with no second opening in between: linear in the text."""
    first, last = re.escape(opening), re.escape(closing)
    return re.compile(rf"{first}((?:(?!{first}|{last}).)*){last}", re.DOTALL)


HERMES = CallForm("Hermes JSON", re.compile("<tool_call>"), _between("<tool_call>", "</tool_call>"), _hermes)
FORMS = (
    HERMES,
    CallForm(
        "Qwen XML",
        re.compile("<tool_call>|<function="),
        re.compile(
            r"<tool_call>\s*<function=([^\n>]+)>((?:(?!<tool_call>|<function=|</function>).)*)</function>\s*</tool_call>",
            re.DOTALL,
        ),
        _tagged(_PARAMETER),
    ),
    CallForm(
        "GLM XML",
        re.compile("<tool_call>"),
        re.compile(r"<tool_call>([^\n<{]+)\n?((?:(?!<tool_call>|</tool_call>).)*)</tool_call>", re.DOTALL),
        _tagged(_ARGUMENT),
    ),
    CallForm("Llama JSON", re.compile(r"\A\s*\{"), re.compile(r"\s*\{.*\}\s*\Z", re.DOTALL), _llama),
    CallForm(
        "LFM2 Python",
        re.compile(re.escape("<|tool_call_start|>")),
        _between("<|tool_call_start|>", "<|tool_call_end|>"),
        _python,
    ),
    CallForm(
        "Mistral JSON",
        re.compile(re.escape("[TOOL_CALLS]")),
        re.compile(r"\[TOOL_CALLS\]\s*(\[.*\])\s*\Z", re.DOTALL),
        _mistral,
    ),
)


def form_of(answer: str, call: Call) -> CallForm | None:
    """Return the form in which a template wrote one call as an answer: the one that reads exactly this call back."""
    return next((form for form in FORMS if form.calls(answer) == [call]), None)


_JINJA = {"True": "true", "False": "false", "None": "null"}


def typed(call: Call, tools: Sequence[Mapping[str, Any]]) -> Call | None:
    """Give the arguments of a form that writes plain text the types of the tool's JSON schema.

    Returns:
        The call; ``None`` when a text is no value of its type. An unknown tool or parameter keeps its text.
    """
    name, arguments = call
    schemas = {str(tool["function"]["name"]): tool["function"].get("parameters", {}) for tool in tools}
    properties = schemas.get(name, {}).get("properties", {})
    values: dict[str, Any] = {}
    for key, value in arguments.items():
        kind = properties.get(key, {}).get("type", "string")
        if isinstance(value, str) and kind != "string":
            try:
                # Templates write booleans and null with Jinja's `string` filter, which is Python's spelling.
                value = value_of(_JINJA.get(value.strip(), value.strip()))
            except (ValueError, RecursionError):
                return None
        values[key] = value
    return name, values
