"""The served dialects: what each route answers, in the words of the shop that it stands for."""

from collections.abc import Mapping, Sequence
from typing import Any

from intraskill.environments.protocol import Outcome
from intraskill.environments.remote.wire import (
    BAD_REQUEST,
    HEALTH_ROUTE,
    INSTRUCTION_LABEL,
    MANIFEST_ROUTE,
    PURCHASE,
    SEP,
    SHOP_LABEL,
    SHOP_ROUTE,
    STALE_LEASE,
    TERMINATION_REASONS,
)
from intraskill.environments.serve.desk import NOT_FOUND, Lease, Programme, RequestRefusal, is_number, state_now
from intraskill.environments.shopworld.render import render
from intraskill.environments.shopworld.stock import CONTRACT

Body = Mapping[str, Any]
_FOOTER_PARTS = 2
MOST_DIGITS = 18


class ServedAgentGym:
    """Answers requests; see `intraskill.environments.remote.wire`."""

    def __init__(self, programme: Programme) -> None:
        self._programme = programme
        self._gets = {
            "/observation": self._page,
            "/instruction_text": _instruction,
            "/available_actions": _buttons,
        }

    def get(self, route: str, query: Mapping[str, str]) -> Any:
        """Answer a GET.

        Raises:
            Refusal: 404 for an unknown route or slot, 400 before its first reset.
        """
        if route == "/":
            return "ok"
        if route == HEALTH_ROUTE:
            return self._programme.health()
        if route == MANIFEST_ROUTE:
            return self._programme.manifest()
        if route not in self._gets:
            raise RequestRefusal(NOT_FOUND, f"there is no {route}")
        return self._gets[route](self._slot(_number(query.get("env_idx", ""))))

    def post(self, route: str, body: Body) -> Any:
        """Answer a POST.

        Raises:
            Refusal: 404 for an unknown route or slot, 400 for a malformed request.
        """
        desk = self._programme.desk
        if route == "/create":
            return desk.take().env_idx
        if route == "/close":
            return {"closed": desk.release(self._slot(body.get("env_idx")))}
        if route not in ("/reset", "/step"):
            raise RequestRefusal(NOT_FOUND, f"there is no {route}")
        lease = self._slot(body.get("env_idx"))
        with lease.lock:
            return self._reset(lease, body) if route == "/reset" else self._step(lease, body)

    def error(self, message: str) -> Any:
        """Return the JSON of a failure."""
        return {"error": message}

    def _slot(self, env_idx: object) -> Lease:
        if isinstance(env_idx, bool | float):
            raise RequestRefusal(BAD_REQUEST, f"env_idx must be a whole number, got {env_idx!r}")
        lease = self._programme.desk.find(env_idx)
        if lease is None:
            raise RequestRefusal(NOT_FOUND, f"there is no environment {env_idx!r}; create one")
        return lease

    def _reset(self, lease: Lease, body: Body) -> list[Any]:
        self._programme.begin(lease, self._programme.number(_number(body.get("session_id"))))
        return [self._page(lease), None]

    def _step(self, lease: Lease, body: Body) -> dict[str, Any]:
        text = body.get("action")
        if not isinstance(text, str):
            raise RequestRefusal(BAD_REQUEST, "action must be a text such as click[buy now]")
        outcome = self._programme.act(lease, spelled(text, state_now(lease)["actions"]))
        raw = outcome.parts["r_loose"] if outcome.done else 0.0
        return {"state": self._page(lease), "reward": raw, "done": outcome.done, "info": None}

    def _page(self, lease: Lease) -> str:
        text = render(state_now(lease), "sep", self._programme.shop.settings.language)
        assert lease.opening is not None
        return SEP.join([SHOP_LABEL, INSTRUCTION_LABEL, lease.opening.instruction, text.rsplit(SEP, _FOOTER_PARTS)[0]])


def _number(value: object) -> object:
    """Return the number that a text writes, and anything else as it is."""
    short = isinstance(value, str) and value.isdecimal() and len(value) <= MOST_DIGITS
    return int(str(value)) if short else value


def _instruction(lease: Lease) -> str:
    if lease.opening is None:
        raise RequestRefusal(BAD_REQUEST, f"environment {lease.env_idx} was not reset yet")
    return lease.opening.request


def _buttons(lease: Lease) -> dict[str, Any]:
    state = state_now(lease)
    return {"has_search_bar": state["search_available"], "clickables": state["actions"]}


def spelled(text: str, actions: Sequence[str]) -> str:
    """Return a click in the page's own spelling: WebShop's agents write ``Buy Now``, and ``red`` for ``color=red``."""
    if not (text.startswith("click[") and text.endswith("]")) or text[6:-1] in actions:
        return text
    wanted = text[6:-1].strip().casefold()
    same = [action for action in actions if wanted in (action.casefold(), action.partition("=")[2].casefold())]
    return f"click[{same[0]}]" if len(same) == 1 else text


