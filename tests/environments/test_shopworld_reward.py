"""The reward: a table of cases for every component, and the budget reader."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from intraskill.environments.shopworld.catalogue import Catalogue, OptionValue, Product
from intraskill.environments.shopworld.reward import Goal, budget_of, matches, score
from intraskill.method.errors import ConfigError

MUG = Product(
    id="k001",
    title="nova ceramic insulated rustic mug",
    brand="nova",
    category=("kitchen", "drinkware", "mug"),
    attributes=("ceramic", "insulated", "rustic", "matte"),
    bullets=("a matte mug for every day",),
    price=20.0,
    axes={
        "color": (OptionValue("red"), OptionValue("blue")),
        "size": (OptionValue("mini", 20.0), OptionValue("jumbo", 30.0)),
    },
)
GOAL = Goal(("ceramic", "nova"), {"color": "red", "size": "mini"}, 25.0, MUG.id, MUG.title, MUG.category)
CHOSEN = {"color": "red", "size": "mini"}
BLUE_MINI, BLUE_JUMBO = {"color": "blue", "size": "mini"}, {"color": "blue", "size": "jumbo"}
OTHER = replace(GOAL, category=("x",))


@pytest.mark.parametrize(
    ("product", "selected", "goal", "expected"),
    [
        (MUG, CHOSEN, GOAL, {"r_strict": 1.0, "r_success": 1.0, "r_loose": 1.0}),
        (MUG, BLUE_MINI, GOAL, {"r_option": 0.5, "r_strict": 0.5, "r_success": 0.0, "r_loose": 0.8}),
        (MUG, BLUE_JUMBO, GOAL, {"r_option": 0.0, "r_price": 0.0, "r_strict": 0.0, "r_loose": 0.4}),
        (MUG, {}, replace(GOAL, options={}), {"r_option": 1.0, "r_strict": 1.0}),
        (MUG, CHOSEN, replace(GOAL, attributes=("ceramic", "wool")), {"r_att": 0.5, "r_strict": 0.5}),
        (MUG, CHOSEN, replace(GOAL, attributes=("wool", "denim")), {"r_att": 0.0, "r_strict": 0.0, "r_loose": 0.6}),
        (MUG, CHOSEN, replace(GOAL, budget=None), {"r_price": 1.0}),
        (MUG, CHOSEN, replace(GOAL, budget=None, budget_stated=True), {"r_price": 0.0, "r_strict": 0.0}),
        (MUG, {"color": "red", "size": "jumbo"}, GOAL, {"r_price": 0.0}),
        (MUG, CHOSEN, replace(OTHER, title="a b c d mug"), {"r_type": 0.5}),
        (MUG, CHOSEN, replace(OTHER, title="mug " + "a b c d e f g h i j k"), {"r_type": 0.1}),
        (MUG, CHOSEN, replace(OTHER, title="a wool coat"), {"r_type": 0.0, "r_strict": 0.0, "r_loose": 0.0}),
        (MUG, CHOSEN, replace(GOAL, category=("Kitchen", "DRINKWARE"), title="coat"), {"r_type": 1.0}),
    ],
)  # fmt: skip
def test_each_component_follows_its_definition(
    product: Product, selected: Mapping[str, str], goal: Goal, expected: Mapping[str, float]
) -> None:
    parts = score(product, selected, goal)
    assert {name: parts[name] for name in expected} == pytest.approx(expected)
    assert parts["r_strict"] == pytest.approx(parts["r_type"] * parts["r_att"] * parts["r_option"] * parts["r_price"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a mug under $25", (25.0, True)),
        ("a mug, at most $25.50", (25.5, True)),
        ("a mug, about $40", (44.0, True)),
        ("a mug between $30 and $50", (50.0, True)),
        ("a mug, $30 to $50", (50.0, True)),
        ("a mug over $20", (None, False)),
        ("a mug", (None, False)),
        ("a mug on a small budget", (None, True)),
    ],
)
def test_the_budget_is_read_from_the_instruction(text: str, expected: tuple[float | None, bool]) -> None:
    assert budget_of(text) == expected


def test_values_agree_after_normalisation_and_differ_otherwise() -> None:
    assert matches("Sky Blue", "blue sky")
    assert matches("S/M", "s|m")
    assert not matches("red", "blue")


def test_a_catalogue_refuses_several_price_axes_and_repeated_ids() -> None:
    two = replace(MUG, axes={axis: (OptionValue("a", 1.0),) for axis in ("color", "size")})
    with pytest.raises(ConfigError, match="1: k001"):
        Catalogue([two])
    with pytest.raises(ConfigError, match="1 product ids are repeated"):
        Catalogue([MUG, MUG])
