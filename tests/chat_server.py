"""A real OpenAI-compatible server on 127.0.0.1 whose answers a function gives."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY_ENV = "TEST_EDITOR_KEY"
Reply = Callable[[list[dict[str, str]]], str]


class Refusal(Exception):
    """The server answers with this HTTP status."""


@dataclass
class Asked:
    """What a server was asked: whole request bodies and the keys that came with them."""

    url: str = ""
    bodies: list[dict] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def endpoint(self, **more) -> dict:
        return {"base_url": self.url, "model": "m", "api_key_env": KEY_ENV, "retries": 0, "timeout_s": 30.0} | more

    def texts(self, role: str = "system") -> list[str]:
        return [m["content"] for body in self.bodies for m in body["messages"] if m["role"] == role]


@contextmanager
def answering(reply: Reply) -> Iterator[Asked]:
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.bodies.append(body)
            asked.keys.append(self.headers.get("Authorization", ""))
            try:
                message = {"role": "assistant", "content": reply(body["messages"])}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                status, answer = 200, {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
                answer |= {"choices": [choice], "usage": usage}
            except Refusal as refusal:
                status, answer = refusal.args[0], {"error": {"message": refusal.args[1]}}
            sent = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *args):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    asked.url = f"http://127.0.0.1:{httpd.server_port}/v1"
    try:
        yield asked
    finally:
        httpd.shutdown()
        httpd.server_close()
