"""Answers of an LLM on disk, one file per question: whole or not there, and never trusted when damaged.

A file holds the question, the answer and what it cost; no key, no header, no address. Its name is the hash of
all that determines the answer, so a server that moved to another address is not asked again.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from intraskill.method.randomness import content_hash
from intraskill.store.run_directory import full_disk_is_one_error, make_directory

VERSION = 1
MOST_TOKENS = 10**9
"""No answer has more; a larger count is nonsense."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer as it came.

    Attributes:
        text: what the model wrote.
        finish: why it ended: ``stop``, ``length`` (cut off), ``content_filter``.
        refusal: the model's own words of refusal; empty = it did not refuse.
        tokens_in: tokens read.
        tokens_out: tokens written.
        estimated: whether the token counts are guessed from the lengths, because the endpoint gave none.
    """

    text: str
    finish: str
    refusal: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False

    @property
    def refused(self) -> bool:
        """Whether model or provider declined to answer."""
        return bool(self.refusal) or self.finish == "content_filter"

    @property
    def final(self) -> bool:
        """Whether the same question need not be asked again: an answer, whole or cut at its own limit."""
        return not self.refused and self.finish in ("stop", "length") and bool(self.text or self.finish == "length")


class AnswerCache:
    """The answers of one run; nothing is made on disk before the first one is stored."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._asking: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def all(self) -> Iterator[Completion]:
        """Yield every readable answer, in the order of the file names."""
        for path in sorted(self.directory.glob("*.json")):
            try:
                yield _read(path)[1]
            except ValueError:
                continue

    def answer(
        self, question: Mapping[str, Any], ask: Callable[[], Completion], damaged: Callable[[], None]
    ) -> tuple[Completion, bool]:
        """Return a stored answer and true, or that of ``ask``, stored first, and false.

        The same question from two threads is asked once. What is no final answer is kept for what it cost, and asked
        again: a refusal or an empty answer of today must not be the answer for good.

        Args:
            question: everything that determines the answer; JSON.
            ask: gets it.
            damaged: called when there is a file that cannot be used; it is written anew.

        Raises:
            ArtifactError: when the answer cannot be written.
        """
        name = content_hash(VERSION, question)
        path = self.directory / f"{name}.json"
        with self._lock:
            asking = self._asking.setdefault(name, threading.Lock())
        with asking:
            if path.exists():
                try:
                    stored, answer = _read(path)
                except ValueError:
                    damaged()
                else:
                    if stored == question and answer.final:
                        return answer, True
                    if stored != question:
                        damaged()
            answer = ask()
            make_directory(self.directory)
            _keep(path, {"question": question, "answer": asdict(answer)})
            return answer, False


def _keep(path: Path, record: Mapping[str, Any]) -> None:
    """Write an answer and name it before it is synced, not after: a kill in between must not lose what is paid.

    A power cut may then leave a broken file, which `_read` notices and which is asked again.
    """
    aside = path.with_name(f".{path.name}.tmp")
    with full_disk_is_one_error(path), aside.open("w", encoding="utf-8", newline="\n") as stream:
        json.dump(record, stream, ensure_ascii=False, indent=1)
        stream.flush()
        aside.replace(path)
        os.fsync(stream.fileno())


def _read(path: Path) -> tuple[Any, Completion]:
    """Return question and answer.

    Raises:
        ValueError: when the file does not hold both.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        answer = Completion(**stored["answer"])
        question = stored["question"]
    except (OSError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} holds no answer: {error}") from error
    wanted = {"text": str, "finish": str, "refusal": str, "tokens_in": int, "tokens_out": int, "estimated": bool}
    if wrong := [name for name, kind in wanted.items() if not isinstance(getattr(answer, name), kind)]:
        raise ValueError(f"{path} holds no answer: {wrong[0]} is of another type")
    if max(answer.tokens_in, answer.tokens_out) > MOST_TOKENS:
        raise ValueError(f"{path} holds no answer: more than {MOST_TOKENS:,} tokens")
    return question, answer
