"""Rollouts for tests: hand-written turns, and episodes of the scripted shopper in a real `ShopWorld`."""

from collections.abc import Iterable

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.plain.expert import RuleShopper
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import write_call
from intraskill.method.rollouts import Rollout, Turn
from intraskill.method.skill.skill import BARE

SOLVED = {"r_att": 1.0, "r_option": 1.0, "r_price": 1.0, "r_type": 1.0, "r_success": 1.0}


def failed(**parts: float) -> dict[str, float]:
    return SOLVED | {"r_success": 0.0} | parts


def rollout(request, turns, parts, *, visible=BARE, task_id="t1", sample=0):
    return Rollout(
        task_id=task_id,
        visible=visible,
        checkpoint="weights",
        sample=sample,
        prompt_ids=(),
        token_ids=(),
        loss_mask=(),
        logprobs=(),
        reward=parts["r_success"],
        parts=parts,
        request=request,
        turns=tuple(turns),
    )


def product(product_id, brand, attributes, noun="jacket", price=30.0, rank=1):
    title = " ".join([brand, *attributes, noun])
    row = {
        "id": product_id,
        "title": title,
        "brand": brand,
        "category": ["clothing", "outerwear", noun],
        "price": price,
    }
    return row | {"key_attributes": list(attributes), "rank": rank}


def search(query, feedback="executed"):
    return Turn("search_home", "…", "search", query, feedback, {"page_type": "search_home"})


def open_result(product_id, rows):
    state = {"page_type": "search_results", "products": rows}
    return Turn("search_results", "…", "click", product_id, "executed", state)


def on_product(argument, row, available, selected, feedback="executed"):
    state = {
        "page_type": "product_detail",
        "product": row,
        "available_options": available,
        "selected_options": selected,
        "missing_option_axes": [axis for axis in available if axis not in selected],
        "selected_price": row["price"],
    }
    return Turn("product_detail", "…", "click", argument, feedback, state)


def play(world: ShopWorld, task_id: str, rules: Iterable[str], *, sample: int = 0, visible=BARE) -> Rollout:
    """Run the scripted shopper, which obeys exactly ``rules``, and log it the way the rollout engine does."""
    session = world.open()
    opening = session.reset(task_id)
    shopper, state, turns = RuleShopper(opening, set(rules)), dict(opening.state), []
    for _ in range(12):
        call = shopper.act(state)
        action = write_call(call.name, PARAMETERS[call.name], call.argument)
        outcome = session.step(action)
        turns.append(Turn(state["page_type"], action, outcome.tool, outcome.argument, outcome.feedback, state))
        state = dict(outcome.state)
        if outcome.done:
            break
    else:
        outcome = session.terminate("action_limit")
    return rollout(opening.request, turns, dict(outcome.parts), visible=visible, task_id=task_id, sample=sample)
