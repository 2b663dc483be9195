"""How hard a task of the plain language is: how many of the useful rules its shopper must obey at once.

A task that needs several rules is rarely solved by luck, so it separates a method that shows rules from one that
waits for a lucky success.
"""

import itertools
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from intraskill.environments.shopworld.lessons import USEFUL
from intraskill.environments.shopworld.plain.expert import RuleShopper
from intraskill.environments.shopworld.session import PARAMETERS, ShopSession
from intraskill.environments.shopworld.stock import Stock
from intraskill.environments.shopworld.task import ShopTask
from intraskill.environments.tool_calls import write_call

RULES_NEEDED = "rules"
"""The task feature: ``0`` to ``4``, or `NOT_BY_RULES`."""
NOT_BY_RULES = "none"
_SUBSETS = [frozenset(rules) for size in range(len(USEFUL) + 1) for rules in itertools.combinations(USEFUL, size)]


def play(shop: Stock, task_id: str, rules: AbstractSet[str]) -> tuple[list[str], Mapping[str, float]]:
    """Return the arguments and reward parts of the shopper that obeys ``rules`` on one task."""
    session = ShopSession(shop)
    opening = session.reset(task_id)
    shopper, state, arguments = RuleShopper(opening, rules), dict(opening.state), []
    while True:
        call = shopper.act(state)
        arguments.append(call.argument)
        outcome = session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
        if outcome.done:
            return arguments, outcome.parts
        state = dict(outcome.state)


def with_rules_needed(shop: Stock, task: ShopTask) -> ShopTask:
    """Return the task with the size of the smallest set of useful rules that wins it, found by playing every set."""
    wins = (str(len(rules)) for rules in _SUBSETS if play(shop, task.id, rules)[1]["r_success"] >= 1.0)
    return replace(task, features={**task.features, RULES_NEEDED: next(wins, NOT_BY_RULES)})
