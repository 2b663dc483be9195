"""The dialect ``shopsim-lease``: the server's states and rewards pass through, its identity is checked each time."""

from collections.abc import Mapping
from typing import Any

from intraskill.environments.leaks import is_private_key
from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.remote.episode import (
    ROUNDING,
    VERSIONED,
    RemoteEpisode,
    ServerIdentity,
    folded,
    last_action,
    persona_text,
    require_public,
    require_task,
    require_unnamed,
    require_version,
    unit,
    with_notice,
)
from intraskill.environments.remote.transport import RemoteFault, RemoteSettings, Request, Transport
from intraskill.environments.remote.wire import HEALTH_ROUTE, PURCHASE, SHOP_ROUTE
from intraskill.environments.shopworld.reward import REWARD_PARTS
from intraskill.environments.tool_calls import ToolCall
from intraskill.method.gate.pairs import MAIN_PART

REWARDS = ("reward", "reward_detail")
"""Private keys that every reply has beside the page; any other one may stand there only once the episode is over."""


def identity_of(health: object, transport: Transport, language: str) -> ServerIdentity:
    """Read a reply of ``GET /healthz``.

    Raises:
        RemoteFault: ``protocol``, for a reply without versions; ``server``, for one that is not ready.
        ConfigError: when it states another dialect.
    """
    request = Request(HEALTH_ROUTE)
    if isinstance(health, Mapping):
        transport.require_dialect(health.get("dialect"))
    versions = [health.get(f"{what}_version") if isinstance(health, Mapping) else None for what in VERSIONED]
    if not isinstance(health, Mapping) or not all(isinstance(version, str) and version for version in versions):
        raise transport.fault("protocol", request, "no environment_version and observation_version")
    if health.get("ready") is False:
        raise transport.fault("server", request, "it says that it is not ready")
    counts = [health.get(name) for name in ("tasks", "environment_slots")]
    tasks, slots = (int(count) if isinstance(count, int) else None for count in counts)
    return ServerIdentity(str(versions[0]), str(versions[1]), tasks, slots, str(health.get("language", language)))


class LeaseDialect:
    """One server with leases; see `intraskill.environments.remote.episode.Dialect`."""

    profile = "as-served"
    reward_parts = REWARD_PARTS

    def __init__(self, transport: Transport, settings: RemoteSettings, persona: bool) -> None:
        self._transport, self._settings, self._persona = transport, settings, persona

    def identify(self) -> ServerIdentity:
        """Ask ``/healthz``."""
        return identity_of(self._transport.send(Request(HEALTH_ROUTE)), self._transport, "zh")

    def episode(self, identity: ServerIdentity) -> RemoteEpisode:
        """Return an episode that holds no lease yet."""
        return _LeaseEpisode(self._transport, self._settings, identity, self._persona)


