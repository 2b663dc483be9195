"""A shop that agents can act in: one immutable catalogue and its tasks, shared by every session.

`Shop` serves any catalogue and tasks; `ShopWorld` generates its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from intraskill.environments.protocol import ToolSpec
from intraskill.environments.shopworld import market, reward, webshop_reward
from intraskill.environments.shopworld.cache import load_or_build
from intraskill.environments.shopworld.catalogue import Catalogue, Product
from intraskill.environments.shopworld.plain import generate as plain
from intraskill.environments.shopworld.proof import oracle_actions
from intraskill.environments.shopworld.search import SearchIndex
from intraskill.environments.shopworld.session import ShopSession, shop_tools
from intraskill.environments.shopworld.splits import MARKET_MOST, MARKET_SHARES, assign_splits, manifest
from intraskill.environments.shopworld.strings import Strings, strings_of
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.randomness import content_hash
from intraskill.method.tasks import SPLITS, Split, Task

CONTRACT = "shopworld-2"
"""Name of the rules: of rewards, search, pages and budgets. A test of frozen behaviour says when it must change."""
RENDERERS = ("structured", "sep")
SCORERS: dict[str, Callable[[Product, Mapping[str, str], reward.Goal], dict[str, float]]] = {
    "shopsimulator": reward.score,
    "webshop": webshop_reward.score,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a shop shows itself and what it pays.

    Attributes:
        page_size: results per page.
        max_results: results per query.
        renderer: ``structured`` or ``sep``.
        language: of buttons and pages: ``plain``, ``en`` or ``zh``.
        reward: ``shopsimulator`` (graded components, their product is the main reward) or ``webshop``.

    Raises:
        ConfigError: for an unknown name, or sizes below 1.
    """

    page_size: int = 20
    max_results: int = 150
    renderer: str = "structured"
    language: str = "en"
    reward: str = "shopsimulator"

    def __post_init__(self) -> None:
        strings_of(self.language)
        if self.renderer not in RENDERERS:
            raise ConfigError(f"unknown renderer {self.renderer!r}; choose {' or '.join(RENDERERS)}")
        if self.reward not in SCORERS:
            raise ConfigError(f"unknown reward {self.reward!r}; choose {' or '.join(SCORERS)}")
        if min(self.page_size, self.max_results) < 1:
            raise ConfigError(
                f"page_size and max_results must be at least 1, got {self.page_size} and {self.max_results}"
            )


class Shop:
    """A catalogue and its tasks behind `intraskill.environments.protocol.Environment`.

    Args:
        catalogue: every product.
        tasks: every task, with its split.
        settings: pages and reward.
        index: the search index of this very catalogue, where it was built before.

    Raises:
        SplitError: for an id that stands twice.
    """

    family = "shopping"
    reward_parts: Sequence[str] = reward.REWARD_PARTS

    def __init__(
        self, catalogue: Catalogue, tasks: Sequence[ShopTask], settings: Settings, index: SearchIndex | None = None
    ) -> None:
        self.settings = settings
        self.strings: Strings = strings_of(settings.language)
        self.catalogue = catalogue
        self.index = index or SearchIndex(catalogue)
        self._tasks = {task.id: task for task in tasks}
        if len(self._tasks) != len(tasks):
            raise SplitError(f"repeated task ids: {len(tasks) - len(self._tasks)}; a task stands in one split only")
        self._solvable = lru_cache(maxsize=None)(lambda task_id: oracle_actions(self, task_id) is not None)

    @cached_property
    def version(self) -> str:
        """Hash of the contract's name, the catalogue, the order of its options, the tasks with splits, every setting.

        Rules enter by the contract's name alone: whoever changes one gives it another.
        """
        goals = [(t.id, t.split, t.instruction, t.request, t.persona, repr(t.goal)) for t in self._tasks.values()]
        axes = [list(product.axes) for product in self.catalogue.products]  # the catalogue's hash sorts their names
        return content_hash(CONTRACT, self.catalogue.hash, axes, goals, asdict(self.settings))

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The two tools, as JSON schemas."""
        return shop_tools()

    @property
    def manifest(self) -> dict[str, object]:
        """Task ids per split, with hashes."""
        return manifest(list(self._tasks.values()), self.catalogue.hash)

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Return the tasks of one split, by id."""
        if split not in SPLITS:
            raise SplitError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
        chosen = (task for task in self._tasks.values() if task.split == split)
        return tuple(Task(task.id, self.family, task.split, dict(task.features)) for task in chosen)

    def shop_task(self, task_id: str) -> ShopTask:
        """Return a task with its private goal.

        Raises:
            SplitError: for an id that this world does not hold.
        """
        if task_id not in self._tasks:
            raise SplitError(
                f"this world has no task {task_id!r}; it holds {len(self._tasks)} tasks of another seed or preset"
            )
        return self._tasks[task_id]

    def open(self) -> ShopSession:
        """Return a new session."""
        return ShopSession(self)

    def score(self, task_id: str, product_id: str, selected: Mapping[str, str]) -> dict[str, float]:
        """Return every reward component of buying a product with chosen options."""
        scorer = SCORERS[self.settings.reward]
        return scorer(self.catalogue.by_id[product_id], selected, self.shop_task(task_id).goal)

    def solvable(self, task_id: str) -> bool:
        """Return whether an oracle reaches full success within 8 actions."""
        return bool(self._solvable(task_id))


class ShopWorld(Shop):
    """A generated shop.

    Args:
        preset: ``tiny`` (120 products, 60 tasks), ``small`` (1,440 and 1,200) or ``paper`` (22,800 and 4,526).
        seed: seed of the world.
        language: ``en`` or ``zh`` (the market), or ``plain``: one-word attributes, without ``paper``, which the shipped
            tiny policy reads.
        page_size: results per page.
        max_results: results per query.
        renderer: ``structured`` or ``sep``.
        reward: ``shopsimulator`` or ``webshop``.

    Raises:
        ConfigError: for an unknown name, or sizes below 1.
    """

    def __init__(
        self,
        preset: str = "small",
        seed: int = 0,
        language: str = "en",
        page_size: int = 20,
        max_results: int = 150,
        renderer: str = "structured",
        reward: str = "shopsimulator",
    ) -> None:
        settings = Settings(page_size, max_results, renderer, language, reward)
        catalogue, tasks, index = load_or_build((language, preset, seed), lambda: _generate(language, preset, seed))
        super().__init__(catalogue, tasks, settings, index)


def _generate(language: str, preset: str, seed: int) -> tuple[Catalogue, Sequence[ShopTask]]:
    if language == "plain":
        catalogue, tasks = plain.generate(preset, seed)
        return catalogue, assign_splits(tasks, seed)
    catalogue, tasks = market.generate(language, preset, seed)
    return catalogue, assign_splits(tasks, seed, MARKET_SHARES, MARKET_MOST)
