"""One question over HTTP: what is sent, what its reply says, and one clear error without the key."""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from intraskill.llm.cache import MOST_TOKENS, Completion
from intraskill.llm.endpoint import Endpoint, EndpointError, Question, QuestionError
from intraskill.method.errors import counted
from intraskill.net.exchange import HttpCall, HttpClient, HttpReply
from intraskill.net.failures import TOO_MANY, HttpFailure, reason_of
from intraskill.net.keys import scrubbed
from intraskill.net.retrying import LONGEST_PAUSE_S, Patience, persist

_LEAST_BYTES, _BYTES_PER_TOKEN = 1 << 20, 1024
"""An answer is read up to so many bytes: a streamed token is about 250, so more is a server that does not stop."""
_ESTIMATED_BYTES_PER_TOKEN = 3
_TOO_LONG = ("context length", "context_length", "context size", "context window", "maximum context", "too long")
_FILTERED = ("content_filter", "content management policy")


class Wire:
    """Sends questions to one endpoint; learns once what its server does not know. Safe among threads."""

    def __init__(self, endpoint: Endpoint, count: Callable[[str], None]) -> None:
        endpoint.check()
        self.endpoint = endpoint
        self._count = count
        self._lock = threading.Lock()
        self._http = HttpClient(endpoint.api_key_env, uses_proxies=True)
        self._structured = endpoint.structured != "off"
        self._resume_at = 0.0  # of the monotonic clock: a 429 to one thread makes all of them wait
        self._limit = "max_tokens"

    def send(self, question: Question) -> Completion:
        """Return the answer.

        Raises:
            QuestionError: when the endpoint will not answer this question.
            EndpointError: when there is no answer.
        """
        outcome, attempts = persist(
            lambda _: self._adapt(question),
            self._worth_repeating,
            Patience(self.endpoint.retries, first_s=self.endpoint.pause_s),
            question.key(),
            retrying=lambda: self._count("retried"),
        )
        if isinstance(outcome, HttpFailure):
            raise self._error(outcome, attempts)
        return outcome

    def _worth_repeating(self, failure: HttpFailure) -> bool:
        if failure.status == TOO_MANY:
            pause_s = 10 * self.endpoint.pause_s if failure.wait_s is None else min(failure.wait_s, LONGEST_PAUSE_S)
            with self._lock:
                self._resume_at = max(self._resume_at, time.monotonic() + pause_s)
        return failure.passing or failure.kind == "protocol"

    def _adapt(self, question: Question) -> Completion | HttpFailure:
        """Try once; where the server refuses a field that it need not know, try without it."""
        sent = question.schema is not None and self._structured
        outcome = self._try(question, sent)
        if self._limit == "max_tokens" and _says(outcome, ("max_completion_tokens",)):
            self._limit = "max_completion_tokens"
            outcome = self._try(question, sent)
        unknown = isinstance(outcome, HttpFailure) and outcome.status in (400, 422)
        if not (unknown and sent and self.endpoint.structured == "auto") or _says(outcome, _TOO_LONG + _FILTERED):
            return outcome
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

    def _try(self, question: Question, structured: bool) -> Completion | HttpFailure:
        asked = self.endpoint
        call = HttpCall(
            url=f"{asked.base_url.rstrip('/')}/chat/completions",
            body=self._body(question, structured),
            seconds=asked.timeout_s,
            connect_s=asked.timeout_s,
            most_bytes=_LEAST_BYTES + _BYTES_PER_TOKEN * question.max_tokens,
        )
        time.sleep(max(0.0, self._resume_at - time.monotonic()))
        reply = self._http.attempt(call)
        if isinstance(reply, HttpFailure):
            late = f"no answer within {asked.section}.timeout_s={asked.timeout_s:g}"
            return replace(reply, text=late) if reply.kind == "timeout" else reply
        try:
            read = _streamed if reply.kind.startswith("text/event-stream") else _whole
            return self._checked(read(reply, question.schema is not None), question)
        except ProviderError as error:
            return error.failure(scrubbed(error.stated, asked.api_key_env))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            words = self._http.scrub(f"{type(error).__name__}: {error}")[:200]
            return HttpFailure("protocol", f"the reply is no chat completion ({words})")

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

    def _checked(self, answer: Completion, question: Question) -> Completion:
        """Scrub an answer and fill in the tokens that the endpoint did not count."""
        text, finish, refusal = map(self._http.scrub, (answer.text, answer.finish, answer.refusal))
        tokens_in, tokens_out, estimated = answer.tokens_in, answer.tokens_out, answer.tokens_in == 0
        if estimated:
            tokens_in = _estimate("".join(message["content"] for message in question.messages))
            tokens_out = _estimate(text + refusal)
        return Completion(text, finish, refusal, tokens_in, tokens_out, estimated)

    def _error(self, failure: HttpFailure, attempts: int) -> Exception:
        asked, section = self.endpoint, self.endpoint.section
        if failure.kind == "key":
            return EndpointError(failure.text)
        if _says(failure, _FILTERED):
            return QuestionError("refused", f"{asked.model} refused to answer: {failure.text}")
        if _says(failure, _TOO_LONG) or failure.status == 413:
            return QuestionError("too_long", f"the question is too long for {asked.model}: {failure.text}")
        remedy = f"check that the server runs, {section}.base_url and {section}.timeout_s"
        if failure.status in (401, 403):
            remedy = f"check the key in the variable {asked.api_key_env}"
        elif failure.status == 404:
            remedy = f"check {section}.model and {section}.base_url, which ends before /chat/completions"
        elif failure.status in (400, 422):
            remedy = f"check {section}.structured, {section}.temperature and {section}.stream"
        return EndpointError(
            f"no answer from {asked.model} at {asked.base_url} in {counted(attempts, 'attempt')} (the last: "
            f"{failure.text}); {remedy} (the key's variable is {asked.api_key_env}), then run the same command again: "
            "answers so far are kept"
        )


