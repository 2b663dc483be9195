"""What an environment may offer beside the protocol, and what holds for one that offers nothing."""

import sys
from pathlib import Path

import pytest

from intraskill.environments.contract import check_environment
from intraskill.environments.planted import PlantedLearner, PlantedWorld
from intraskill.environments.protocol import (
    DEFAULT_SYSTEM,
    OPTIONAL,
    is_solvable,
    language_of,
    offered,
    own_learner,
    own_propose,
    secrets_of,
    slots_of,
    system_of,
)
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.shopworld import ShopWorld
from intraskill.method.errors import ConfigError
from intraskill.method.leakage.filter import Secrets
from intraskill.method.tasks import SPLITS

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs" / "examples"))
from number_hunt import NumberHunt  # noqa: E402


def test_an_environment_without_any_optional_member_has_every_default() -> None:
    world = NumberHunt("tiny")
    assert [name for name in OPTIONAL if hasattr(world, name)] == []
    assert language_of(world) == "" and system_of(world) == DEFAULT_SYSTEM
    assert slots_of(world) is None and is_solvable(world, "train-0") is None
    assert own_propose(world) is None and own_learner(world) is None
    assert secrets_of(world) == Secrets(task_ids=tuple(t.id for split in SPLITS for t in world.tasks(split)))


def test_shops_and_planted_worlds_say_for_themselves_what_they_offer() -> None:
    shop, planted = ShopWorld("tiny", language="zh"), PlantedWorld(broken=1.0)
    assert [name for name in OPTIONAL if offered(shop, name) is None] == [
        *("slots", "reward_range", "solution", "propose", "learner")
    ]
    assert language_of(shop) == "zh" and system_of(shop) == "You are a shopping agent."
    assert is_solvable(shop, shop.tasks("train")[0].id) is True
    assert is_solvable(planted, planted.tasks("train")[0].id) is False
    assert own_propose(planted) == planted.propose and isinstance(planted.learner(None), PlantedLearner)
    far = RemoteShop(slots=3)
    assert system_of(far) == system_of(shop) and slots_of(far) == 3 and language_of(far) == "unknown"


def test_a_shop_keeps_products_goals_and_held_out_words_secret() -> None:
    shop = ShopWorld("tiny")
    stated, train, held_out = secrets_of(shop), shop.tasks("train")[0].id, shop.tasks("test")[0].id
    assert set(stated.product_ids) == {product.id for product in shop.catalogue.products}
    assert {train, shop.shop_task(train).user, held_out} <= set(stated.task_ids)
    assert shop.shop_task(held_out).instruction in stated.instructions
    assert shop.shop_task(train).instruction not in stated.instructions


@pytest.mark.parametrize(
    ("name", "value"),
    [("language", 1), ("system", ("You",)), ("slots", "2"), ("slots", 0), ("slots", True), ("solvable", True)]
    + [("secrets", ("b100",)), ("propose", ()), ("learner", "mine")],
)
def test_an_optional_member_of_another_type_is_refused_and_breaks_the_contract(name: str, value: object) -> None:
    world = type("Wrong", (NumberHunt,), {name: value})("tiny")
    with pytest.raises(ConfigError, match=rf"Wrong\.{name} must be .*, got {type(value).__name__}; .*leave it out"):
        offered(world, name)
    (finding,) = [finding for finding in check_environment(world) if finding.status == "violated"]
    assert finding.rule == "members" and finding.where == name


def test_the_guide_names_every_optional_member() -> None:
    guide = (ROOT / "docs" / "environments.md").read_text()
    assert [name for name in OPTIONAL if f"\n| `{name}" not in guide] == []


class StatedAsMethod(PlantedWorld):
    def secrets(self):
        return Secrets(instructions=("Looking for a matte copper kettle",))


class StatedAsAttribute(PlantedWorld):
    secrets = Secrets(goals=("vintage cotton slim",))


class StatedWrongly(PlantedWorld):
    secrets = ("b100",)


def test_a_world_may_state_secrets_of_its_own_beside_its_task_ids() -> None:
    method, attribute = StatedAsMethod(), StatedAsAttribute()
    assert secrets_of(method).instructions == ("Looking for a matte copper kettle",)
    assert secrets_of(attribute).goals == ("vintage cotton slim",)
    ids = secrets_of(PlantedWorld()).task_ids
    assert ids and secrets_of(method).task_ids == ids == secrets_of(attribute).task_ids
    with pytest.raises(ConfigError, match=r"StatedWrongly.secrets must be .*Secrets.* got tuple"):
        secrets_of(StatedWrongly())