class _LeaseEpisode:
    def __init__(self, transport: Transport, settings: RemoteSettings, identity: ServerIdentity, persona: bool) -> None:
        self._transport, self._identity, self._persona = transport, identity, persona
        self._where = f"shopsim-lease at {settings.url}"
        self._language = settings.language or identity.language
        self._lease: dict[str, Any] | None = None
        self._page = ""
        self._asked = ""
        self._state: dict[str, Any] = {}
        self._said: list[str] = []

    def reset(self, idx: int) -> Opening:
        ask = {"idx": idx, "if_persona": self._persona, "include_private_goal": False}
        reply = self._call("reset", ask | {"interaction_mode": "single_turn"}, is_reset=True)
        env_idx, lease_id = reply.get("env_idx"), reply.get("lease_id")
        if not isinstance(env_idx, int) or not lease_id:
            raise RemoteFault("protocol", f"{self._where}: a reset gave no env_idx and lease_id; is it a lease server?")
        self._lease = {"env_idx": env_idx, "lease_id": lease_id}
        self._check_versions(reply)
        require_task(reply, idx, self._where)
        instruction = reply.get("task_instruction")
        if not isinstance(instruction, str) or not instruction.strip():
            raise RemoteFault("protocol", f"{self._where}: the reset of idx {idx} gave no task_instruction")
        require_public(reply.get("user_persona"), f"{self._where}: the persona of idx {idx}")
        persona = persona_text(reply.get("user_persona")) if self._persona else None
        self._asked = f"{instruction}\n{persona}"
        self._keep(reply, over=False)
        self._page = reply["observation"]
        return Opening(instruction, persona, self._page, self._state)

    def act(self, call: ToolCall) -> Outcome:
        self._said.append(call.argument)
        reply = self._call("interact", self._held() | {"response": f"{call.name}[{folded(call.argument)}]"})
        done = reply.get("done")
        if not isinstance(done, bool):
            raise RemoteFault("protocol", f"{self._where}: a reply without done")
        self._keep(reply, over=done)
        feedback = _feedback(reply, self._state)
        if feedback == "executed":
            self._page = reply["observation"]
        parts: dict[str, float] = {}
        ending = ""
        if done:
            parts = _parts(reply, self._where)
            ending = str(reply.get("termination_reason") or PURCHASE)
        shown = reply["observation"]
        reward = parts.get(MAIN_PART, 0.0)
        return Outcome(shown, self._state, feedback, call.name, call.argument, done, reward, parts, ending)

    def refuse(self, code: str) -> Outcome:
        self._state = self._state | {"last_action": last_action("", code, self._language)}
        shown = with_notice(code, self._page, self._language)
        return Outcome(shown, self._state, code, "", "", False)

    def terminate(self, reason: str) -> Outcome:
        reply = self._call("terminate", self._held() | {"termination_reason": reason})
        self._keep(reply, over=True)
        return Outcome("", self._state, "executed", "", "", True, 0.0, dict.fromkeys(REWARD_PARTS, 0.0), reason)

    def release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._call("release_one", lease)

    def _held(self) -> dict[str, Any]:
        if self._lease is None:
            raise RemoteFault("stale_lease", f"{self._where}: this episode holds no lease any more; open another")
        return self._lease

    def _call(self, action: str, ask: Mapping[str, Any], *, is_reset: bool = False) -> Mapping[str, Any]:
        body, is_release = {"action": action, **ask}, action == "release_one"
        request = Request(SHOP_ROUTE, body, action, is_reset=is_reset, is_release=is_release)
        try:
            reply = self._transport.send(request)
        except RemoteFault as fault:
            if fault.kind == "stale_lease":
                self._lease = None
            raise
        result = reply.get("result") if isinstance(reply, Mapping) else None
        if not isinstance(result, Mapping):
            raise self._transport.fault("protocol", request, "no result object")
        return result

    def _check_versions(self, reply: Mapping[str, Any]) -> None:
        state = reply.get("observation_state")
        inner = state.get("observation_version") if isinstance(state, Mapping) else None
        stated = (reply.get("environment_version"), reply.get("observation_version", inner))
        known = (self._identity.environment_version, self._identity.observation_version)
        for what, now, then in zip(VERSIONED, stated, known, strict=True):
            require_version(what, now, then, self._where)

    def _keep(self, reply: Mapping[str, Any], *, over: bool) -> None:
        """Check what a reply shows, and remember its state."""
        shown, state = reply.get("observation"), reply.get("observation_state")
        if not isinstance(shown, str) or not isinstance(state, Mapping):
            raise RemoteFault("protocol", f"{self._where}: a reply without observation and observation_state")
        beside = (
            {}
            if over
            else {key: value for key, value in reply.items() if value and key not in REWARDS and is_private_key(key)}
        )
        require_public(beside, self._where)
        require_public(shown, self._where, said=self._said)
        require_public(state, self._where, said=self._said)
        require_unnamed(self._asked, state, self._where)
        self._state = {key: value for key, value in state.items() if key != "observation_version"}


def _feedback(reply: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """Return the feedback code of a reply: its own word, or that of its state."""
    noted = reply.get("action_feedback") or state.get("last_action") or {}
    if not isinstance(noted, Mapping) or noted.get("valid", True):
        return "executed"
    return str(noted.get("reason") or "unavailable_action")


def _parts(reply: Mapping[str, Any], where: str) -> dict[str, float]:
    """Return every component as the server gives it, if its reward is the one among them."""
    detail = reply.get("reward_detail")
    if not isinstance(detail, Mapping):
        raise RemoteFault("protocol", f"{where} ends an episode without reward_detail; does it speak this dialect?")
    parts = {name: unit(detail.get(name), name, where) for name in REWARD_PARTS}
    reward = unit(reply.get("reward"), "reward", where)
    if abs(reward - parts[MAIN_PART]) > ROUNDING:
        raise RemoteFault(
            "protocol",
            f"{where} gives reward={reward} and {MAIN_PART}={parts[MAIN_PART]} in reward_detail, which must be "
            "equal; is its primary_reward another one?",
        )
    return parts
