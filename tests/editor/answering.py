"""A real OpenAI-compatible server on 127.0.0.1 whose answers a function gives, and an editor's run around a domain."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

from intraskill.config import Config
from intraskill.editor.domain import Workbench
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.passes import Worth, worth
from intraskill.editor.scoring import Scored, score_answers
from intraskill.editor.states import EditState
from intraskill.editor.trials import Trials
from intraskill.method.firewall import Firewall
from intraskill.method.rollouts import Rollout, Turn
from intraskill.method.skill import BARE, Skill

SAMPLES = Path(__file__).parent / "samples"
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


def configured(**options) -> Config:
    config = Config()
    config.editor.options = options
    return config


def rollout(answer: str) -> Rollout:
    turns = (Turn("edit", answer, "", "", "executed"),)
    return Rollout("s", BARE, "c", 0, (), (), (), (), reward=0.0, turns=turns)


def scored(bench: Workbench, trials: Trials, answers: list[str], *, anchors: int = 1) -> Scored:
    """Score answers on the first state of the first train stream."""
    stream = bench.domain.streams("train")[0]
    environment = EditorEnvironment(Firewall(bench.domain.secrets))
    units = stream.units[:4]
    named = sorted({query_id for unit in units for query_id in unit.anchors})[:anchors]
    state = EditState("s", stream.skill, units, tuple(map(bench.domain.query, named)))
    (found,) = score_answers([state], [[rollout(one) for one in answers]], environment, trials, kind="binary", seed=0)
    return found


def worth_of(bench: Workbench, trials: Trials, skill: Skill) -> list[Worth]:
    """Score a skill against z_0 on the probes of every held-out stream."""
    streams = bench.domain.streams("held_out")
    run = SimpleNamespace(config=Config(), workbench=bench, trials=trials)
    return worth(run, streams, [skill] * len(streams))
