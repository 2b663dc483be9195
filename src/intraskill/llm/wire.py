"""One question over HTTP: attempts with growing pauses, a cap on what is read, and one clear error without the key."""

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intraskill.llm.cache import Completion
from intraskill.llm.endpoint import Endpoint, EndpointError, Question, QuestionError
from intraskill.method.errors import counted
from intraskill.method.randomness import content_hash, uniform

if TYPE_CHECKING:
    from openai import OpenAI

LONGEST_PAUSE_S = 60.0
"""Also of what a server asks for in Retry-After."""
LEAST_BYTES, BYTES_PER_TOKEN = 1 << 20, 1024
"""An answer is read up to so many bytes: a streamed token is about 250, so more is a server that does not stop."""
ESTIMATED_BYTES_PER_TOKEN = 3
_TOO_LONG = ("context length", "context_length", "context size", "context window", "maximum context", "too long")
_FILTERED = ("content_filter", "content management policy")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an attempt gave no answer.

    Attributes:
        text: what happened, without the key.
        status: HTTP status; 0 without any.
        passing: whether another attempt may go better.
        wait_s: pause that the server asks for, seconds.
    """

    text: str
    status: int = 0
    passing: bool = True
    wait_s: float | None = None

    def says(self, words: tuple[str, ...]) -> bool:
        """Return whether the server refuses the request (400, 413, 422) with one of these words."""
        return self.status in (400, 413, 422) and any(word in self.text.lower() for word in words)


class Wire:
    """Sends questions to one endpoint; learns once what its server does not know. Safe among threads."""

    def __init__(self, endpoint: Endpoint, count: Callable[[str], None]) -> None:
        endpoint.check()
        self.endpoint = endpoint
        self._count = count
        self._lock = threading.Lock()
        self._connection: OpenAI | None = None
        self._structured = endpoint.structured != "off"
        self._limit = "max_tokens"

    def send(self, question: Question) -> Completion:
        """Return the answer.

        Raises:
            QuestionError: when the endpoint will not answer this question.
            EndpointError: when there is no answer.
        """
        attempt = 0
        while not isinstance(found := self._adapt(question), Completion):
            if not found.passing or attempt == self.endpoint.retries:
                break
            self._count("retried")
            time.sleep(self._pause(found, question, attempt))
            attempt += 1
        else:
            return found
        # Raised here, outside of any handler: an exception of the HTTP client in the chain would carry the request.
        raise self._error(found, attempt + 1)

    def _pause(self, trouble: Trouble, question: Question, attempt: int) -> float:
        if trouble.wait_s is not None:
            return min(max(trouble.wait_s, 0.0), LONGEST_PAUSE_S)
        spread = 0.75 + 0.5 * uniform(0, "pause", content_hash(question.key()), attempt)
        return min(self.endpoint.pause_s * float(2**attempt), LONGEST_PAUSE_S) * spread

    def _adapt(self, question: Question) -> Completion | Trouble:
        """Try once; where the server refuses a field that it need not know, try without it."""
        sent = question.schema is not None and self._structured
        found = self._try(question, sent)
        if isinstance(found, Trouble) and self._limit == "max_tokens" and found.says(("max_completion_tokens",)):
            self._limit = "max_completion_tokens"
            found = self._try(question, sent)
        unknown = isinstance(found, Trouble) and found.status in (400, 422) and not found.says(_TOO_LONG + _FILTERED)
        if not (unknown and sent and self.endpoint.structured == "auto"):
            return found
        plain = self._try(question, structured=False)
        if isinstance(plain, Completion):
            with self._lock:
                first, self._structured = self._structured, False
            if first:
                self._count("unstructured")
                logging.getLogger(__name__).warning(
                    "%s offers no structured output for this schema; the prompt alone asks for JSON from here on",
                    self.endpoint.model,
                )
        return plain

    def _try(self, question: Question, structured: bool) -> Completion | Trouble:
        import httpx
        import openai

        client = self._client()
        try:
            with client.chat.completions.with_streaming_response.create(**self._body(question, structured)) as reply:
                lines = self._lines(reply, question.max_tokens)
                if reply.headers.get("content-type", "").startswith("text/event-stream"):
                    return self._checked(_streamed(lines), question)
                return self._checked(_whole(lines), question)
        except openai.APIStatusError as error:
            status, text = error.status_code, self.endpoint.scrub(f"HTTP {error.status_code}: {error.message[:300]}")
            passing = status in (408, 409, 429) or status >= 500
            return Trouble(text, status, passing, _retry_after(error.response.headers))
        except (openai.APITimeoutError, httpx.TimeoutException, TimeoutError):
            return Trouble(f"no answer within {self.endpoint.section}.timeout_s={self.endpoint.timeout_s:g}")
        except (openai.OpenAIError, httpx.HTTPError, httpx.StreamError) as error:
            cause = error.__cause__ or error
            return Trouble(self.endpoint.scrub(f"{type(cause).__name__}: {str(cause)[:200]}"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            text = f"the reply is no chat completion ({type(error).__name__}: {str(error)[:200]})"
            return Trouble(self.endpoint.scrub(text))

    def _body(self, question: Question, structured: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": question.model,
            "messages": [dict(message) for message in question.messages],
            "temperature": question.temperature,
            self._limit: question.max_tokens,
        }
        if question.seed is not None:
            body["seed"] = question.seed
        if self.endpoint.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if structured and question.schema is not None:
            named = {"name": "answer", "strict": True, "schema": dict(question.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        return body

    def _lines(self, reply: Any, max_tokens: int) -> Iterator[str]:
        """Yield the lines of a reply until its end, the deadline or the cap, which is the end of a cut-off answer."""
        deadline, left, rest = (
            time.monotonic() + self.endpoint.timeout_s,
            LEAST_BYTES + BYTES_PER_TOKEN * max_tokens,
            b"",
        )
        for block in reply.iter_bytes():
            if time.monotonic() > deadline:
                raise TimeoutError
            left -= len(block)
            if left < 0:
                raise _EndlessError
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield line.decode()
        if rest:
            yield rest.decode()

    def _checked(self, found: Completion, question: Question) -> Completion:
        """Scrub an answer and fill in the tokens that the endpoint did not count."""
        text, refusal = self.endpoint.scrub(found.text), self.endpoint.scrub(found.refusal)
        tokens_in, tokens_out, estimated = found.tokens_in, found.tokens_out, found.tokens_in == 0
        if estimated:
            tokens_in = _estimate("".join(message["content"] for message in question.messages))
            tokens_out = _estimate(text + refusal)
        return Completion(text, found.finish, refusal, tokens_in, tokens_out, estimated)

    def _client(self) -> "OpenAI":
        with self._lock:
            if self._connection is None:
                import httpx
                from openai import OpenAI

                asked = self.endpoint
                # A client of httpx, so that what breaks while a reply is read is an error of httpx.
                http: Any = httpx.Client(timeout=asked.timeout_s)
                self._connection = OpenAI(
                    base_url=asked.base_url,
                    api_key=asked.key or "none",
                    timeout=asked.timeout_s,
                    max_retries=0,
                    http_client=http,
                )
            return self._connection

    def _error(self, trouble: Trouble, attempts: int) -> Exception:
        asked, section = self.endpoint, self.endpoint.section
        if trouble.says(_FILTERED):
            return QuestionError("refused", f"{asked.model} refused to answer: {trouble.text}")
        if trouble.says(_TOO_LONG) or trouble.status == 413:
            return QuestionError("too_long", f"the question is too long for {asked.model}: {trouble.text}")
        remedy = f"check that the server runs, {section}.base_url and {section}.timeout_s"
        if trouble.status in (401, 403):
            remedy = f"check the key in the variable {asked.api_key_env}"
        elif trouble.status == 404:
            remedy = f"check {section}.model and {section}.base_url, which ends before /chat/completions"
        elif trouble.status in (400, 422):
            remedy = f"check {section}.structured, {section}.temperature and {section}.stream"
        return EndpointError(
            f"no answer from {asked.model} at {asked.base_url} in {counted(attempts, 'attempt')} (the last: "
            f"{trouble.text}); {remedy} (the key's variable is {asked.api_key_env}), then run the same command again: "
            "answers so far are kept"
        )


class _EndlessError(Exception):
    """A reply goes on far beyond the longest answer that was asked for."""


def _whole(lines: Iterator[str]) -> Completion:
    """Read a reply that comes as one JSON object."""
    try:
        data = json.loads("\n".join(lines))
    except _EndlessError:
        return Completion("", "length")
    choice, usage = data["choices"], data.get("usage") or {}
    if not choice:
        raise ValueError("it holds no choice")
    message = choice[0]["message"]
    finish = choice[0].get("finish_reason") or "stop"
    return _completion(message.get("content") or "", finish, message.get("refusal") or "", usage)


def _streamed(lines: Iterator[str]) -> Completion:
    """Put a streamed reply together; one without an end is broken."""
    text, refusal, finish = "", "", ""
    usage: Mapping[str, Any] = {}
    try:
        for line in lines:
            name, _, data = line.strip().partition(":")
            if name != "data" or data.strip() == "[DONE]":
                continue
            chunk = json.loads(data)
            if chunk.get("error"):
                raise ValueError(f"the stream ends with {str(chunk['error'])[:100]}")
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"][:1]:
                delta = choice.get("delta") or {}
                text += delta.get("content") or ""
                refusal += delta.get("refusal") or ""
                finish = choice.get("finish_reason") or finish
    except _EndlessError:
        return _completion(text, "length", refusal, {})
    if not finish:
        raise ValueError("the stream ends before the answer does")
    return _completion(text, finish, refusal, usage)


def _completion(text: Any, finish: str, refusal: Any, usage: Mapping[str, Any]) -> Completion:
    if not isinstance(text, str) or not isinstance(refusal, str) or not isinstance(finish, str):
        raise TypeError("an answer that is not text")
    tokens_in, tokens_out = (_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return Completion(_text(text), finish, _text(refusal), tokens_in, tokens_out)


def _text(text: str) -> str:
    """Join surrogate pairs that a stream cut in two; a lone half becomes U+FFFD, as no file can hold it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(tokens: Any) -> int:
    """Return a number of tokens; 0 for nonsense that no budget could use: it is then estimated."""
    return int(tokens) if isinstance(tokens, int | float) and 0 < tokens < math.inf else 0


def _estimate(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // ESTIMATED_BYTES_PER_TOKEN)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait that a server asks for, seconds; a date, which few send, is left to the growing pauses."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            return float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
    return None
