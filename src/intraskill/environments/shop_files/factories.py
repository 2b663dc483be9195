"""Environments made of a user's files: ``env.name=intraskill.environments.shop_files:shopsimulator``."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from intraskill.environments.shop_files.loaded import Loaded
from intraskill.environments.shop_files.shopsimulator_rows import load_shopsimulator
from intraskill.environments.shop_files.webshop_rows import load_webshop
from intraskill.environments.shopworld.splits import assign_splits, linked_components
from intraskill.environments.shopworld.stock import Settings
from intraskill.environments.shopworld.task import ShopTask
from intraskill.environments.shopworld.world import Shop
from intraskill.method.errors import ConfigError
from intraskill.method.tasks import Split

# Of the rows tagged eval: the proportions that test, skill validation, model development and audit have elsewhere.
_EVAL_SHARES: tuple[tuple[Split, float], ...] = (
    ("test", 0.40),
    ("skill_validation", 0.44),
    ("model_dev", 0.08),
    ("audit", 1.0),
)


class FileShop(Shop):
    """A shop whose products and tasks come from files.

    Attributes:
        loaded: what the loader returned, with everything that it excluded and noted.
    """

    def __init__(self, loaded: Loaded, tasks: Sequence[ShopTask], settings: Settings) -> None:
        super().__init__(loaded.catalogue, tasks, settings)
        self.loaded = loaded


def shopsimulator(path: str | Path, preset: str = "", seed: int = 0, **settings: object) -> FileShop:
    """Return a shop of ShopSimulator's rows, in Chinese, with the rules of its reward.

    Rows tagged eval become test, skill validation, model development and audit; rows tagged train become train. Tasks
    that share a product, a request or a persona stay together: one eval task takes all of them to the eval side. A file
    that tags no row as eval is divided as a generated world is.

    Args:
        path: the file of rows.
        preset: not used; the file says how large the shop is.
        seed: seed of the splits.
        **settings: any field of `Settings`.

    Raises:
        ConfigError: for an unusable file or an unknown setting.
        SplitError: for an id tagged both eval and train.
    """
    del preset
    chosen = _settings({"language": "zh", "reward": "shopsimulator"}, settings, "path")
    loaded = load_shopsimulator(path)
    return FileShop(loaded, tagged_splits(loaded.tasks, seed), chosen)


def webshop(
    items: str | Path,
    instructions: str | Path,
    human: str | Path | None = None,
    budgets: bool = True,
    preset: str = "",
    seed: int = 0,
    **settings: object,
) -> FileShop:
    """Return a shop of WebShop's files, in English, with the published WebShop reward.

    Args:
        items: the file of products.
        instructions: the file of attributes and instructions.
        human: the file of instructions by people, or ``None``.
        budgets: write a drawn budget into every instruction, as the published server does.
        preset: not used; the files say how large the shop is.
        seed: seed of the splits and budgets.
        **settings: any field of `Settings`.

    Raises:
        ConfigError: for an unusable file or an unknown setting.
    """
    del preset
    chosen = _settings({"language": "en", "reward": "webshop"}, settings, "items, instructions, human, budgets")
    loaded = load_webshop(items, instructions, human, budgets, seed)
    return FileShop(loaded, assign_splits(loaded.tasks, seed), chosen)


def tagged_splits(tasks: Sequence[ShopTask], seed: int) -> tuple[ShopTask, ...]:
    """Return tasks with the project's splits; linked tasks stand on one side of the file's own eval/train border."""
    held_out = {
        task.id for group in linked_components(tasks) if any(t.split == "test" for t in group) for task in group
    }
    if not held_out:
        return assign_splits(tasks, seed)
    evaluation = assign_splits([task for task in tasks if task.id in held_out], seed, _EVAL_SHARES)
    split_of = {task.id: task.split for task in evaluation}
    return tuple(replace(task, split=split_of.get(task.id, "train")) for task in tasks)


def _settings(defaults: dict[str, object], given: dict[str, object], others: str) -> Settings:
    known = [field.name for field in fields(Settings)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(
            f"unknown env.options, {', '.join(unknown)}; choose among {others} and the settings {', '.join(known)}"
        )
    try:
        return Settings(**{**defaults, **given})  # type: ignore[arg-type]
    except TypeError as error:
        raise ConfigError(f"env.options hold a setting of a wrong type: {error}") from error
