"""A shop that agents can act in: one immutable catalogue and its tasks, shared by every session.

`Shop` serves any catalogue and tasks; `ShopWorld` generates its own.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from intraskill.environments.protocol import ToolSpec
from intraskill.environments.shopworld import market, reward
from intraskill.environments.shopworld.cache import load_or_build
from intraskill.environments.shopworld.catalogue import Catalogue
from intraskill.environments.shopworld.plain import generate as plain
from intraskill.environments.shopworld.plain.difficulty import RULES_NEEDED, with_rules_needed
from intraskill.environments.shopworld.proof import oracle_actions
from intraskill.environments.shopworld.search import SearchIndex
from intraskill.environments.shopworld.session import SYSTEM, ShopSession, shop_tools
from intraskill.environments.shopworld.splits import MARKET_MOST, MARKET_SHARES, assign_splits
from intraskill.environments.shopworld.stock import Settings, Stock
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.errors import ConfigError
from intraskill.method.leakage.filter import Secrets
from intraskill.method.leakage.rules import stated_amounts
from intraskill.method.tasks import SPLITS

if TYPE_CHECKING:
    from intraskill.environments.shop_evidence.reader import ShopReader


class Shop(Stock):
    """A catalogue and its tasks behind `intraskill.environments.protocol.Environment`; see `Stock`."""

    reward_parts: Sequence[str] = reward.REWARD_PARTS
    system = SYSTEM

    def __init__(
        self, catalogue: Catalogue, tasks: Sequence[ShopTask], settings: Settings, index: SearchIndex | None = None
    ) -> None:
        super().__init__(catalogue, tasks, settings, index)
        self._solvable = lru_cache(maxsize=None)(lambda task_id: oracle_actions(self, task_id) is not None)

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The two tools, as JSON schemas."""
        return shop_tools()

    @property
    def language(self) -> str:
        """Of buttons and pages."""
        return self.settings.language

    @property
    def reader(self) -> "ShopReader":
        """Reads episodes of this shop, and recorded ones of others, for the rules proposer."""
        from intraskill.environments.shop_evidence.reader import ShopReader

        return ShopReader(self.language)

    def open(self) -> ShopSession:
        """Return a new session."""
        return ShopSession(self)

    def solvable(self, task_id: str) -> bool:
        """Return whether an oracle reaches full success within 8 actions."""
        return bool(self._solvable(task_id))

    def secrets(self) -> Secrets:
        """Return product ids and titles, task and user ids, goals and their prices, and the words of held-out tasks.

        Every split but train counts as held out. Reading texts to forbid them is no use of the test split: nothing
        here is scored or shown to a policy or a proposer.
        """
        tasks = [self.shop_task(task.id) for split in SPLITS for task in self.tasks(split)]
        held_out = [task for task in tasks if task.split != "train"]
        return Secrets(
            product_ids=tuple(product.id for product in self.catalogue.products),
            product_titles=tuple(product.title for product in self.catalogue.products),
            task_ids=tuple(name for task in tasks for name in (task.id, task.user)),
            goals=tuple(" ".join(task.goal.attributes) for task in tasks if len(task.goal.attributes) > 2),
            prices=tuple(sorted({price for task in tasks for price in self._prices(task)})),
            instructions=tuple(
                text for task in held_out for text in (task.instruction, task.request, task.persona or "")
            ),
        )

    def _prices(self, task: ShopTask) -> Iterator[float]:
        """The goal's budget as it is and as the request states it, and the price of the variant it wants."""
        yield from stated_amounts((task.instruction, task.request))
        if task.goal.budget is not None:
            yield task.goal.budget
        yield self.catalogue.by_id[task.goal.product_id].price_of(task.goal.options)


class ShopWorld(Shop):
    """A generated shop.

    Args:
        preset: ``tiny`` (120 products, 60 tasks), ``small`` (1,440 and 1,200) or ``paper`` (22,800 and 4,526).
        seed: seed of the world.
        language: ``en`` or ``zh`` (the market), or ``plain``: one-word attributes, without ``paper``, which the shipped
            tiny policy reads.
        page_size: results per page.
        renderer: ``structured`` or ``sep``.
        reward: ``shopsimulator`` or ``webshop``.
        min_rules: train tasks that need fewer of the useful rules at once are left out, and those that no rules win;
            0 keeps every train task. Held-out tasks stay as they are. ``plain`` only.

    Raises:
        ConfigError: for an unknown name, sizes below 1, or ``min_rules`` that no train task needs.
    """

    def __init__(
        self,
        preset: str = "small",
        seed: int = 0,
        language: str = "en",
        page_size: int = 20,
        renderer: str = "structured",
        reward: str = "shopsimulator",
        min_rules: int = 0,
    ) -> None:
        settings = Settings(page_size, renderer=renderer, language=language, reward=reward)
        catalogue, tasks, index = load_or_build((language, preset, seed), lambda: _generate(language, preset, seed))
        super().__init__(catalogue, _hard_enough(tasks, min_rules, language), settings, index)


def _generate(language: str, preset: str, seed: int) -> tuple[Catalogue, Sequence[ShopTask]]:
    if language == "plain":
        catalogue, tasks = plain.generate(preset, seed)
        shop = Stock(catalogue, tasks, Settings(language=language))
        return catalogue, assign_splits([with_rules_needed(shop, task) for task in tasks], seed)
    catalogue, tasks = market.generate(language, preset, seed)
    return catalogue, assign_splits(tasks, seed, MARKET_SHARES, MARKET_MOST)


def _hard_enough(tasks: Sequence[ShopTask], min_rules: int, language: str) -> list[ShopTask]:
    """Drop the train tasks that need fewer rules than ``min_rules`` at once, or something else than rules."""
    if not min_rules:
        return list(tasks)
    if language != "plain":
        raise ConfigError(
            f"min_rules={min_rules} needs the scripted shopper of env.options.language=plain; in {language!r} nobody "
            "has counted the rules of a task: leave it out, or set language=plain"
        )
    counts = {n: sum(t.split == "train" and t.features[RULES_NEEDED] == str(n) for t in tasks) for n in range(5)}
    enough = {str(n) for n in counts if n >= min_rules}
    kept = [task for task in tasks if task.split != "train" or task.features[RULES_NEEDED] in enough]
    if not any(task.split == "train" for task in kept) or min_rules < 0:
        listed = ", ".join(f"{n} rules: {count}" for n, count in counts.items())
        raise ConfigError(f"min_rules={min_rules} leaves no train task of this world ({listed}); choose from 0 to 4")
    return kept
