"""Rules that concern what is shown: states are JSON, and neither states nor texts hold an answer."""

import json
from collections.abc import Mapping
from typing import Any

from intraskill.environments.contract.play import listed_actions
from intraskill.environments.contract.rule import Broken, Complaints, ContractProbe, Rule
from intraskill.environments.leaks import leaks
from intraskill.environments.protocol import boundary
from intraskill.environments.shopworld.search import tokenize
from intraskill.environments.shopworld.world import Shop

_SHORT_TITLE = 2
"""Words (or Han bigrams) of a title that is no secret."""


def _json_state(probe: ContractProbe) -> Complaints:
    for trace in probe.traces:
        for number, state in enumerate(trace.states):
            where = f"task {trace.task_id}, state after action {number}"
            with boundary("not JSON") as crossing:
                same = json.loads(json.dumps(state, allow_nan=False)) == state
            if crossing.fault or not same:
                yield Broken(
                    where, crossing.fault or "reads back from JSON as something else (a tuple, or a key not text)"
                )


def _private_state(probe: ContractProbe) -> Complaints:
    for trace in probe.traces:
        for number, state in enumerate(trace.states):
            found = leaks(state)
            if found:
                yield Broken(f"task {trace.task_id}, state after action {number}", f"holds {found[0]}")


def _private_text(probe: ContractProbe) -> Complaints:
    for trace in probe.traces:
        hidden = _hidden(probe, trace.task_id)
        opening = {"instruction": trace.opening.instruction, "persona": trace.opening.persona}
        pages = [trace.opening.observation, *(outcome.observation for outcome in trace.outcomes)]
        shown: list[Any] = [opening, *pages]
        for number, text in enumerate(shown):
            state = trace.states[max(0, number - 1)]
            secrets = [secret for secret in hidden if number == 0 or not _named(secret, state)]
            if found := leaks(text, secrets, trace.actions[: max(0, number - 1)]):
                where = "request" if number == 0 else f"page after action {number - 1}"
                yield Broken(f"task {trace.task_id}, {where}", f"shows {found[0]}")


def _hidden(probe: ContractProbe, task_id: str) -> list[str]:
    """Return what no text of a task may show; only a shop of this process says what that is.

    The gold product's id and title, before a page lists them, and the full instruction behind a short request. A title
    of a word or two is no secret: it is what everybody calls such a product.
    """
    if not isinstance(probe.environment, Shop):
        return []
    task = probe.environment.shop_task(task_id)
    title = [task.goal.title] if len(tokenize(task.goal.title)) > _SHORT_TITLE else []
    return [task.goal.product_id, *title, *([] if task.instruction in task.request else [task.instruction])]


def _named(secret: str, state: Mapping[str, Any]) -> bool:
    """The public state itself offers the secret: it was found by searching."""
    listed = [*state.get("products", ()), state.get("product", {})]
    return secret in listed_actions(state) or any(
        secret == row.get("id") or secret in row.get("title", "") for row in listed
    )


RULES = (
    Rule(
        "json_state",
        "a public state is plain JSON and reads back as itself",
        "use dicts with text keys, lists, texts, finite numbers, booleans and None",
        _json_state,
        ("opening",),
    ),
    Rule(
        "private_state",
        "no public state has a key of an answer: goal, target, reward, …",
        "keep answers in the session, outside the state",
        _private_state,
        ("opening",),
    ),
    Rule(
        "private_text",
        "no request and no page names a private field; a shop's never give its wanted product or full instruction away",
        "render pages from the public state only",
        _private_text,
        ("opening", "private_state"),
    ),
)
