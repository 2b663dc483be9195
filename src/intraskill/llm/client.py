"""Questions to an OpenAI-compatible endpoint, answered in JSON of one schema or in plain text.

Every raw answer is kept under the hash of its question, so a resumed run asks and pays only what it has not asked. An
answer that is not what was asked for is re-asked once, with the exact error; it is never repaired. A budget stops the
run between two answers.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from intraskill.llm.budget import BudgetError, Limits, Meter, limits_of
from intraskill.llm.cache import AnswerCache, Completion
from intraskill.llm.endpoint import Endpoint, EndpointError, Question, QuestionError, endpoint_of
from intraskill.llm.wire import Wire
from intraskill.method.errors import IntraSkillError
from intraskill.method.thoughts import without_thought
from intraskill.store.json_rows import value_of
from intraskill.store.usage import Usage

_FENCE = re.compile(r"\A```(?:json|JSON)?[ \t]*\r?\n(?P<body>.*)```\Z", re.DOTALL)


def parse(text: str) -> tuple[Any, bool]:
    """Return the JSON value of an answer, and whether a leading think block or a fence around all of it was taken off.

    Raises:
        ValueError: saying what is no JSON: also a key that stands twice, NaN, and half a surrogate pair.
    """
    body = without_thought(text).strip()
    if fenced := _FENCE.match(body):
        body = fenced["body"].strip()
    try:
        value = value_of(body)
    except json.JSONDecodeError as error:
        near = body[max(0, error.pos - 20) : error.pos + 20]
        raise ValueError(f"it is not one JSON value ({error.msg} at character {error.pos}, near {near!r})") from None
    return value, body != text.strip()


__all__ = [
    "STOPS",
    "BadAnswerError",
    "BudgetError",
    "Endpoint",
    "EndpointError",
    "JsonClient",
    "Limits",
    "Message",
    "Usage",
    "endpoint_of",
    "limits_of",
    "usage_of",
    "watch_together",
]

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Message = dict[str, str]
STOPS = (EndpointError, BudgetError)
"""What no question is to blame for: the run stops, and the same command goes on."""
_QUOTED = 2000
"""Characters of a truncated answer that are shown to the model again."""


class BadAnswerError(IntraSkillError, ValueError):
    """A question ended without an answer of use: wrong or cut off twice, or refused; it is dropped and counted."""


class JsonClient:
    """Asks one endpoint; remembers raw answers in ``cache``, one file per question. All methods are thread-safe.

    Args:
        endpoint: where and how to ask.
        cache: directory of the answers; made with the first one. What lies there counts as spent.
        limits: what may be spent, answers already in the cache included.
        watch: called with the use so far after each answer, by one thread at a time.

    Raises:
        ConfigError: for an address that is none.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        cache: Path,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        watch: Callable[[Usage], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._cache = AnswerCache(cache)
        self._meter = Meter(limits, watch)
        self._wire = Wire(endpoint, self._meter.count)
        self._slots = threading.BoundedSemaphore(endpoint.concurrency)
        for answer in self._cache.all():
            self._meter.earlier(answer)

    @property
    def usage(self) -> Usage:
        """What was spent until now, and what came of it."""
        return self._meter.usage

    def watch(self, watch: Callable[[Usage], None]) -> None:
        """Have ``watch`` called as in the constructor, in the place of whoever was."""
        self._meter.watch = watch

    def ask(self, messages: Sequence[Message], schema: Mapping[str, Any], read: Callable[[Any], Answer]) -> Answer:
        """Return ``read`` of the parsed answer.

        Args:
            messages: the conversation.
            schema: JSON schema of the answer, used where the server offers structured output.
            read: turns parsed JSON into the answer; raises ``ValueError`` with what is wrong.

        Raises:
            BadAnswerError: when the answer and its one correction are both wrong or cut off, or one is refused.
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        told, model = list(messages), self.endpoint.model
        for last in (False, True):
            completion = self._complete(Question.of(self.endpoint, told, schema=schema))
            if completion.finish == "length":
                self._meter.count("truncated")
                problem = f"it was cut off after {self.endpoint.max_tokens} tokens"
                shown, order = completion.text[:_QUOTED], "Be much shorter, and reply with the whole JSON object only."
            else:
                try:
                    return self._read(completion.text, read)
                except ValueError as error:
                    problem, shown = str(error), completion.text
                    order = "Reply again with the corrected JSON object only."
            if not last:
                self._meter.count("reasked")
                refused = f"That answer was refused: {problem}\n{order}"
                told += [{"role": "assistant", "content": shown}, {"role": "user", "content": refused}]
        self._meter.count("dropped")
        raise BadAnswerError(f"{model} answered wrongly twice: {problem}")

    def text(self, messages: Sequence[Message], *, seed: int | None = None) -> str:
        """Return the model's plain answer; one that was cut off is returned as it is, and counted.

        Args:
            messages: the conversation.
            seed: for servers that sample with one.

        Raises:
            BadAnswerError: when it is refused.
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        completion = self._complete(Question.of(self.endpoint, messages, seed=seed))
        self._meter.count("truncated" if completion.finish == "length" else "answered")
        return completion.text

    def each(self, items: Sequence[Item], ask_one: Callable[[Item], Answer]) -> list[Answer | BadAnswerError]:
        """Return ``ask_one`` of every item, in the order of the items, several at a time.

        An item whose question ends in `BadAnswerError` gives that error. Any other error stops the rest: what is under
        way ends and is kept, nothing else begins, and the first such error by order of the items is raised.

        Args:
            items: what to ask about.
            ask_one: asks about one; called by several threads.

        Raises:
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        stopped = threading.Event()

        def one(item: Item) -> Answer | BadAnswerError:
            if stopped.is_set():
                raise _NotBegunError
            try:
                return ask_one(item)
            except BadAnswerError as error:
                return error
            except BaseException:
                stopped.set()
                raise

        with ThreadPoolExecutor(self.endpoint.concurrency, "llm") as pool:
            futures = [pool.submit(one, item) for item in items]
            try:
                wait(futures)
            except BaseException:  # an interrupt: let nothing else begin
                stopped.set()
                raise
        for failure in [future.exception() for future in futures]:
            if failure is not None and not isinstance(failure, _NotBegunError):
                raise failure
        return [future.result() for future in futures]

    def _read(self, text: str, read: Callable[[Any], Answer]) -> Answer:
        try:
            value, unwrapped = parse(text)
        except ValueError:
            self._meter.count("not_json")
            raise
        if unwrapped:
            self._meter.count("unwrapped")
        try:
            answer = read(value)
        except ValueError:
            self._meter.count("wrong_shape")
            raise
        self._meter.count("answered")
        return answer

    def _complete(self, question: Question) -> Completion:
        """Return an answer, from the cache where it is known.

        Raises:
            BadAnswerError: when the question cannot or will not be answered.
        """

        def ask() -> Completion:
            answer = None
            with self._slots:
                self._meter.begin()
                try:
                    answer = self._wire.send(question)
                finally:
                    self._meter.end(answer)
            if answer.estimated:
                self._meter.count("estimated")
            return answer

        def damaged() -> None:
            self._meter.count("corrupt_cache")

        try:
            answer, known = self._cache.answer(question.key(), ask, damaged)
        except QuestionError as error:
            kind, words = error.kind, str(error)
        else:
            if known:
                self._meter.found()
            self._meter.tell()
            if not answer.refused:
                return answer
            kind, words = "refused", f"{self.endpoint.model} refused to answer: {answer.refusal[:200]}"
        self._meter.count(kind)
        self._meter.count("dropped")
        raise BadAnswerError(words)


def usage_of(clients: Sequence[JsonClient]) -> Usage:
    """Return what several clients have spent together."""
    return sum((client.usage for client in clients), Usage())


def watch_together(clients: Sequence[JsonClient], watch: Callable[[Usage], None]) -> None:
    """Have ``watch`` called with what all of them have spent after each answer of one, by one thread at a time."""
    one_at_a_time = threading.Lock()

    def tell(_: Usage) -> None:
        with one_at_a_time:
            watch(usage_of(clients))

    for client in clients:
        client.watch(tell)


class _NotBegunError(Exception):
    """An item that was left alone because another one stopped the work."""
