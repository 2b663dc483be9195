"""Generate a market: products in families, tasks and users; a task that fails a check is drawn again.

`generate(language, preset, seed)` is a pure function. What each draw decides is in the address of the draw; a
redrawn task has its attempt in its address, so that it moves no other task's draws.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from intraskill.environments.shopworld.catalogue import Catalogue
from intraskill.environments.shopworld.market.draws import Draws
from intraskill.environments.shopworld.market.goods import Item, brands_of_domains, items_of_noun
from intraskill.environments.shopworld.market.people import Wish, draw_wish, write_persona, write_request
from intraskill.environments.shopworld.market.words import LANGUAGES, Words, lines_of, words_of
from intraskill.environments.shopworld.proof import Oracle, flaws_of
from intraskill.environments.shopworld.reward import Goal, budget_of, score
from intraskill.environments.shopworld.search import SearchIndex
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.errors import ConfigError

_TASKS_PER_USER = (0.35, 0.30, 0.20, 0.15)  # one to four
ATTEMPTS = 40
_SAME_PRODUCT_ATTEMPTS = 3
_OPENABLE_WITHIN = 60  # three pages of 20: search, two turns, open, at most three options and buy are eight actions


@dataclass(frozen=True, slots=True)
class MarketPreset:
    """Size of a market.

    Attributes:
        nouns: head nouns.
        products: products in all.
        tasks: tasks in all.
        lines: lines that every noun comes in; without them a gold product of a large market would have more rivals of
            its own kind than in a real shop of that size.
    """

    nouns: int
    products: int
    tasks: int
    lines: int = 0


PRESETS = {
    "tiny": MarketPreset(8, 120, 60),
    "small": MarketPreset(16, 1440, 1200),
    "paper": MarketPreset(144, 22800, 4526, lines=4),
}


def generate(language: str, preset: str, seed: int) -> tuple[Catalogue, tuple[ShopTask, ...]]:
    """Return the catalogue and the tasks (splits not yet assigned).

    Args:
        language: ``en`` or ``zh``.
        preset: ``tiny``, ``small`` or ``paper``.
        seed: seed of the world.

    Raises:
        ConfigError: for an unknown language or preset.
    """
    if language not in LANGUAGES:
        raise ConfigError(f"the market speaks {' and '.join(LANGUAGES)}, not {language!r}")
    if preset not in PRESETS:
        raise ConfigError(f"unknown ShopWorld preset {preset!r}; choose one of {', '.join(PRESETS)}")
    words, size = words_of(language), PRESETS[preset]
    items = _items(words, size, seed)
    catalogue = Catalogue(item.product for item in items.values())
    market = _Market(words, items, catalogue, SearchIndex(catalogue), size, seed)
    return catalogue, tuple(market.tasks())


def _items(words: Words, size: MarketPreset, seed: int) -> Mapping[str, Item]:
    """Generate the goods: some nouns are common, some rare, and their quotas add up to the preset."""
    drawn = Draws(seed, "nouns").sample(words.nouns, size.nouns)
    nouns = [noun for kind in drawn for noun in lines_of(kind, words, size.lines)]
    weights = [Draws(seed, "share", noun.value.name).between(0.5, 1.5) for noun in nouns]
    ends = [round(size.products * sum(weights[: i + 1]) / sum(weights)) for i in range(len(nouns))]
    brands = brands_of_domains(words, seed)
    found: list[Item] = []
    for noun, end in zip(nouns, ends, strict=True):
        found += items_of_noun(words, noun, brands[noun.domain], end - len(found), seed)
    return {item.product.id: item for item in found}


@dataclass(frozen=True, slots=True)
class _Market:
    """What the drawing of tasks reads."""

    words: Words
    items: Mapping[str, Item]
    catalogue: Catalogue
    index: SearchIndex
    size: MarketPreset
    seed: int

    def tasks(self) -> list[ShopTask]:
        """Draw tasks user by user."""
        order = Draws(self.seed, "targets").sample(sorted(self.items), len(self.items))
        wanted, spare = order[: self.size.tasks], order[self.size.tasks :] or order
        tasks: list[ShopTask] = []
        user = 0
        while len(tasks) < self.size.tasks:
            count = 1 + Draws(self.seed, "user", user).weighted(_TASKS_PER_USER)
            numbers = range(len(tasks), min(len(tasks) + count, self.size.tasks))
            tasks += self._tasks_of(user, numbers, wanted, spare)
            user += 1
        return tasks

    def _tasks_of(self, user: int, numbers: range, wanted: Sequence[str], spare: Sequence[str]) -> list[ShopTask]:
        """Draw the tasks of one user, each for another kind of product, then the persona that fits them all."""
        own: list[tuple[Wish, ShopTask]] = []
        for number in numbers:
            taken = {wish.item.noun.kind for wish, _ in own}
            own.append(self._sound_task(user, number, (wanted[number], spare), taken))
        persona = write_persona(
            [wish for wish, _ in own], self.words, Draws(self.seed, "persona", self.words.language, user)
        )
        return [replace(task, persona=persona) for _, task in own]

    def _sound_task(
        self, user: int, number: int, products: tuple[str, Sequence[str]], taken: AbstractSet[str]
    ) -> tuple[Wish, ShopTask]:
        for attempt in range(ATTEMPTS):
            draws = Draws(self.seed, "task", number, attempt)
            first, spare = products
            item = self.items[first if attempt < _SAME_PRODUCT_ATTEMPTS else draws.pick(spare)]
            if item.noun.kind in taken:
                continue
            wish = draw_wish(item, draws)
            task = _task(wish, user, number, self.words, draws)
            if self._is_sound(task):
                return wish, task
        raise ConfigError(f"no sound task {number} in {ATTEMPTS} draws at seed {self.seed}; choose another seed")

    def _is_sound(self, task: ShopTask) -> bool:
        """Whether a task says what it means, is fair, and can be solved within eight actions."""
        goal = task.goal
        stated = (goal.budget, goal.budget_stated)
        return (
            budget_of(task.instruction) == budget_of(task.request) == stated
            and score(self.catalogue.by_id[goal.product_id], goal.options, goal)["r_success"] == 1.0
            and next(flaws_of(task, self.catalogue, self.index), None) is None
            and goal.product_id in self.index.search(Oracle(goal).query, _OPENABLE_WITHIN)
        )


def _task(wish: Wish, user: int, number: int, words: Words, draws: Draws) -> ShopTask:
    instruction, request = write_request(wish, words, draws)
    product = wish.item.product
    attributes = tuple(want.value.name for want in wish.wants if want.axis is None)
    goal = Goal(
        attributes=attributes,
        options=wish.options,
        budget=wish.budget,
        product_id=product.id,
        title=product.title,
        category=product.category,
        budget_stated=wish.budget is not None,
    )
    features = {
        "domain": product.category[0],
        "soft": str(sum(want.soft for want in wish.wants)),
        "axes": str(len(wish.options)),
        "budget": wish.budget_kind,
        "conflict": str(wish.conflict is not None),
    }
    return ShopTask(f"shop-{number:05d}", instruction, request, None, f"user-{user:05d}", goal, features)
