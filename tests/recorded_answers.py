"""Recorded answers behind a real HTTP server on 127.0.0.1: a case is found by what its prompt says, then answered."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "runtime" / "recorded"
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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, content = 200, records.answer(asked["messages"])
            except (ValueError, IndexError, KeyError) as error:
                status, content = 401, f"no record answers this: {error}"  # 401 is not tried again
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
            body = json.dumps(reply | {"usage": usage} if status == 200 else {"error": {"message": content}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield records, f"http://127.0.0.1:{httpd.server_port}/v1"
    finally:
        httpd.shutdown()
        httpd.server_close()
