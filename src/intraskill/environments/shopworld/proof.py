"""The proof that a world is fair: every task can be solved, its product can be found, and no text gives it away."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from intraskill.environments.shopworld.catalogue import Catalogue
from intraskill.environments.shopworld.reward import Goal, matches, normalize
from intraskill.environments.shopworld.search import SearchIndex
from intraskill.environments.shopworld.session import PARAMETERS, ShopSession
from intraskill.environments.shopworld.stock import Stock
from intraskill.environments.shopworld.strings import STRINGS, Strings
from intraskill.environments.shopworld.task import ShopTask
from intraskill.environments.tool_calls import ToolCall, write_call
from intraskill.method.errors import EnvironmentFault, offenders
from intraskill.method.tasks import SPLITS


class Oracle:
    """Buys the gold product; proves at build time that a task can be solved."""

    def __init__(self, goal: Goal, words: Strings = STRINGS["plain"]) -> None:
        self._goal, self._words = goal, words
        self.query = f"{goal.title} {' '.join(goal.attributes)}"

    def act(self, state: dict[str, Any]) -> ToolCall:
        """Return the next call."""
        if state["page_type"] == "search_home":
            return ToolCall("search", self.query)
        if state["page_type"] == "search_results":
            shown = self._goal.product_id in state["actions"]
            return ToolCall("click", self._goal.product_id if shown else self._words.next)
        for axis in state["missing_option_axes"]:
            value = closest(state["available_options"][axis], self._goal.options.get(axis))
            return ToolCall("click", f"{axis}={value}")
        return ToolCall("click", self._words.buy)


def closest(offered: Sequence[str], wanted: str | None) -> str:
    """Return the offered value to choose for a wanted one: the same, else one that scores as it, else the first."""
    if wanted is None:
        return offered[0]
    return wanted if wanted in offered else next((value for value in offered if matches(value, wanted)), offered[0])


FOUND_WITHIN = 150
ORACLE_ACTIONS = 8


@dataclass(frozen=True, slots=True)
class Proof:
    """What was checked, and how close the worst task came.

    Attributes:
        tasks: tasks played by the oracle, all of them to full success.
        products: products in the catalogue.
        most_actions: actions of the longest of those episodes.
        mean_actions: their mean.
        deepest_rank: worst rank of a gold product for its full instruction.
        users: different users.
    """

    tasks: int
    products: int
    most_actions: int
    mean_actions: float
    deepest_rank: int
    users: int


def flaws_of(task: ShopTask, catalogue: Catalogue, index: SearchIndex) -> Iterator[str]:
    """Yield what is unfair about a task; a fair one yields nothing. That it can be solved is for an oracle to show."""
    gold = catalogue.by_id[task.goal.product_id]
    texts = normalize(f"{task.instruction}\n{task.request}\n{task.persona or ''}")
    if normalize(gold.id) in texts:
        yield "a text holds its product id"
    if normalize(gold.title) in texts:
        yield "a text holds its whole title"
    if gold.id not in index.search(task.instruction, FOUND_WITHIN):
        yield f"its product is not among the first {FOUND_WITHIN} results of its instruction"


def prove(shop: Stock) -> Proof:
    """Check every task of a shop and play it with an oracle.

    Raises:
        EnvironmentFault: for tasks that fail a check or that the oracle cannot solve, naming the first three.
    """
    tasks = [shop.shop_task(task.id) for split in SPLITS for task in shop.tasks(split)]
    flawed = [f"{task.id} ({flaw})" for task in tasks for flaw in flaws_of(task, shop.catalogue, shop.index)]
    if flawed:
        raise EnvironmentFault(f"this world has unfair tasks, {offenders(flawed)}; generate it again or drop them")
    actions = {task.id: oracle_actions(shop, task.id) for task in tasks}
    unsolved = [task_id for task_id, taken in actions.items() if taken is None]
    if unsolved:
        raise EnvironmentFault(
            f"tasks that an oracle cannot solve within {ORACLE_ACTIONS} actions, {offenders(unsolved)}; drop them"
        )
    taken = [count for count in actions.values() if count is not None]
    ranks = [shop.index.search(t.instruction, FOUND_WITHIN).index(t.goal.product_id) + 1 for t in tasks]
    return Proof(
        tasks=len(tasks),
        products=len(shop.catalogue.products),
        most_actions=max(taken, default=0),
        mean_actions=sum(taken) / max(1, len(taken)),
        deepest_rank=max(ranks, default=0),
        users=len({task.user for task in tasks}),
    )


def oracle_actions(shop: Stock, task_id: str) -> int | None:
    """Return how many actions an oracle takes to full success; ``None`` when 8 are not enough."""
    session, oracle = ShopSession(shop), Oracle(shop.shop_task(task_id).goal, shop.strings)
    session.reset(task_id)
    for taken in range(1, ORACLE_ACTIONS + 1):
        call = oracle.act(session.state)
        outcome = session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
        if outcome.done:
            return taken if outcome.parts["r_success"] == 1.0 else None
    return None
