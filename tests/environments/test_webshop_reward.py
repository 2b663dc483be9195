"""The published WebShop reward: a table of cases for every component at 0, partial and 1."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld import reward as shopsimulator
from intraskill.environments.shopworld.catalogue import OptionValue, Product
from intraskill.environments.shopworld.reward import REWARD_PARTS, Goal
from intraskill.environments.shopworld.webshop_reward import score
from intraskill.method.tasks import SPLITS

DRESS = Product(
    id="B000000001",
    title="Summer Floral Dress Women",
    brand="",
    category=("Clothing", "Women", "Dresses"),
    attributes=("polyester spandex", "machine wash"),
    bullets=("For daily wear. ", "Soft and light-weight fabric. "),
    price=20.0,
    axes={"size": (OptionValue("small"), OptionValue("x-large")), "color": (OptionValue("navy blue floral"),)},
    query="women's dresses",
)
GOAL = Goal(
    attributes=("machine wash", "daily wear"),
    options={"size": "x-large", "color": "blue"},
    budget=30.0,
    product_id=DRESS.id,
    title=DRESS.title,
    category=DRESS.category,
    query=DRESS.query,
)
CHOSEN = {"size": "x-large", "color": "navy blue floral"}
FAR = replace(GOAL, category=("Clothing", "Men"), query="men's shirts")  # one shared node: no category match
TITLE_9 = " ".join(f"w{i}x" for i in range(9))  # nine words that no title here shares


@pytest.mark.parametrize(
    ("product", "selected", "goal", "expected"),
    [
        # all fit: 1·(2+2+1)/(2+2+1) = 1, so both binary rewards are 1
        (DRESS, CHOSEN, GOAL, {"r_loose": 1.0, "r_strict": 1.0, "r_success": 1.0, "r_type": 1.0}),
        # r_att: "machine wash" in the list, "daily wear" in a bullet only; "wool" nowhere: (1+2+1)/5
        (DRESS, CHOSEN, replace(GOAL, attributes=("machine wash", "wool")), {"r_att": 0.5, "r_loose": 0.8}),
        (DRESS, CHOSEN, replace(GOAL, attributes=("wool", "denim")), {"r_att": 0.0, "r_loose": 0.6, "r_strict": 0.0}),
        # each text on its own: "travel" ends one bullet and "mug" begins the next
        (
            replace(DRESS, bullets=("for travel", "mug lid")),
            CHOSEN,
            replace(GOAL, attributes=("travel mug",)),
            {"r_att": 0.0},
        ),
        (replace(DRESS, bullets=("a travel mug",)), CHOSEN, replace(GOAL, attributes=("travel mug",)), {"r_att": 1.0}),
        # punctuation is no difference in the fuzzy ratio: "light weight" ~ "light-weight" is in the list here
        (
            replace(DRESS, attributes=("light-weight",)),
            CHOSEN,
            replace(GOAL, attributes=("light weight",)),
            {"r_att": 1},
        ),
        # r_option: any chosen value may satisfy any wanted one; 1 of 2: (2+1+1)/5;  0 of 2: (2+0+1)/5
        (DRESS, {"x": "x-large", "y": "navy blue floral"}, GOAL, {"r_option": 1.0}),
        (
            DRESS,
            {"size": "small", "color": "navy blue floral"},
            GOAL,
            {"r_option": 0.5, "r_loose": 0.8, "r_strict": 0.0},
        ),
        (DRESS, {"size": "small", "color": "red"}, GOAL, {"r_option": 0.0, "r_loose": 0.6}),
        (DRESS, {}, replace(GOAL, options={}), {"r_option": 1.0, "r_loose": 1.0}),
        # two colours with the same colour word agree: both are read as "blue"
        (DRESS, CHOSEN, replace(GOAL, options={"color": "blue striped"}), {"r_option": 1.0}),
        (DRESS, CHOSEN, replace(GOAL, options={"color": "green striped"}), {"r_option": 0.0, "r_loose": 0.75}),
        # a colour is a whole word: "standing" holds no "tan", and "bored" no "red"
        (DRESS, {"x": "free standing"}, replace(GOAL, options={"x": "tan"}), {"r_option": 0.0}),
        (DRESS, {"x": "bored"}, replace(GOAL, options={"x": "red"}), {"r_option": 0.0}),
        (DRESS, {"x": "dark-tan leather"}, replace(GOAL, options={"x": "tan"}), {"r_option": 1.0}),
        (DRESS, {"x": "a_red|b"}, replace(GOAL, options={"x": "red"}), {"r_option": 1.0}),
        # r_price: at the budget 1, above 0: (2+2+0)/5 = 0.8; no budget 1
        (DRESS, CHOSEN, replace(GOAL, budget=20.0), {"r_price": 1.0, "r_loose": 1.0}),
        (DRESS, CHOSEN, replace(GOAL, budget=19.0), {"r_price": 0.0, "r_loose": 0.8, "r_success": 0.0}),
        (DRESS, CHOSEN, replace(GOAL, budget=None, budget_stated=True), {"r_price": 1.0}),
        # r_type, titles of 4 words: t = 1/4 > 0.2 → 1 without category or query
        (DRESS, CHOSEN, replace(FAR, title="Dress w1x w2x w3x"), {"r_type": 1.0}),
        # t = 1/5 = 0.2, nothing else agrees → 0.5, and it multiplies: 0.5·5/5
        (DRESS, CHOSEN, replace(FAR, title="Dress w1x w2x w3x w4x"), {"r_type": 0.5, "r_loose": 0.5, "r_strict": 0.0}),
        # t = 1/5 with the same query, or with two shared nodes → 1
        (DRESS, CHOSEN, replace(FAR, title="Dress w1x w2x w3x w4x", query="Women's Dresses"), {"r_type": 1.0}),
        (DRESS, CHOSEN, replace(GOAL, title="Dress w1x w2x w3x w4x", query=""), {"r_type": 1.0}),
        # t = 1/10 = 0.1 is not below 0.1 → 0.5;  t = 1/11 < 0.1 → 0.1 even with the same query and category
        (DRESS, CHOSEN, replace(FAR, title=f"Dress {TITLE_9}"), {"r_type": 0.5}),
        (DRESS, CHOSEN, replace(GOAL, title=f"Dress w9x {TITLE_9}"), {"r_type": 0.1, "r_loose": 0.1}),
        # t = 0 → 0 even with the same query and category: the title overrides
        (DRESS, CHOSEN, replace(GOAL, title="Leather Boots"), {"r_type": 0.0, "r_loose": 0.0}),
        # repeated words count in the denominator, as published: 1 shared of 5 written → 0.2 → 0.5
        (DRESS, CHOSEN, replace(FAR, title="Dress w1x w1x w1x w1x"), {"r_type": 0.5}),
        # a wanted title without any noun overlaps by 0.2, which alone is no match
        (DRESS, CHOSEN, replace(FAR, title="for the 2"), {"r_type": 0.5}),
        # two products without a query do not agree on it
        (replace(DRESS, query=""), CHOSEN, replace(FAR, query="", title="Dress w1x w2x w3x w4x"), {"r_type": 0.5}),
    ],
)
def test_each_component_follows_the_published_rule(
    product: Product, selected: Mapping[str, str], goal: Goal, expected: Mapping[str, float]
) -> None:
    parts = score(product, selected, goal)
    assert tuple(parts) == REWARD_PARTS
    assert {name: parts[name] for name in expected} == pytest.approx(expected)
    assert parts["r_strict"] == parts["r_success"] == float(parts["r_loose"] >= 1)


def test_the_two_rewards_differ_where_the_title_overrides_the_category() -> None:
    goal = replace(GOAL, title="Leather Boots")
    assert shopsimulator.score(DRESS, CHOSEN, goal)["r_type"] == 1.0
    assert score(DRESS, CHOSEN, goal)["r_type"] == 0.0


def test_a_shop_pays_the_webshop_reward_when_asked() -> None:
    graded, binary = ShopWorld("tiny", 3), ShopWorld("tiny", 3, reward="webshop")
    task = graded.tasks("train")[0]
    goal = graded.shop_task(task.id).goal
    half = {
        axis: next(v.value for v in values) for axis, values in graded.catalogue.by_id[goal.product_id].axes.items()
    }
    assert all(binary.solvable(task.id) for split in SPLITS for task in binary.tasks(split))
    assert binary.score(task.id, goal.product_id, half)["r_strict"] in (0.0, 1.0)
    assert graded.version != binary.version