class ServedLease:
    """Answers requests; see `intraskill.environments.remote.wire`."""

    def __init__(self, programme: Programme) -> None:
        self._programme = programme
        self._actions = {
            "reset": self._reset,
            "interact": self._interact,
            "terminate": self._terminate,
            "release_one": self._release,
        }

    def get(self, route: str, query: Mapping[str, str]) -> Any:
        """Answer a GET.

        Raises:
            Refusal: 404, for an unknown route.
        """
        if route == HEALTH_ROUTE:
            return self._programme.health()
        if route == MANIFEST_ROUTE:
            return self._programme.manifest()
        raise RequestRefusal(NOT_FOUND, f"there is no {route}")

    def post(self, route: str, body: Body) -> Any:
        """Answer a POST.

        Raises:
            Refusal: 404 for an unknown route, 400 for a malformed request, 409 for a lease that is not held.
        """
        if route != SHOP_ROUTE:
            raise RequestRefusal(NOT_FOUND, f"there is no {route}")
        action = self._actions.get(str(body.get("action")))
        if action is None:
            raise RequestRefusal(BAD_REQUEST, f"unknown action {body.get('action')!r}; use {', '.join(self._actions)}")
        return {"result": action(body)}

    def error(self, message: str) -> Any:
        """Return the JSON of a failure."""
        return {"result": {"error": message}}

    def _reset(self, body: Body) -> dict[str, Any]:
        if body.get("include_private_goal"):
            raise RequestRefusal(BAD_REQUEST, "this server never sends goals; leave include_private_goal out, or false")
        if body.get("interaction_mode", "single_turn") != "single_turn":
            raise RequestRefusal(
                BAD_REQUEST, f"interaction_mode {body['interaction_mode']!r} is not served; use single_turn"
            )
        programme, idx = self._programme, self._programme.number(body.get("idx"))
        lease, begun = programme.desk.take(), False
        try:
            opening = programme.begin(lease, idx)
            begun = True
        finally:
            if not begun:
                programme.desk.release(lease)
        task = programme.shop.shop_task(programme.tasks[idx].id)
        personal = body.get("if_persona", True)
        return {
            "env_idx": lease.env_idx,
            "lease_id": lease.lease_id,
            "idx": idx,
            "task_instruction": opening.instruction if personal else task.instruction,
            "user_persona": opening.persona if personal else None,
            "observation": opening.observation,
            "observation_state": opening.state,
            "tools": list(programme.shop.tools),
            "environment_version": programme.shop.version,
            "observation_version": CONTRACT,
        }

    def _interact(self, body: Body) -> dict[str, Any]:
        lease = self._held(body)
        with lease.lock:
            before = state_now(lease)
            return _step_reply(lease, self._programme.act(lease, body.get("response")), before)

    def _terminate(self, body: Body) -> dict[str, Any]:
        reason = body.get("termination_reason")
        if reason not in TERMINATION_REASONS:
            raise RequestRefusal(
                BAD_REQUEST, f"unknown termination_reason {reason!r}; use {', '.join(TERMINATION_REASONS)}"
            )
        lease = self._held(body)
        with lease.lock:
            return _step_reply(lease, self._programme.end(lease, reason), {})

    def _release(self, body: Body) -> dict[str, Any]:
        lease = self._held(body)
        if not self._programme.desk.release(lease):
            raise RequestRefusal(STALE_LEASE, f"slot {lease.env_idx} was released meanwhile")
        return {"message": f"slot {lease.env_idx} is free"}

    def _held(self, body: Body) -> Lease:
        env_idx, lease_id = body.get("env_idx"), body.get("lease_id")
        if not is_number(env_idx) or not isinstance(lease_id, str):
            raise RequestRefusal(
                BAD_REQUEST, f"env_idx must be a number and lease_id a text, got {env_idx!r}, {lease_id!r}"
            )
        return self._programme.desk.held(env_idx, lease_id)


def _step_reply(lease: Lease, outcome: Outcome, before: Mapping[str, Any]) -> dict[str, Any]:
    reply = {
        "env_idx": lease.env_idx,
        "lease_id": lease.lease_id,
        "observation": outcome.observation,
        "observation_state": outcome.state,
        "reward": outcome.reward,
        "done": outcome.done,
        "over": outcome.done,
        "reward_detail": dict(outcome.parts),
        "purchase": {},
    }
    if outcome.state["last_action"]:
        reply["action_feedback"] = outcome.state["last_action"]
    if outcome.done:
        reply["termination_reason"] = outcome.termination
    if outcome.termination == PURCHASE:
        price, options = before["selected_price"], before["selected_options"]
        reply["purchase"] = {"asin": before["product"]["id"], "options": options, "price": price}
    return reply
