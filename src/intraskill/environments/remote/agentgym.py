"""The dialect ``webshop-agentgym``: page texts, a list of buttons, and one raw reward from which the rest is derived.

An episode closes its env_idx. Older servers cannot close one, and one is costly to create: theirs are used again.
"""

import json
from typing import Any

from intraskill.environments.remote.episode import (
    UNSTATED,
    RemoteEpisode,
    ServerIdentity,
    persona_text,
    require_version,
    unit,
)
from intraskill.environments.remote.lease import identity_of
from intraskill.environments.remote.pages import (
    Reply,
    SlotNumbers,
    Start,
    TextEpisode,
    TextPage,
    split_parts,
    without_request,
)
from intraskill.environments.remote.transport import RemoteFault, RemoteSettings, Request, Transport
from intraskill.environments.remote.wire import HEALTH_ROUTE, PURCHASE, SEP
from intraskill.environments.shopworld.strings import strings_of

PROFILE = "derived-from-raw"
_DERIVED_PARTS = ("r_strict", "r_loose", "r_success")
_LOST = ("bad_request", "refused")
"""Faults of a step that tell that the server was started again, or took the slot back."""


class AgentGymDialect:
    """One WebShop server; see `intraskill.environments.remote.episode.Dialect`."""

    profile = PROFILE
    reward_parts = _DERIVED_PARTS

    def __init__(self, transport: Transport, settings: RemoteSettings) -> None:
        self._transport, self._settings = transport, settings
        self._numbers = SlotNumbers()

    def identify(self) -> ServerIdentity:
        """Ask ``/healthz`` where there is one, else only whether anybody answers."""
        health = self._transport.offered(Request(HEALTH_ROUTE))
        if health is not None:
            return identity_of(health, self._transport, "en")
        self._transport.send(Request("/"))
        return ServerIdentity()

    def episode(self, identity: ServerIdentity) -> RemoteEpisode:
        """Return an episode that holds no env_idx yet."""
        return TextEpisode(_AgentGymChannel(self._transport, self._settings, identity, self._numbers))


