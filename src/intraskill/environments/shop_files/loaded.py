"""What a loader returns, and the ledger that loses no row: each one loads or is listed with its reason."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from intraskill.environments.leaks import ProductIds
from intraskill.environments.persona import persona_text, without_identifiers
from intraskill.environments.shop_files.fields import UnusableError
from intraskill.environments.shopworld.catalogue import Catalogue, Product
from intraskill.environments.shopworld.proof import closest
from intraskill.environments.shopworld.reward import Goal, matches, normalize
from intraskill.environments.shopworld.stock import SCORERS
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.errors import ConfigError, counted, offenders


@dataclass(frozen=True, slots=True)
class Excluded:
    """Something of the file that did not load.

    Attributes:
        what: ``row`` (a product and all its tasks) or ``task`` (one instruction; its product stays in the catalogue).
        id: the product id or the task id; ``row 17`` where the row has none (counted from 1).
        reason: why.
    """

    what: Literal["row", "task"]
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A user's files as a shop's parts.

    Attributes:
        catalogue: every product that loaded.
        tasks: every task that loaded; ``split`` is ``test`` for what the file tags as evaluation, else ``train``,
            until a factory assigns the project's splits.
        excluded: everything that did not load.
        notes: what was read with a rule that changes nothing silently: one line each, with count and first ids.
    """

    catalogue: Catalogue
    tasks: tuple[ShopTask, ...]
    excluded: tuple[Excluded, ...]
    notes: tuple[str, ...]


class RowLedger:
    """Collects products, tasks, exclusions and notes while a file is read.

    Args:
        ids: every product id of the file, whether its product loads or not: no task may show one.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = ProductIds(ids)
        self.products: dict[str, Product] = {}
        self.tasks: list[ShopTask] = []
        self.excluded: list[Excluded] = []
        self._notes: dict[str, list[str]] = defaultdict(list)

    def exclude(self, what: Literal["row", "task"], name: str, reason: object) -> None:
        """List something that did not load."""
        self.excluded.append(Excluded(what, name, str(reason)))

    def note(self, text: str, name: str) -> None:
        """Remember that a rule was applied to one product or task."""
        self._notes[text].append(name)

    def public_persona(self, value: object, name: str) -> str | None:
        """Return a persona as text, without identifier fields and product ids; each removal is noted."""
        kept, names = without_identifiers(value)
        if names:
            self.note("identifier fields of the persona were dropped", name)
        text = persona_text(kept)
        if text is None or (public := self._ids.removed(text)) == text:
            return text
        self.note("product ids were taken out of the persona", name)
        return persona_text(public)

    def require_unnamed(self, request: str) -> None:
        """Refuse a request that holds a product id.

        Raises:
            UnusableError: when it does.
        """
        if self._ids.within(request):
            raise UnusableError("the request holds a product id")

    def check_gold(self, reward: str) -> None:
        """Note every task that even its own product cannot fulfil; the task stays, as in the published benchmark."""
        for task in self.tasks:
            product, goal = self.products[task.goal.product_id], task.goal
            chosen = {
                axis: closest([option.value for option in values], goal.options.get(axis))
                for axis, values in product.axes.items()
            }
            parts = SCORERS[reward](product, chosen, goal)
            if parts["r_success"] < 1:
                missed = [name for name in ("r_type", "r_att", "r_option", "r_price") if parts[name] < 1]
                self.note(f"buying the gold product misses {', '.join(missed)}", task.id)

    def close(self, path: str | Path) -> Loaded:
        """Return the record.

        Raises:
            ConfigError: when no task is left, with the most frequent reasons.
        """
        if not self.tasks:
            reasons: dict[str, list[str]] = defaultdict(list)
            for item in self.excluded:
                reasons[item.reason].append(item.id)
            worst = sorted(reasons, key=lambda reason: -len(reasons[reason]))[:3]
            why = (
                "; ".join(f"{reason} ({offenders(reasons[reason])})" for reason in worst) or "no row has an instruction"
            )
            raise ConfigError(f"{path} holds {counted(len(self.products), 'usable product')} and no usable task: {why}")
        notes = tuple(f"{text}, {offenders(names)}" for text, names in self._notes.items())
        return Loaded(Catalogue(self.products.values()), tuple(self.tasks), tuple(self.excluded), notes)


def goal_options(wanted: Iterable[str], product: Product) -> Mapping[str, str]:
    """Return axis → wanted value: each value stands on the axis of the product that offers it.

    A value that several axes offer takes the first one still free; one that no axis offers keeps a name of its own,
    so that it still counts in |O|.
    """
    found: dict[str, str] = {}
    for number, value in enumerate(wanted, start=1):
        axis = _axis_of(value, product, found)
        if axis is None and (tail := value.replace("：", ":").rpartition(":")[2].strip()) != value:
            axis = _axis_of(tail, product, found)
            value = tail if axis else value
        found[axis or f"wanted {number}"] = value
    return found


def _axis_of(value: str, product: Product, taken: Mapping[str, str]) -> str | None:
    free = {axis: [option.value for option in values] for axis, values in product.axes.items() if axis not in taken}
    for axis, values in free.items():
        if any(normalize(own) == normalize(value) for own in values):
            return axis
    return next((axis for axis, values in free.items() if any(matches(own, value) for own in values)), None)


def goal_of(product: Product, attributes: tuple[str, ...], options: Mapping[str, str], budget: float | None) -> Goal:
    """Return the private target whose gold product is ``product``.

    Raises:
        UnusableError: when no attribute is wanted.
    """
    if not attributes:
        raise UnusableError("every goal attribute is blank")
    gold = product.id, product.title, product.category
    return Goal(attributes, options, budget, *gold, budget_stated=budget is not None, query=product.query)


def features_of(product: Product, goal: Goal, persona: bool) -> dict[str, str]:
    """Return the public slice attributes of a task."""
    return {
        "domain": product.category[0] if product.category else "unknown",
        "axes": str(len(goal.options)),
        "budget": "none" if goal.budget is None else "stated",
        "persona": str(persona),
    }
