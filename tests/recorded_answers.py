"""Recorded answers behind a real HTTP server on 127.0.0.1: a case is found by what its prompt says, then answered."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from chat_server import Refusal, answering

FOLDER = Path(__file__).parent / "proposers" / "recorded"
KEY_ENV = "TEST_LLM_KEY"


def cases_of(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def named(case: Any) -> str:
    return case["name"].replace(" ", "_")


@dataclass
class Records:
    """Answers by a text that only their prompt holds; ``requests`` are the conversations that were asked."""

    answers: dict[str, list[Any]]
    requests: list[list[dict[str, str]]] = field(default_factory=list)

    def answer(self, messages: list[dict[str, str]]) -> str:
        """The n-th answer of the one case that the first question belongs to; n answers stand in the conversation."""
        self.requests.append(messages)
        (found,) = [answers for key, answers in self.answers.items() if key in messages[1]["content"]]
        answer = found[sum(message["role"] == "assistant" for message in messages)]
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)

    @property
    def asked(self) -> str:
        """Everything that any prompt held."""
        return json.dumps(self.requests, ensure_ascii=False)


@contextmanager
def serving(answers: dict[str, list[Any]]) -> Iterator[tuple[Records, str]]:
    records = Records(answers)

    def reply(messages: list[dict[str, str]]) -> str:
        try:
            return records.answer(messages)
        except (ValueError, IndexError, KeyError) as error:
            raise Refusal(401, f"no record answers this: {error}") from error  # 401 is not tried again

    with answering(reply) as server:
        yield records, server.url
