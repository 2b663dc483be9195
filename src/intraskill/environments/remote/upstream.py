"""The dialect ``shopsim-upstream``: no leases, no states, status 200 always, and answers beside the pages.

Price and budget of this server are drawn per slot, so its rewards are a profile of their own.
"""

import json
from collections.abc import Mapping
from typing import Any

from intraskill.environments.leaks import is_private_key
from intraskill.environments.remote.episode import (
    UNSTATED,
    RemoteEpisode,
    ServerIdentity,
    components,
    persona_text,
    require_task,
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
from intraskill.environments.remote.wire import BUTTONS_FOOTER, HEALTH_ROUTE, PURCHASE, SEARCH_FOOTER, SEP, SHOP_ROUTE
from intraskill.environments.shopworld.reward import REWARD_PARTS
from intraskill.environments.shopworld.strings import strings_of

PROFILE = "upstream-random-price"
_OPTIONAL = ("r_option", "r_price")
"""Components that this server leaves out when a goal does not ask for them."""


class UpstreamDialect:
    """One server without leases; see `intraskill.environments.remote.episode.Dialect`."""

    profile = PROFILE
    reward_parts = REWARD_PARTS

    def __init__(self, transport: Transport, settings: RemoteSettings, persona: bool) -> None:
        self.transport, self.settings, self.persona = transport, settings, persona
        self.numbers = SlotNumbers()
        self._first: dict[str, str] = {}

    def identify(self) -> ServerIdentity:
        """Ask ``/healthz`` where there is one; the first public server has none, and then nothing is stated."""
        health = self.transport.offered(Request(HEALTH_ROUTE))
        return ServerIdentity(language="zh") if health is None else identity_of(health, self.transport, "zh")

    def check_version(self, reply: Mapping[str, Any], where: str) -> None:
        """Refuse a reset whose environment_version, where the server states one, is not that of the first reset."""
        stated = str(reply.get("environment_version", UNSTATED))
        require_version("environment", stated, self._first.setdefault("environment", stated), where)

    def episode(self, identity: ServerIdentity) -> RemoteEpisode:
        """Return an episode that holds no slot yet."""
        return TextEpisode(_UpstreamChannel(self, identity))


class _UpstreamChannel:
    reward_parts: tuple[str, ...] = REWARD_PARTS

    def __init__(self, dialect: UpstreamDialect, identity: ServerIdentity) -> None:
        self._transport, self._dialect, settings = dialect.transport, dialect, dialect.settings
        self.where = f"shopsim-upstream at {settings.url}"
        self.language = settings.language or identity.language
        self._numbers = dialect.numbers
        self._env_idx: int | None = None
        self._running = False
        self._request = ""

    def start(self, idx: int) -> Start:
        reply = self._reset(idx)
        full = reply.get("instruction")
        self._dialect.check_version(reply, self.where)
        require_task(reply, idx, self.where)
        if not isinstance(full, str) or not full.strip():
            raise RemoteFault("protocol", f"{self.where}: the reset of idx {idx} gave no instruction")
        simple = reply.get("instruction_simple")
        if not self._dialect.persona or not isinstance(simple, str) or not simple.strip():
            # A persona without its simple instruction is left over from an earlier task of this slot.
            self._request = full
            return Start(full, None, self._home())
        persona = reply.get("user_persona")
        if isinstance(persona, Mapping):
            persona = {key: value for key, value in persona.items() if not is_private_key(key)}
        self._request = full
        return Start(simple, persona_text(persona), self._home(), hidden=() if full == simple else (full,))

    def _reset(self, idx: int) -> Mapping[str, Any]:
        while True:
            reply = self._call("reset", {"idx": idx}, is_reset=True)
            env_idx = reply.get("env_idx")
            if not isinstance(env_idx, int):
                raise RemoteFault("protocol", f"{self.where}: a reset gave no env_idx")
            if self._numbers.take(env_idx, self):
                self._env_idx, self._running = env_idx, True
                return reply
            # Whoever held it may have acted there meanwhile, so this episode is played by nobody.
            self._numbers.give_back(env_idx, self)
            self._call("release_one", {"env_idx": env_idx})

    def send(self, action: str) -> Reply:
        ask = {"env_idx": self._held(), "response": f"\nAction: {action}"}
        self._running = False  # an episode that ends frees its slot; freed again, it would be somebody else's
        reply = self._call("interact", ask)
        done, over = bool(reply.get("done")), bool(reply.get("over"))
        if not done and not over:
            self._running = "done" in reply
            return Reply(self._page(reply.get("instruction")))
        if not done:
            return Reply(None, dict.fromkeys(REWARD_PARTS, 0.0), "action_limit")
        parts = components(reply.get("reward_detail"), self.where, _OPTIONAL)
        parts["r_loose"] = unit(reply.get("reward"), "reward", self.where)
        return Reply(None, {name: parts[name] for name in REWARD_PARTS}, PURCHASE)

    def leave(self) -> None:
        env_idx, self._env_idx = self._env_idx, None
        if env_idx is not None and self._numbers.give_back(env_idx, self) and self._running:
            self._call("release_one", {"env_idx": env_idx})

    def shown(self, page: TextPage) -> str:
        buttons = json.dumps(list(page.buttons), ensure_ascii=False)
        footer = f"{SEARCH_FOOTER}{page.search_available}\n\n{BUTTONS_FOOTER}{buttons}"
        return f"{SEP.join(page.parts)}\n\n{footer}"

    def _home(self) -> TextPage:
        return TextPage((strings_of(self.language).labels["home"],), True, ())

    def _page(self, text: object) -> TextPage:
        """Read a page text with its two footer lines.

        Raises:
            RemoteFault: ``protocol``, for a text without them.
        """
        body, mark, footer = text.rpartition(SEARCH_FOOTER) if isinstance(text, str) else ("", "", "")
        available, other_mark, listed = footer.partition(BUTTONS_FOOTER)
        try:
            buttons = json.loads(listed) if mark and other_mark else None
        except ValueError:
            buttons = None
        if not isinstance(buttons, list) or available.strip() not in ("True", "False"):
            raise RemoteFault(
                "protocol", f"{self.where}: a page without its footer ({SEARCH_FOOTER}… {BUTTONS_FOOTER}…)"
            )
        _, parts = without_request(split_parts(body), self._request)
        return TextPage(parts, available.strip() == "True", tuple(str(b) for b in buttons if b != "search"))

    def _held(self) -> int:
        if self._env_idx is None:
            raise RemoteFault("stale_lease", f"{self.where}: this episode holds no slot any more; open another")
        return self._env_idx

    def _is_ours(self) -> bool:
        return self._env_idx is not None and self._numbers.holds(self._env_idx, self)

    def _call(self, action: str, ask: Mapping[str, Any], *, is_reset: bool = False) -> Mapping[str, Any]:
        body, is_release = {"action": action, **ask}, action == "release_one"
        is_ours = self._is_ours if action == "interact" else None
        request = Request(SHOP_ROUTE, body, action, is_reset=is_reset, is_release=is_release, is_ours=is_ours)
        reply = self._transport.send(request)
        result = reply.get("result") if isinstance(reply, Mapping) else None
        if not isinstance(result, Mapping):
            raise self._transport.fault("protocol", request, "no result object")
        return result
