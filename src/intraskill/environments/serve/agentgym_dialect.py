"""The served dialect ``webshop-agentgym``: page texts, a list of buttons, one raw reward."""

from collections.abc import Mapping, Sequence
from typing import Any

from intraskill.environments.remote.wire import (
    BAD_REQUEST,
    HEALTH_ROUTE,
    INSTRUCTION_LABEL,
    MANIFEST_ROUTE,
    SEP,
    SHOP_LABEL,
)
from intraskill.environments.serve.desk import Lease
from intraskill.environments.serve.programme import Programme, state_now
from intraskill.environments.serve.refusal import NOT_FOUND, Refusal
from intraskill.environments.shopworld.render import render

Body = Mapping[str, Any]
FOOTER_PARTS = 2
MOST_DIGITS = 18


class AgentGymDialect:
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
            raise Refusal(NOT_FOUND, f"there is no {route}")
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
            raise Refusal(NOT_FOUND, f"there is no {route}")
        lease = self._slot(body.get("env_idx"))
        with lease.lock:
            return self._reset(lease, body) if route == "/reset" else self._step(lease, body)

    def error(self, message: str) -> Any:
        """Return the JSON of a failure."""
        return {"error": message}

    def _slot(self, env_idx: object) -> Lease:
        if isinstance(env_idx, bool | float):
            raise Refusal(BAD_REQUEST, f"env_idx must be a whole number, got {env_idx!r}")
        lease = self._programme.desk.find(env_idx)
        if lease is None:
            raise Refusal(NOT_FOUND, f"there is no environment {env_idx!r}; create one")
        return lease

    def _reset(self, lease: Lease, body: Body) -> list[Any]:
        self._programme.begin(lease, self._programme.number(_number(body.get("session_id"))))
        return [self._page(lease), None]

    def _step(self, lease: Lease, body: Body) -> dict[str, Any]:
        text = body.get("action")
        if not isinstance(text, str):
            raise Refusal(BAD_REQUEST, "action must be a text such as click[buy now]")
        outcome = self._programme.act(lease, spelled(text, state_now(lease)["actions"]))
        raw = outcome.parts["r_loose"] if outcome.done else 0.0
        return {"state": self._page(lease), "reward": raw, "done": outcome.done, "info": None}

    def _page(self, lease: Lease) -> str:
        text = render(state_now(lease), "sep", self._programme.shop.settings.language)
        assert lease.opening is not None
        return SEP.join([SHOP_LABEL, INSTRUCTION_LABEL, lease.opening.instruction, text.rsplit(SEP, FOOTER_PARTS)[0]])


def _number(value: object) -> object:
    """Return the number that a text writes, and anything else as it is."""
    short = isinstance(value, str) and value.isdecimal() and len(value) <= MOST_DIGITS
    return int(str(value)) if short else value


def _instruction(lease: Lease) -> str:
    if lease.opening is None:
        raise Refusal(BAD_REQUEST, f"environment {lease.env_idx} was not reset yet")
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
