"""Where an LLM is asked and what a question is; the key stays in the environment and is read at each use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from intraskill.config.proposing import ProposerConfig
from intraskill.method.errors import ConfigError, IntraSkillError


class EndpointError(IntraSkillError, ConnectionError):
    """The endpoint cannot be reached, refuses the key, or keeps failing; the run stops and can be resumed."""


class QuestionError(IntraSkillError, ValueError):
    """The endpoint works, but not for this question.

    Attributes:
        kind: ``too_long`` for the model, or ``refused`` by the provider's filter.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to ask.

    Attributes:
        base_url: address that ends before ``/chat/completions``.
        model: model name at the endpoint.
        api_key_env: name of the environment variable that holds the key; unset means an endpoint without keys.
        timeout_s: longest wait for one answer, seconds.
        retries: further attempts after a time-out, a dropped connection, 429 or 5xx, with growing pauses.
        max_tokens: longest answer.
        temperature: sampling temperature.
        concurrency: most answers awaited at once.
        structured: whether the schema is sent: ``auto`` (until the server refuses it), ``on``, ``off``.
        stream: whether answers are read token by token, for gateways that cut long silences.
        pause_s: first pause before another attempt, seconds; each further one is twice as long.
        section: dotted name of the configuration that describes it, which messages name.
    """

    base_url: str
    model: str
    api_key_env: str = "OPENAI_API_KEY"
    timeout_s: float = 120.0
    retries: int = 4
    max_tokens: int = 4096
    temperature: float = 0.0
    concurrency: int = 4
    structured: str = "auto"
    stream: bool = False
    pause_s: float = 0.5
    section: str = "proposer"

    def check(self) -> None:
        """Look at the address.

        Raises:
            ConfigError: when it is none, or holds a secret that would be written with it.
        """
        try:
            parts = urlsplit(self.base_url)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            sound = False
        if sound and (parts.username or parts.password):
            raise ConfigError(
                f"{self.section}.base_url holds a user or a password; put the key into {self.api_key_env}"
            )
        if sound and parts.path.rstrip("/").endswith("/chat/completions"):
            raise ConfigError(
                f"{self.section}.base_url={self.base_url} names the route; give the address before /chat/completions"
            )
        if not sound:
            raise ConfigError(f"{self.section}.base_url={self.base_url} is no address such as http://127.0.0.1:8000/v1")


def endpoint_of(settings: ProposerConfig, section: str = "proposer") -> Endpoint:
    """Return the endpoint that a section of a configuration names."""
    return Endpoint(
        settings.base_url,
        settings.model,
        settings.api_key_env,
        settings.timeout_s,
        settings.retries,
        settings.max_answer_tokens,
        settings.temperature,
        settings.concurrency,
        settings.structured,
        settings.stream,
        section=section,
    )


@dataclass(frozen=True, slots=True)
class Question:
    """One request, without where it goes.

    Attributes:
        model: model name.
        messages: the conversation.
        schema: JSON schema of the answer; ``None`` for plain text.
        temperature: sampling temperature.
        max_tokens: longest answer.
        seed: ``None`` leaves it to the server.
    """

    model: str
    messages: tuple[Mapping[str, str], ...]
    schema: Mapping[str, Any] | None
    temperature: float
    max_tokens: int
    seed: int | None = None

    @classmethod
    def of(
        cls,
        endpoint: Endpoint,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> "Question":
        """Return a question with an endpoint's settings."""
        return cls(endpoint.model, tuple(messages), schema, endpoint.temperature, endpoint.max_tokens, seed)

    def key(self) -> dict[str, Any]:
        """Return all that determines the answer, as JSON.

        Neither the address nor whether the schema was sent belong to it: a server that moved, or that turned out to
        offer no structured output, is not asked twice.
        """
        return {
            "model": self.model,
            "messages": [dict(message) for message in self.messages],
            "schema": None if self.schema is None else dict(self.schema),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
        }
