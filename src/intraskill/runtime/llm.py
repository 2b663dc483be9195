"""Questions to an OpenAI-compatible endpoint, answered in JSON of one schema.

The key is read from the environment variable that the config names; it is never written to disk, logs or messages.
Every raw answer is cached under the hash of its prompt, so a resumed run asks only what it has not asked. An answer
that is not what was asked for is re-asked once, with the exact error; it is never repaired.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from intraskill.method.errors import IntraSkillError
from intraskill.method.randomness import content_hash

if TYPE_CHECKING:
    from openai import OpenAI

Answer = TypeVar("Answer")
Messages = list[dict[str, str]]


class EndpointError(IntraSkillError, ConnectionError):
    """The endpoint cannot be reached, refuses the key, or keeps failing; the run stops and can be resumed."""


class BadAnswerError(IntraSkillError, ValueError):
    """Two answers to one question were not what was asked for; the item is dropped and counted."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to ask.

    Attributes:
        base_url: address that ends before ``/chat/completions``.
        model: model name at the endpoint.
        api_key_env: name of the environment variable that holds the key; unset means an endpoint without keys.
        timeout_s: longest wait for one answer, seconds.
        retries: further attempts after a time-out, a dropped connection, 429 or 5xx, with growing pauses.
        max_tokens: longest answer.
        temperature: sampling temperature.
    """

    base_url: str
    model: str
    api_key_env: str = "OPENAI_API_KEY"
    timeout_s: float = 120.0
    retries: int = 4
    max_tokens: int = 4096
    temperature: float = 0.0


class JsonClient:
    """Asks one endpoint; remembers raw answers in ``cache``, one file per prompt."""

    def __init__(self, endpoint: Endpoint, cache: Path) -> None:
        self.endpoint = endpoint
        self._cache = cache
        self._connection: OpenAI | None = None
        self._structured = True

    def ask(self, system: str, question: str, schema: dict[str, Any], read: Callable[[Any], Answer]) -> Answer:
        """Return ``read`` of the parsed answer.

        Args:
            system: system prompt.
            question: user prompt.
            schema: JSON schema of the answer, used where the server offers structured output.
            read: turns parsed JSON into the answer; raises ``ValueError`` with what is wrong.

        Raises:
            BadAnswerError: when the answer and its one correction are both wrong.
            EndpointError: when there is no answer.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        text = self._complete(messages, schema)
        try:
            return read(json.loads(text))
        except ValueError as error:
            correction = f"That answer was refused: {error}\nReply again with the corrected JSON object only."
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": correction}]
        try:
            return read(json.loads(self._complete(messages, schema)))
        except ValueError as error:
            raise BadAnswerError(f"{self.endpoint.model} answered wrongly twice: {error}") from error

    def _complete(self, messages: Messages, schema: dict[str, Any]) -> str:
        """Return the raw text of one completion, from the cache where it is known."""
        asked = self.endpoint
        key = content_hash(asked.base_url, asked.model, asked.temperature, asked.max_tokens, messages, schema)
        path = self._cache / f"{key}.json"
        if path.exists():
            return str(json.loads(path.read_text(encoding="utf-8"))["answer"])
        answer = self._request(messages, schema)
        self._cache.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps({"messages": messages, "answer": answer}, ensure_ascii=False), encoding="utf-8")
        draft.replace(path)
        return answer

    def _request(self, messages: Messages, schema: dict[str, Any]) -> str:
        import openai

        try:
            return self._send(messages, schema if self._structured else None)
        except openai.BadRequestError as error:
            if not self._structured:
                raise self._endpoint_error(error) from None
            self._structured = False  # many servers offer no structured output; the prompt asks for JSON anyway
            return self._request(messages, schema)
        except (openai.OpenAIError, ValueError) as error:
            raise self._endpoint_error(error) from None

    def _send(self, messages: Messages, schema: dict[str, Any] | None) -> str:
        extra: dict[str, Any] = {}
        if schema is not None:
            named = {"name": "answer", "strict": True, "schema": schema}
            extra["response_format"] = {"type": "json_schema", "json_schema": named}
        create: Any = self._client().chat.completions.create
        reply = create(
            model=self.endpoint.model,
            messages=messages,
            temperature=self.endpoint.temperature,
            max_tokens=self.endpoint.max_tokens,
            **extra,
        )
        choices = getattr(reply, "choices", None)
        if not choices:
            raise ValueError(f"the reply is no chat completion: {str(reply)[:80]!r}")
        return choices[0].message.content or ""

    def _client(self) -> "OpenAI":
        if self._connection is None:
            from openai import OpenAI

            asked = self.endpoint
            self._connection = OpenAI(
                base_url=asked.base_url,
                api_key=os.environ.get(asked.api_key_env) or "none",
                timeout=asked.timeout_s,
                max_retries=asked.retries,
            )
        return self._connection

    def _endpoint_error(self, error: Exception) -> EndpointError:
        """Describe a failure without the key (and without the chained request, which carries it)."""
        text = str(error)
        if key := os.environ.get(self.endpoint.api_key_env):
            text = text.replace(key, "…")
        return EndpointError(
            f"no answer from {self.endpoint.model} at {self.endpoint.base_url} ({type(error).__name__}: {text[:200]}); "
            f"check proposer.base_url, proposer.model and the variable {self.endpoint.api_key_env}, then run again"
        )
