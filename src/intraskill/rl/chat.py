"""The chat codec: pages to token ids and back, append-only."""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from jinja2 import TemplateError

from intraskill.environments.protocol import ToolSpec
from intraskill.environments.tool_calls import TypedCall, example_call, write_arguments
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import content_hash
from intraskill.method.thoughts import without_thoughts
from intraskill.rl.call_forms import HERMES, Call, CallForm, form_of, typed

_ANSWER = "ANSWER-PLACEHOLDER-5713"
_PAGE = "PAGE-PLACEHOLDER-8241"
_TWO_LINES = 'PAGE-PLACEHOLDER "8241"\nof two lines'


class ChatCodec:
    """Text to token ids and back, through the tokenizer's own chat template.

    The prompt is rendered once. What follows is only appended: an observation's tokens come from one dummy
    conversation, so history is never tokenised again and no token is invented that the policy did not sample.

    Args:
        tokenizer: with a chat template that knows tools and tool messages.
        tools: tool schemas.
        system: first sentence of every system message; the visible skill follows it. A template that leaves tools out
            gets them here, as the calls that an answer may consist of.
        options: further variables of the template, such as ``enable_thinking``.

    Raises:
        ConfigError: if the template cannot show a tool message, or does not end an answer with the EOS token.
    """

    def __init__(
        self,
        tokenizer: Any,
        tools: Sequence[ToolSpec],
        *,
        system: str,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._tools = list(tools)
        self._shown: list[ToolSpec] | None = self._tools or None
        self._system = system
        self._options = dict(options or {})
        if tokenizer.chat_template is None or tokenizer.eos_token_id is None:
            raise ConfigError("the tokenizer has no chat template or no EOS token; use an instruct model's tokenizer")
        self.stop_id = int(tokenizer.eos_token_id)
        added = tokenizer.added_tokens_decoder.values()
        self._special = sorted(token.content for token in added if token.special and len(token.content) > 1)
        self._thinking = self._opens_a_thought()
        self._before, self._after = self._suffix()
        # Some templates write a tool message as a JSON string: then so do we.
        self._quotes = _quoted(_TWO_LINES) in self._dummy(_TWO_LINES)
        self.form = self._call_form()

    @property
    def teaches(self) -> bool:
        """Whether the template itself shows the tools; else the system message does."""
        return self._shown is not None

    @functools.cached_property
    def hash(self) -> str:
        """Hash of all that shapes a prompt besides task and skill: template, tools, system text, tokenizer."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        vocabulary = backend.to_str() if backend is not None else sorted(self._tokenizer.get_vocab().items())
        parts = (self._tokenizer.chat_template, self._tools, self._system, repr(self._options), vocabulary)
        return content_hash(*parts)

    def prompt(self, skill_text: str, user_text: str) -> tuple[int, ...]:
        """Tokens of system message (with the skill, if any), tools and user message, up to the policy's turn."""
        system = f"{self._system}\n\n{skill_text}" if skill_text else self._system
        messages = [
            {"role": "system", "content": self._plain(system)},
            {"role": "user", "content": self._plain(user_text)},
        ]
        return self._encode(self._render(messages, tools=self._shown))

    def observation(self, text: str) -> tuple[int, ...]:
        """Tokens of a tool message and of the opening of the policy's next turn, after the policy's EOS."""
        shown = self._plain(text)
        return self._encode(self._before + (_quoted(shown) if self._quotes else shown) + self._after)

    def action(self, text: str) -> tuple[int, ...]:
        """Tokens of an action text and the EOS token that ends it, as a demonstration shows them."""
        return (*self._encode(text), self.stop_id)

    def text(self, token_ids: Sequence[int]) -> str:
        """Text of any tokens, special ones included."""
        whole: str = self._tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return whole

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of one action, without the EOS token that ends it; other special tokens stay visible."""
        ids = token_ids[:-1] if token_ids and token_ids[-1] == self.stop_id else token_ids
        return self.text(ids)

    def action_of(self, text: str) -> str:
        """Return the text that an environment reads: the calls of an answer in Hermes form, without its thoughts.

        Whatever form the template teaches, an environment reads one. An answer whose call is malformed, and one whose
        thought does not end, becomes ``""``, which is no action.
        """
        answer = without_thoughts(text, thinking=self._thinking)
        if answer is None or self.form is HERMES:
            return answer or ""
        calls = [typed(call, self._tools) for call in self.form.calls(answer) or ()]
        return "" if None in calls else "\n".join(write_arguments(*call) for call in calls if call is not None)

    def _opens_a_thought(self) -> bool:
        """Return whether the prompt ends inside a thought."""
        tail = self._first(None).rpartition("request")[2]
        return tail.rpartition("<think>")[1] != "" and "</think>" not in tail.rpartition("<think>")[2]

    def _call_form(self) -> CallForm:
        """Return the form of calls that the template teaches.

        A template teaches no form if it shows no tools, refuses them, prints their JSON schemas without a call, or
        writes calls that no form of ours reads. Then its own account of the tools is left out, and the system message
        says how to call them, in Hermes form.
        """
        call: Call = ("tool_name_5713", {"argument_8241": "value 3367"})
        with suppress(ConfigError):
            example = self.written(call)
            form = form_of(example, call)
            shown = self._first(self._tools) if self._tools else ""
            if form is not None and shown != self._first(None):
                return form
            if self._tools and call[0] not in example and shown != self._first(None) and '"properties"' not in shown:
                return HERMES
        if self._tools:
            self._system, self._shown = f"{self._system}\n\n{_calls(self._tools)}", None
        return HERMES

    @property
    def example(self) -> str:
        """One call of the first tool as an answer holds it."""
        example = example_call(self._tools[0]) if self._tools else TypedCall("tool", {})
        call = (example.name, dict(example.arguments))
        return (self.written(call).strip() if self.teaches else "") or write_arguments(*call)

    @property
    def account(self) -> str:
        """How actions are written, with one example, in a sentence."""
        told = "" if self.teaches else ", which the system message explains since the chat template teaches no form"
        return f"actions are read as {self.form.name}{told}, for example {' '.join(self.example.split())}"

    def dialogue(self) -> str:
        """Return a whole dialogue as the template writes it: request, call, page, call.

        Raises:
            ConfigError: with the template's own words, when it cannot.
        """
        example = example_call(self._tools[0]) if self._tools else TypedCall("tool", {})
        function = {"name": example.name, "arguments": dict(example.arguments)}
        named = {"id": "call_0", "type": "function", "function": function}
        calling = {"role": "assistant", "content": "", "tool_calls": [named]}
        page = {"role": "tool", "name": example.name, "tool_call_id": "call_0", "content": _TWO_LINES}
        opening = [{"role": "system", "content": self._system}, {"role": "user", "content": "request"}]
        return self._render([*opening, calling, page, calling], tools=self._shown, prompt=False)

    def written(self, call: Call) -> str:
        """Return one call as the template writes it, without what ends the answer; empty if it writes none."""
        function = {"name": call[0], "arguments": call[1]}
        user = {"role": "user", "content": "request"}
        plain = self._render([user, {"role": "assistant", "content": _ANSWER}], tools=None, prompt=False)
        calling = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
        text = self._render([user, calling], tools=None, prompt=False)
        start = len(os.path.commonprefix([text, plain.partition(_ANSWER)[0]]))
        return text[start:].partition(str(self._tokenizer.eos_token))[0]

    def _plain(self, text: str) -> str:
        """Break special tokens that stand in outside text, which could otherwise end a message or open another."""
        for token in self._special:
            if token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _render(self, messages: list[dict[str, Any]], tools: list[ToolSpec] | None, *, prompt: bool = True) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=prompt, **self._options
            )
        except (TemplateError, TypeError) as error:
            roles = ", ".join(message["role"] for message in messages)
            raise ConfigError(
                f"the chat template refuses a conversation of {roles}{' with tools' if tools else ''}: {error}; use a "
                "model whose template knows system and tool messages, or give it another chat_template.jinja"
            ) from error
        return text

    def _first(self, tools: list[ToolSpec] | None) -> str:
        return self._render(
            [{"role": "system", "content": self._system}, {"role": "user", "content": "request"}], tools
        )

    def _suffix(self) -> tuple[str, str]:
        """Template text before and after an observation, from one dummy conversation."""
        text = self._dummy(_PAGE)
        eos = str(self._tokenizer.eos_token)
        marks = [text.count(_ANSWER), text.count(_PAGE)]
        after_answer = text.partition(_ANSWER)[2]
        if marks != [1, 1] or not after_answer.startswith(eos):
            raise ConfigError(
                f"the chat template shows a dummy answer and tool message {marks[0]} and {marks[1]} times and "
                f"{after_answer[:20]!r} follows the answer; it must show each once and end the answer with {eos!r}"
            )
        before, _, after = after_answer.removeprefix(eos).partition(_PAGE)
        return before, after

    def _dummy(self, page: str) -> str:
        """Return a dummy conversation that ends with a tool message."""
        messages = [
            {"role": "user", "content": "request"},
            {"role": "assistant", "content": _ANSWER},
            {"role": "tool", "content": page},
        ]
        return self._render(messages, tools=None)


def _quoted(text: str) -> str:
    """Return a text as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _described(parameters: Mapping[str, Any]) -> list[str]:
    """Return one line per parameter whose values are not any text: its type and its choices."""
    needed = parameters.get("required", list(parameters.get("properties", {})))
    lines = []
    for name, schema in parameters.get("properties", {}).items():
        kind, choices = schema.get("type", "string"), schema.get("enum")
        if kind != "string" or choices or name not in needed:
            words = [str(kind), *([f"one of {', '.join(map(json.dumps, choices))}"] if choices else [])]
            lines.append(f"{name}: {', '.join(words + ['optional'] * (name not in needed))}")
    return lines


def _calls(tools: Sequence[ToolSpec]) -> str:
    """Say which calls there are, for a template that does not."""
    lines = ["# Tools", "Answer with one call."]
    for tool in tools:
        function, example = tool["function"], example_call(tool)
        lines += [function.get("description", function["name"]), write_arguments(example.name, example.arguments)]
        lines += _described(function.get("parameters", {}))
    return "\n".join(lines)