def _says(outcome: Completion | HttpFailure, words: tuple[str, ...]) -> bool:
    """Return whether the server refuses the request (400, 413, 422) with one of these words."""
    if not isinstance(outcome, HttpFailure) or outcome.status not in (400, 413, 422):
        return False
    return any(word in str(outcome.data).lower() for word in words)


class ProviderError(Exception):
    """A status of success around an error: ``{"error": …}`` in the place of an answer, or in its first choice."""

    def __init__(self, stated: Any) -> None:
        super().__init__(str(stated))
        self.stated = stated

    def failure(self, stated: Any) -> HttpFailure:
        """Return it, without the key, as the status that its code names; 502 where it names none."""
        code = str(stated.get("code")) if isinstance(stated, Mapping) else ""
        status = int(code) if code.isdecimal() and 400 <= int(code) <= 599 else 502
        words = reason_of({"error": stated})
        return HttpFailure("status", f"status {status} inside a reply of status 200: {words}", status, words)


def _choice(data: Any) -> Mapping[str, Any]:
    """Return the first choice.

    Raises:
        ProviderError: when an error stands there instead.
    """
    if data.get("error"):
        raise ProviderError(data["error"])
    if not data["choices"]:
        raise ValueError("it holds no choice")
    choice: Mapping[str, Any] = data["choices"][0]
    if choice.get("error") or choice.get("finish_reason") == "error":
        raise ProviderError(choice.get("error") or "finish_reason error")
    return choice


def _whole(reply: HttpReply, structured: bool) -> Completion:
    """Read a reply that comes as one JSON object."""
    if reply.cut:
        return Completion("", "length")
    data = json.loads(reply.body)
    choice, usage = _choice(data), data.get("usage") or {}
    message = choice["message"]
    text = _content(message.get("content"))
    if not text and structured:  # some servers put what follows a swallowed think tag there
        text = _json_alone(message.get("reasoning_content") or message.get("reasoning"))
    finish = choice.get("finish_reason") or "stop"
    return _completion(text, finish, message.get("refusal") or "", usage)


def _content(content: Any) -> Any:
    """Return the text of a message: a string, or a list of parts of which those with text count."""
    if not isinstance(content, list):
        return content or ""
    return "".join(part if isinstance(part, str) else part.get("text") or "" for part in content)


def _json_alone(reasoning: Any) -> str:
    """Return reasoning that is one JSON object and nothing else; anything else is no answer."""
    text = reasoning.strip() if isinstance(reasoning, str) else ""
    return text if text.startswith("{") and text.endswith("}") else ""


def _streamed(reply: HttpReply, structured: bool) -> Completion:
    """Put a streamed reply together; one without an end is broken."""
    text, refusal, finish, thought = "", "", "", ""
    usage: Mapping[str, Any] = {}
    lines = reply.body.split(b"\n")
    for line in lines[:-1] if reply.cut else lines:
        name, _, data = line.strip().partition(b":")
        if name != b"data" or data.strip() == b"[DONE]":
            continue
        chunk = json.loads(data)
        usage = chunk.get("usage") or usage
        for choice in [_choice(chunk)] if chunk.get("choices") or chunk.get("error") else []:
            delta = choice.get("delta") or {}
            text += _content(delta.get("content"))
            thought += delta.get("reasoning_content") or delta.get("reasoning") or ""
            refusal += delta.get("refusal") or ""
            finish = choice.get("finish_reason") or finish
    if reply.cut:
        return _completion(text, "length", refusal, {})
    if not finish:
        raise ValueError("the stream ends before the answer does")
    return _completion(text or (_json_alone(thought) if structured else ""), finish, refusal, usage)


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
    return int(tokens) if isinstance(tokens, int | float) and 0 < tokens <= MOST_TOKENS else 0


def _estimate(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // _ESTIMATED_BYTES_PER_TOKEN)
