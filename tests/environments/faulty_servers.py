"""Real HTTP shops on 127.0.0.1 that keep count of every request and fail on demand.

Behind each stands a `ShopWorld`, so that answers can be compared with the world's own. A `Fault` is queued per
action (``reset``, ``interact``, …); what the action does happens first, as in a real server that dies while answering.
"""

import json
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from intraskill.environments.protocol import Outcome
from intraskill.environments.shopworld.session import PARAMETERS, ShopSession
from intraskill.environments.shopworld.world import ShopWorld
from intraskill.environments.tool_calls import write_call
from intraskill.method.tasks import SPLITS

SEP = " [SEP] "
SEARCH_FOOTER, BUTTONS_FOOTER = "搜索功能是否可用: ", "可点击的按钮: "


@dataclass(frozen=True)
class Fault:
    """What happens to one reply.

    Attributes:
        kind: ``drop`` the connection, ``refuse`` before doing anything, ``slow``, ``status``, ``error_200``,
            ``garbage`` (no JSON), or ``patch``.
        seconds: of ``slow``.
        status: of ``status``.
        patch: changes the reply of ``patch``.
    """

    kind: str
    seconds: float = 0.0
    status: int = 500
    patch: Callable[[Any], Any] = lambda reply: reply


class Refusal(Exception):
    """A request that this server answers with an error."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class FaultyShop:
    """What all three servers share: tasks, slots, counts and the queue of faults."""

    def __init__(self, world: ShopWorld, slots: int = 20) -> None:
        self.world, self.slots = world, slots
        self.version = "env-8.0"
        self.requests: Counter[str] = Counter()
        self.bodies: list[Mapping[str, Any]] = []
        self.faults: dict[str, deque[Fault | None]] = {}
        self.stopping = threading.Event()
        self.lock = threading.RLock()
        self.tasks = [task for split in SPLITS for task in world.tasks(split)]
        self.episodes: dict[int, ShopSession] = {}
        self.most_open = 0
        self.offers_manifest, self.states_health = True, False

    def queue(self, action: str, *faults: Fault | None) -> None:
        """Let the next requests of an action fail; ``None`` stands for one that works."""
        self.faults[action] = deque(faults)

    def health(self) -> dict[str, Any]:
        """What ``/healthz`` says."""
        return {
            "ready": True,
            "environment_slots": self.slots,
            "free_slots": self.slots - len(self.episodes),
            "tasks": len(self.tasks),
            "environment_version": self.version,
            "observation_version": "obs-2",
            "language": self.world.settings.language,
        }

    def manifest(self) -> dict[str, Any]:
        """What ``/manifest`` says."""
        rows = [{"idx": i, "id": t.id, "split": t.split} for i, t in enumerate(self.tasks)]
        return {"catalogue": self.world.catalogue.hash, "environment_version": self.version, "tasks": rows}

    def begin(self, idx: int, env_idx: int) -> tuple[ShopSession, Any]:
        """Start an episode in a slot."""
        session = self.world.open()
        opening = session.reset(self.tasks[idx].id)
        self.episodes[env_idx] = session
        self.most_open = max(self.most_open, len(self.episodes))
        return session, opening

    def free_slot(self) -> int:
        """Return a slot that nobody holds."""
        free = [slot for slot in range(self.slots) if slot not in self.episodes]
        if not free:
            raise Refusal(500, "no slot is free")
        return free[0]

    def play(self, session: ShopSession, action: str) -> Outcome:
        """Apply ``search[…]`` or ``click[…]``."""
        name, _, rest = action.partition("[")
        return session.step(write_call(name, PARAMETERS[name], rest[: rest.rindex("]")]))

    def action_of(self, route: str, body: Mapping[str, Any]) -> str:
        """Return the name under which a request is counted."""
        return str(body.get("action", route.strip("/"))) if route == "/api/shop_agent" else route.strip("/") or "root"

    def answer(self, route: str, body: Mapping[str, Any]) -> Any:
        """Do what a request asks."""
        if route == "/manifest" and self.offers_manifest:
            return self.manifest()
        if route == "/healthz" and self.states_health:
            return self.health()
        raise Refusal(404, "no such route")

    def wrap_error(self, words: str) -> Any:
        """Return the reply of a failure."""
        return {"result": {"error": words}}


class LeaseShop(FaultyShop):
    """Speaks ``shopsim-lease``."""

    def __init__(self, world: ShopWorld, slots: int = 20) -> None:
        super().__init__(world, slots)
        self.states_health = True
        self.leases: dict[int, str] = {}
        self.given = 0
        self.epoch = "a"

    def answer(self, route: str, body: Mapping[str, Any]) -> Any:
        """Dispatch by action."""
        if route != "/api/shop_agent":
            return super().answer(route, body)
        action = body.get("action")
        if action == "reset":
            return {"result": self._reset(body)}
        if action not in ("interact", "terminate", "release_one"):
            raise Refusal(400, f"unsupported action {action}")
        env_idx = body["env_idx"]
        if self.leases.get(env_idx) != body.get("lease_id"):
            raise Refusal(409, f"stale or invalid lease for environment {env_idx}")
        if action == "release_one":
            del self.leases[env_idx], self.episodes[env_idx]
            return {"result": {"message": "released"}}
        session = self.episodes[env_idx]
        if action == "terminate":
            return {"result": self._reply(env_idx, session.terminate(body["termination_reason"]))}
        return {"result": self._reply(env_idx, self.play(session, body["response"]))}

    def _reset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        env_idx = self.free_slot()
        session, opening = self.begin(body["idx"], env_idx)
        self.given += 1
        self.leases[env_idx] = f"{self.epoch}{self.given}"
        return {
            "env_idx": env_idx,
            "lease_id": self.leases[env_idx],
            "idx": body["idx"],
            "task_instruction": opening.instruction,
            "user_persona": opening.persona,
            "observation": opening.observation,
            "observation_state": {**session.state, "observation_version": "obs-2"},
            "environment_version": self.version,
        }

    def _reply(self, env_idx: int, outcome: Outcome) -> dict[str, Any]:
        return {
            "env_idx": env_idx,
            "lease_id": self.leases[env_idx],
            "observation": outcome.observation,
            "observation_state": {**outcome.state, "observation_version": "obs-2"},
            "action_feedback": outcome.state["last_action"] or {},
            "reward": outcome.reward,
            "done": outcome.done,
            "over": outcome.done,
            "reward_detail": dict(outcome.parts),
            "purchase": {"asin": "x"} if outcome.termination == "purchase" else {},
            "goal": {"asin": "the answer"} if outcome.done else {},
            "termination_reason": outcome.termination,
        }


class UpstreamShop(FaultyShop):
    """Speaks ``shopsim-upstream``: no lease, status 200 always, answers beside the pages."""

    def __init__(self, world: ShopWorld, slots: int = 20) -> None:
        super().__init__(world, slots)
        self.offers_manifest = False
        self.full = "The full wish: {idx}, waterproof and at most 70"
        self.simple = True
        self.released: list[int] = []
        self.wishes: dict[int, str] = {}

    def answer(self, route: str, body: Mapping[str, Any]) -> Any:
        """Dispatch by action."""
        if route != "/api/shop_agent":
            return super().answer(route, body)
        action = body.get("action")
        if action == "reset":
            env_idx, full = self.free_slot(), self.full.format(idx=body["idx"])
            self.wishes[env_idx] = full
            _, opening = self.begin(body["idx"], env_idx)
            reply = {"instruction": full, "instruction_simple": opening.instruction if self.simple else None}
            reply |= {"goal_options": ["the answer"], "reason_key": "because", "env_idx": env_idx, "idx": body["idx"]}
            return {"result": reply | {"user_persona": {"tastes": ["tea"], "__reasoning__": "the answer"}}}
        env_idx = body["env_idx"]
        if env_idx not in self.episodes:
            return self.wrap_error(f"environment {env_idx} is free")
        if action == "release_one":
            self.released.append(env_idx)
            del self.episodes[env_idx]
            return {"result": {"message": "released"}}
        outcome = self.play(self.episodes[env_idx], body["response"].split("\nAction: ")[1])
        return {"result": self._reply(env_idx, outcome)}

    def _reply(self, env_idx: int, outcome: Outcome) -> dict[str, Any]:
        parts = outcome.observation.split(SEP)[:-2]
        body = SEP.join(["Instruction:", self.wishes[env_idx], *parts])
        buttons = json.dumps(outcome.state["actions"], ensure_ascii=False)
        available = outcome.state["search_available"]
        if outcome.done:
            del self.episodes[env_idx]
        detail = {k: v for k, v in outcome.parts.items() if k in ("r_type", "r_att", "r_option", "r_price")}
        return {
            "instruction": f"{body}\n\n{SEARCH_FOOTER}{available}\n\n{BUTTONS_FOOTER}{buttons}",
            "done": outcome.done,
            "over": outcome.done,
            "reward": outcome.parts.get("r_loose", 0),
            "reward_detail": detail,
            "goal": {"asin": "the answer"} if outcome.done else {},
            "env_idx": env_idx,
        }

    def wrap_error(self, words: str) -> Any:
        """Status 200 all the same: see `Handler`."""
        return {"result": {"error": words}}


class AgentGymShop(FaultyShop):
    """Speaks ``webshop-agentgym``."""

    def __init__(self, world: ShopWorld, slots: int = 20) -> None:
        super().__init__(world, slots)
        self.created = 0
        self.envs: set[int] = set()
        self.closes = True
        self.pages: dict[int, str] = {}
        self.wishes: dict[int, str] = {}

    def restart(self) -> None:
        """Forget everything, and number from 1 again."""
        self.created = 0
        self.envs.clear()
        self.episodes.clear()

    def answer(self, route: str, body: Mapping[str, Any]) -> Any:
        """Dispatch by route."""
        if route == "/":
            return "ok"
        if route == "/create":
            self.created += 1
            self.envs.add(self.created)
            return self.created
        if route == "/close" and self.closes:
            self.envs.discard(int(body["env_idx"]))
            return {"closed": True}
        if route not in ("/reset", "/step", "/observation", "/available_actions"):
            return super().answer(route, body)
        env_idx = int(body["env_idx"])
        if env_idx not in self.envs:
            raise Refusal(404, f"no environment {env_idx}")
        if route == "/reset":
            _, opening = self.begin(body["session_id"], env_idx)
            self.wishes[env_idx] = opening.request
            self.pages[env_idx] = self._page(env_idx, opening.observation)
            return [self.pages[env_idx], None]
        if route == "/observation":
            return self.pages[env_idx]
        session = self.episodes[env_idx]
        if route == "/available_actions":
            search = session.state["search_available"]
            return {
                "has_search_bar": search,
                "clickables": [*session.state["actions"], *(["search"] if search else [])],
            }
        outcome = self.play(session, body["action"])
        self.pages[env_idx] = self._page(env_idx, outcome.observation)
        reward = outcome.parts.get("r_loose", 0.0)
        return {"state": self.pages[env_idx], "reward": reward, "done": outcome.done, "info": None}

    def _page(self, env_idx: int, observation: str) -> str:
        return SEP.join(["WebShop", "Instruction:", self.wishes[env_idx], *observation.split(SEP)[:-2]])


class Handler(BaseHTTPRequestHandler):
    """Counts, acts, then fails if a fault is queued."""

    server: "ShopServer"

    def do_GET(self) -> None:
        """Answer a GET; the query counts as its body."""
        parts = urlsplit(self.path)
        self._serve(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})

    def do_POST(self) -> None:
        """Answer a POST."""
        self._serve(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _serve(self, route: str, body: Mapping[str, Any]) -> None:
        shop = self.server.shop
        action = shop.action_of(route, body)
        with shop.lock:
            shop.requests[action] += 1
            shop.bodies.append(body)
            waiting = shop.faults.get(action)
            fault = waiting.popleft() if waiting else None
            status, reply = 200, None
            if fault is not None and fault.kind in ("refuse", "status", "error_200"):
                status = fault.status if fault.kind == "status" else 200
                reply = shop.wrap_error("scripted failure")
            else:
                try:
                    reply = shop.answer(route, body)
                except Refusal as refusal:
                    status, reply = refusal.status, shop.wrap_error(str(refusal))
        self._send(status, reply, fault)

    def _send(self, status: int, reply: Any, fault: Fault | None) -> None:
        if fault is not None and fault.kind in ("drop", "refuse"):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if fault is not None and fault.kind == "slow":
            self.server.shop.stopping.wait(fault.seconds)
        if fault is not None and fault.kind == "patch":
            reply = fault.patch(reply)
        text = b"<html>oops</html>" if fault is not None and fault.kind == "garbage" else json.dumps(reply).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class ShopServer(ThreadingHTTPServer):
    """A shop behind a port."""

    daemon_threads = True

    def __init__(self, shop: FaultyShop, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.shop = shop

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(shop: FaultyShop, port: int = 0) -> Iterator[ShopServer]:
    """Serve a shop while the block runs; leaving it closes the port."""
    server = ShopServer(shop, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        shop.stopping.set()
        server.shutdown()
        server.server_close()
        shop.stopping.clear()
