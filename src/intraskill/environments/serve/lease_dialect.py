"""The served dialect ``shopsim-lease``: one route, four actions, every reply in ``result``."""

from collections.abc import Mapping
from typing import Any

from intraskill.environments.protocol import Outcome
from intraskill.environments.remote.wire import (
    BAD_REQUEST,
    HEALTH_ROUTE,
    MANIFEST_ROUTE,
    PURCHASE,
    SHOP_ROUTE,
    STALE_LEASE,
    TERMINATION_REASONS,
)
from intraskill.environments.serve.desk import Lease, is_number
from intraskill.environments.serve.programme import Programme, state_now
from intraskill.environments.serve.refusal import NOT_FOUND, Refusal
from intraskill.environments.shopworld.world import CONTRACT

Body = Mapping[str, Any]


class LeaseDialect:
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
        raise Refusal(NOT_FOUND, f"there is no {route}")

    def post(self, route: str, body: Body) -> Any:
        """Answer a POST.

        Raises:
            Refusal: 404 for an unknown route, 400 for a malformed request, 409 for a lease that is not held.
        """
        if route != SHOP_ROUTE:
            raise Refusal(NOT_FOUND, f"there is no {route}")
        action = self._actions.get(str(body.get("action")))
        if action is None:
            raise Refusal(BAD_REQUEST, f"unknown action {body.get('action')!r}; use {', '.join(self._actions)}")
        return {"result": action(body)}

    def error(self, message: str) -> Any:
        """Return the JSON of a failure."""
        return {"result": {"error": message}}

    def _reset(self, body: Body) -> dict[str, Any]:
        if body.get("include_private_goal"):
            raise Refusal(BAD_REQUEST, "this server never sends goals; leave include_private_goal out, or false")
        if body.get("interaction_mode", "single_turn") != "single_turn":
            raise Refusal(BAD_REQUEST, f"interaction_mode {body['interaction_mode']!r} is not served; use single_turn")
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
            raise Refusal(BAD_REQUEST, f"unknown termination_reason {reason!r}; use {', '.join(TERMINATION_REASONS)}")
        lease = self._held(body)
        with lease.lock:
            return _step_reply(lease, self._programme.end(lease, reason), {})

    def _release(self, body: Body) -> dict[str, Any]:
        lease = self._held(body)
        if not self._programme.desk.release(lease):
            raise Refusal(STALE_LEASE, f"slot {lease.env_idx} was released meanwhile")
        return {"message": f"slot {lease.env_idx} is free"}

    def _held(self, body: Body) -> Lease:
        env_idx, lease_id = body.get("env_idx"), body.get("lease_id")
        if not is_number(env_idx) or not isinstance(lease_id, str):
            raise Refusal(BAD_REQUEST, f"env_idx must be a number and lease_id a text, got {env_idx!r}, {lease_id!r}")
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