class _AgentGymChannel:
    reward_parts: tuple[str, ...] = _DERIVED_PARTS

    def __init__(
        self, transport: Transport, settings: RemoteSettings, identity: ServerIdentity, numbers: SlotNumbers
    ) -> None:
        self._transport, self._identity, self._numbers = transport, identity, numbers
        self.where = f"webshop-agentgym at {settings.url}"
        self.language = settings.language or identity.language
        self._env_idx: int | None = None
        self._sound = True
        self._request = ""

    def start(self, idx: int) -> Start:
        if self._identity.environment_version != UNSTATED:
            now = identity_of(self._transport.send(Request(HEALTH_ROUTE)), self._transport, self.language)
            require_version("environment", now.environment_version, self._identity.environment_version, self.where)
        text = self._reset(idx)
        shown, _ = without_request(split_parts(text))
        if not shown:
            shown = str(self._get("/instruction_text")).removeprefix("Instruction:").strip()
        if not shown:
            raise RemoteFault("protocol", f"{self.where}: the reset of idx {idx} gave no instruction")
        self._request = shown
        request, _, persona = shown.partition("\n")
        public = persona_text(persona) if persona else None
        return Start(f"{request}\n{public}" if public else request, None, self._page(text))

    def send(self, action: str) -> Reply:
        self._sound = False  # until the reply is read, nobody knows what this env_idx is doing
        env_idx = self._held()
        try:
            reply = self._post("/step", {"env_idx": env_idx, "action": action})
        except RemoteFault as fault:
            if fault.kind in _LOST:  # whatever has this number by now is not ours to close
                self._numbers.give_back(env_idx, self)
            raise
        if not isinstance(reply, dict) or not isinstance(reply.get("done"), bool):
            raise RemoteFault("protocol", f"{self.where}: a step's reply without done")
        if reply["done"]:
            self._held()  # lost meanwhile, it was not this episode that ended
            self._sound = True
            raw = unit(reply.get("reward"), "reward", self.where)
            full = float(raw >= 1.0)
            return Reply(None, {"r_strict": full, "r_loose": raw, "r_success": full}, PURCHASE)
        page = self._page(reply.get("state"))
        self._sound = True
        return Reply(page)

    def leave(self) -> None:
        env_idx, self._env_idx = self._env_idx, None
        if env_idx is None or not self._numbers.give_back(env_idx, self):
            return
        if not self._closed(env_idx) and self._sound:
            self._numbers.keep(env_idx)

    def shown(self, page: TextPage) -> str:
        labels = strings_of(self.language).labels
        buttons = json.dumps(list(page.buttons), ensure_ascii=False)
        footer = [f"{labels['search_available']}: {page.search_available}", f"{labels['buttons']}: {buttons}"]
        return SEP.join([*page.parts, *footer])

    def _reset(self, idx: int) -> str:
        self._env_idx = self._numbers.take_kept(self)
        if self._env_idx is None:
            return self._reset_new(idx)
        try:
            return self._first_page(idx)
        except RemoteFault as fault:
            if fault.kind not in ("bad_request", "server"):
                raise
            # The server was started again since, and knows this env_idx no more, nor the others.
            self._numbers.forget_kept()
            self._numbers.give_back(self._env_idx, self)
            self._env_idx = None
            return self._reset_new(idx)

    def _reset_new(self, idx: int) -> str:
        created = self._create()
        while not self._numbers.take(created, self):
            # Whoever held it may be about to send something, so nobody uses it.
            self._numbers.give_back(created, self)
            self._closed(created)
            created = self._create()
        self._env_idx = created
        return self._first_page(idx)

    def _create(self) -> int:
        request = Request("/create", {}, "create", is_reset=True)
        created = self._transport.send(request)
        if not isinstance(created, int) or isinstance(created, bool):
            raise self._transport.fault("protocol", request, "the reply is not an env_idx")
        return created

    def _closed(self, env_idx: int) -> bool:
        """Close an env_idx; ``False`` when the server has no such route, or no such env_idx."""
        return self._transport.offered(Request("/close", {"env_idx": env_idx}, "close", is_release=True)) is not None

    def _first_page(self, idx: int) -> str:
        self._sound = False
        body = {"env_idx": self._env_idx, "session_id": idx}
        reply = self._transport.send(Request("/reset", body, "reset", is_reset=True, is_ours=self._is_ours))
        text = reply[0] if isinstance(reply, list) and reply else reply
        if not isinstance(text, str):
            raise RemoteFault("protocol", f"{self.where}: the reset of idx {idx} gave no page")
        self._sound = True
        return text

    def _page(self, text: object) -> TextPage:
        listed = self._get("/available_actions")
        buttons = listed.get("clickables") if isinstance(listed, dict) else None
        if not isinstance(text, str) or not isinstance(buttons, list):
            raise RemoteFault("protocol", f"{self.where}: no page text, or no list of clickables")
        _, parts = without_request(split_parts(text), self._request)
        available = bool(listed.get("has_search_bar"))
        return TextPage(parts, available, tuple(str(b) for b in buttons if not (available and b == "search")))

    def _held(self) -> int:
        if self._env_idx is None or not self._is_ours():
            raise RemoteFault("stale_lease", f"{self.where}: this episode holds no env_idx any more; open another")
        return self._env_idx

    def _is_ours(self) -> bool:
        return self._env_idx is not None and self._numbers.holds(self._env_idx, self)

    def _get(self, route: str) -> Any:
        return self._transport.send(Request(route, params={"env_idx": self._held()}, is_ours=self._is_ours))

    def _post(self, route: str, body: dict[str, Any]) -> Any:
        return self._transport.send(Request(route, body, is_ours=self._is_ours))
