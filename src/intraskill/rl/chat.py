"""The chat codec: pages to token ids and back, append-only."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from intraskill.environments.protocol import ToolSpec
from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import content_hash

_ANSWER = "ANSWER-PLACEHOLDER-5713"
_PAGE = "PAGE-PLACEHOLDER-8241"


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
        self._system = system
        self._options = dict(options or {})
        if tokenizer.chat_template is None or tokenizer.eos_token_id is None:
            raise ConfigError("the tokenizer has no chat template or no EOS token; use an instruct model's tokenizer")
        self.stop_id = int(tokenizer.eos_token_id)
        added = tokenizer.added_tokens_decoder.values()
        self._special = sorted(token.content for token in added if token.special and len(token.content) > 1)
        self._before, self._after = self._suffix()
        if self._tools and self._first(self._tools) == self._first(None):
            self._system = f"{system}\n\n{_calls(self._tools)}"

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
        return self._encode(self._render(messages, tools=self._tools or None))

    def observation(self, text: str) -> tuple[int, ...]:
        """Tokens of a tool message and of the opening of the policy's next turn, after the policy's EOS."""
        return self._encode(self._before + self._plain(text) + self._after)

    def action(self, text: str) -> tuple[int, ...]:
        """Tokens of an action text and the EOS token that ends it, as a demonstration shows them."""
        return (*self._encode(text), self.stop_id)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of one action, without the EOS token that ends it; other special tokens stay visible."""
        ids = token_ids[:-1] if token_ids and token_ids[-1] == self.stop_id else token_ids
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def _plain(self, text: str) -> str:
        """Break special tokens that stand in outside text, which could otherwise end a message or open another."""
        for token in self._special:
            if token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _render(self, messages: list[dict[str, str]], tools: list[ToolSpec] | None) -> str:
        text: str = self._tokenizer.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=True, **self._options
        )
        return text

    def _first(self, tools: list[ToolSpec] | None) -> str:
        return self._render(
            [{"role": "system", "content": self._system}, {"role": "user", "content": "request"}], tools
        )

    def _suffix(self) -> tuple[str, str]:
        """Template text before and after an observation, from one dummy conversation."""
        messages = [
            {"role": "user", "content": "request"},
            {"role": "assistant", "content": _ANSWER},
            {"role": "tool", "content": _PAGE},
        ]
        text = self._render(messages, tools=None)
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


def _calls(tools: Sequence[ToolSpec]) -> str:
    """Say which calls there are, for a template that does not."""
    lines = ["# Tools", "Answer with one call."]
    for tool in tools:
        function = tool["function"]
        parameter = next(iter(function["parameters"]["properties"]))
        lines += [function.get("description", function["name"]), write_call(function["name"], parameter, "...")]
    return "\n".join(lines)
