"""A shop without its sessions: one immutable catalogue and its tasks, pages and rewards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from intraskill.environments.shopworld import reward, webshop_reward
from intraskill.environments.shopworld.catalogue import Catalogue, Product
from intraskill.environments.shopworld.search import SearchIndex
from intraskill.environments.shopworld.splits import manifest
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


class Stock:
    """What every session of a shop shares: its catalogue, its tasks, how it shows itself and what it pays.

    Args:
        catalogue: every product.
        tasks: every task, with its split.
        settings: pages and reward.
        index: the search index of this very catalogue, where it was built before.

    Raises:
        SplitError: for an id that stands twice.
    """

    family = "shopping"

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

    @cached_property
    def version(self) -> str:
        """Hash of the contract's name, the catalogue, the order of its options, the tasks with splits, every setting.

        Rules enter by the contract's name alone: whoever changes one gives it another.
        """
        goals = [(t.id, t.split, t.instruction, t.request, t.persona, repr(t.goal)) for t in self._tasks.values()]
        axes = [list(product.axes) for product in self.catalogue.products]  # the catalogue's hash sorts their names
        return content_hash(CONTRACT, self.catalogue.hash, axes, goals, asdict(self.settings))

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

    def score(self, task_id: str, product_id: str, selected: Mapping[str, str]) -> dict[str, float]:
        """Return every reward component of buying a product with chosen options."""
        scorer = SCORERS[self.settings.reward]
        return scorer(self.catalogue.by_id[product_id], selected, self.shop_task(task_id).goal)
