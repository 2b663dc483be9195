"""A real HTTP server that speaks the part of vLLM's API that the project uses, and fails on demand.

Behind it stands a small model in torch, with adapters loaded from the paths that it is told. What a request does
happens before its fault, as in a server that dies while answering. `tests/vllm_engine/test_real_server.py` holds it
against vLLM itself.
"""

import copy
import json
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

from intraskill.rl.policy import Policy, load_policy

LOADING = threading.Lock()
"""Loading in two threads at once leaves tensors without data: the libraries switch a global default device."""

Action = Callable[[dict[str, Any]], dict[str, Any]]


class Refusal(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class CompletionModel:
    """What a server knows and how it misbehaves; outlives the server, as a machine outlives a process.

    ``faults`` is a queue per route of ``drop`` or a status; ``stale`` serves the first adapter under every later name,
    ``deaf`` ignores adapters, ``raw`` reports log-probabilities without temperature.
    """

    def __init__(self, directory: Path, **odd: Any) -> None:
        self.directory = directory
        self.base = load_policy(directory)
        self.version: str = odd.pop("version", "0.31.0")
        self.name: str = odd.pop("name", "start")
        self.max_model_len: int = odd.pop("max_model_len", 1024)
        self.lora: bool = odd.pop("lora", True)
        self.key: str = odd.pop("key", "")
        self.stale: bool = odd.pop("stale", False)
        self.deaf: bool = odd.pop("deaf", False)
        self.raw: bool = odd.pop("raw", False)
        assert not odd
        self.adapters: dict[str, Policy] = {}
        self.paths: list[str] = []
        self.requests: Counter[str] = Counter()
        self.completions: list[dict[str, Any]] = []
        self.faults: dict[str, deque[str | int]] = {}
        self.on_completion: Callable[[int], None] = lambda count: None
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Lose all adapters, as a restart does."""
        with self._lock:
            self.adapters.clear()

    def answer(self, route: str, body: dict[str, Any]) -> Any:
        with self._lock:
            self.requests[route] += 1
            routes: dict[str, Action] = {
                "/version": lambda _: {"version": self.version},
                "/v1/models": lambda _: {"data": self.cards()},
                "/v1/completions": self.complete,
            }
            if self.lora:
                routes |= {"/v1/load_lora_adapter": self.load, "/v1/unload_lora_adapter": self.unload}
            if route not in routes:
                raise Refusal(404, "Not Found")
            return routes[route](body)

    def cards(self) -> list[dict[str, Any]]:
        own = {"id": self.name, "parent": None, "max_model_len": self.max_model_len, "root": str(self.directory)}
        return [own, *({"id": name, "parent": self.name, "max_model_len": None} for name in self.adapters)]

    def load(self, body: dict[str, Any]) -> dict[str, Any]:
        name, path = body["lora_name"], Path(body["lora_path"])
        if name in self.adapters:
            raise Refusal(400, f"The lora adapter '{name}' has already been loaded. If you want to load …")
        if not (path / "adapter_config.json").is_file():
            raise Refusal(404, f"Loading lora {name} failed: No adapter found for {path}")
        first = next(iter(self.adapters.values()), None)
        self.adapters[name] = first if self.stale and first else self._with_adapter(path)
        self.paths.append(str(path))
        return {}

    def unload(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["lora_name"] not in self.adapters:
            raise Refusal(404, f"The lora adapter '{body['lora_name']}' cannot be found.")
        del self.adapters[body["lora_name"]]
        return {}

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        self.completions.append(body)
        self.on_completion(len(self.completions))
        if body["model"] != self.name and body["model"] not in self.adapters:
            raise Refusal(404, f"The model `{body['model']}` does not exist.")
        if len(body["prompt"]) + body["max_tokens"] > self.max_model_len:
            raise Refusal(400, f"This model's maximum context length is {self.max_model_len} tokens. However, …")
        policy = self.base if self.deaf else self.adapters.get(body["model"], self.base)
        ids, logprobs = sampled(policy, body, raw=self.raw)
        choice = {"token_ids": ids, "prompt_token_ids": body["prompt"], "logprobs": {"token_logprobs": logprobs}}
        return {"choices": [choice]}

    def _with_adapter(self, path: Path) -> Policy:
        from peft import PeftModel

        with LOADING:
            model = PeftModel.from_pretrained(copy.deepcopy(self.base.model), path)
        return Policy(model.eval(), self.base.tokenizer, "served")


@torch.no_grad()
def sampled(policy: Policy, body: dict[str, Any], *, raw: bool = False) -> tuple[list[int], list[float]]:
    """Sample as vLLM does on a CPU: each request its own generator, one multinomial draw per token."""
    generator = torch.Generator().manual_seed(body["seed"])
    ids, logprobs = [], []
    while len(ids) < body["max_tokens"]:
        history = torch.tensor([[*body["prompt"], *ids]])
        logits = policy.head(policy.backbone(input_ids=history, use_cache=False).last_hidden_state[0, -1]).float()
        scores = torch.log_softmax(logits / (body["temperature"] or 1.0), -1)
        drawn = scores.argmax() if body["temperature"] == 0 else torch.multinomial(scores.exp(), 1, generator=generator)
        ids.append(int(drawn))
        logprobs.append(float((torch.log_softmax(logits, -1) if raw else scores)[ids[-1]]))
        if ids[-1] in body["stop_token_ids"]:
            break
    return ids, logprobs


class RunningServer:
    """A server that can be stopped and started again on its port."""

    def __init__(self, model: CompletionModel) -> None:
        self.model = model
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        model = self.model

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.reply({})

            def do_POST(self) -> None:
                self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def reply(self, body: dict[str, Any]) -> None:
                status, found = 200, None
                try:
                    if model.key and self.headers.get("Authorization") != f"Bearer {model.key}":
                        raise Refusal(401, "Unauthorized")
                    found = model.answer(self.path, body)
                except Refusal as refusal:
                    status, found = refusal.status, {"error": {"message": str(refusal), "code": refusal.status}}
                queue = model.faults.get(self.path)
                fault = queue.popleft() if queue else None
                if fault == "drop":
                    self.close_connection = True
                    return
                if isinstance(fault, int):
                    status, found = fault, {"error": {"message": "planted"}}
                text = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *words: Any) -> None:
                pass

        class Listener(ThreadingHTTPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 128

            def get_request(self) -> Any:
                connection, address = super().get_request()
                connections.append(connection)
                return connection, address

        connections: list[socket.socket] = []
        self._connections = connections
        self._listener = Listener(("127.0.0.1", self._port), Handler)
        self._port = self._listener.server_address[1]
        threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def restart_later(self, seconds: float) -> None:
        """Go away without the adapters and come back after a while."""

        def cycle() -> None:
            self.stop()
            self.model.forget()
            time.sleep(seconds)
            self.start()

        threading.Thread(target=cycle, daemon=True).start()


@contextmanager
def serving(model: CompletionModel) -> Iterator[RunningServer]:
    server = RunningServer(model)
    try:
        yield server
    finally:
        server.stop()
