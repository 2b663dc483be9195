"""ShopSimulator's reward: a table of cases for every component at 0, partial and 1, and the budget reader."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from intraskill.environments.shopworld.budget import budget_of
from intraskill.environments.shopworld.catalogue import Catalogue, OptionValue, Product
from intraskill.environments.shopworld.reward import Goal, matches, normalize, score, title_terms
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
CUP = replace(
    MUG,
    title="景德镇 陶瓷 保温 马克杯",
    category=("家居", "杯具", "马克杯"),
    attributes=("材质:陶瓷", "容量:500ml", "哑光"),
    bullets=("适合 办公室",),
    price=59.0,
    axes={"颜色分类": (OptionValue("红色"), OptionValue("蓝色/白色"))},
)
CUP_GOAL = Goal(("哑光", "保温"), {"颜色": "蓝色|白色"}, 60.0, CUP.id, CUP.title, CUP.category)
BLUE_WHITE = {"颜色分类": "蓝色/白色"}


@pytest.mark.parametrize(
    ("product", "selected", "goal", "expected"),
    [
        # everything fits: 1·1·1·1; loose 1·(2 attributes + 2 options + 1 price)/(2+2+1) = 1
        (MUG, CHOSEN, GOAL, {"r_strict": 1.0, "r_success": 1.0, "r_loose": 1.0}),
        # r_option: 1 of 2 → 1/2; loose (2+1+1)/5 = 0.8
        (MUG, BLUE_MINI, GOAL, {"r_option": 0.5, "r_strict": 0.5, "r_success": 0.0, "r_loose": 0.8}),
        # r_option 0 of 2, r_price 0 (30 > 25); loose (2+0+0)/5 = 0.4
        (MUG, BLUE_JUMBO, GOAL, {"r_option": 0.0, "r_price": 0.0, "r_strict": 0.0, "r_loose": 0.4}),
        # |O| = 0 → r_option 1; loose (2+0+1)/(2+0+1) = 1
        (MUG, {}, replace(GOAL, options={}), {"r_option": 1.0, "r_strict": 1.0, "r_loose": 1.0}),
        # the value counts, not the name of its axis: "red" is chosen, on another axis than the goal's
        (MUG, {"colour": "red", "size": "mini"}, GOAL, {"r_option": 1.0}),
        # nothing chosen although options are wanted: 0 of 2
        (MUG, {}, GOAL, {"r_option": 0.0, "r_strict": 0.0}),
        # r_att: "nova" stands in the title only, "every day" in the bullets only: both are hits; "wool" is none
        (MUG, CHOSEN, replace(GOAL, attributes=("nova", "every day")), {"r_att": 1.0, "r_strict": 1.0}),
        (MUG, CHOSEN, replace(GOAL, attributes=("ceramic", "wool")), {"r_att": 0.5, "r_strict": 0.5}),
        # each text on its own: what the end of one and the begin of the next say together is said by neither
        (
            replace(MUG, title="Steel travel", bullets=("mug lid",)),
            {},
            replace(GOAL, attributes=("travel mug",)),
            {"r_att": 0.0},
        ),
        (
            replace(MUG, title="Steel", bullets=("a travel", "mug lid")),
            {},
            replace(GOAL, attributes=("travel mug",)),
            {"r_att": 0.0},
        ),
        (
            replace(MUG, title="Steel", bullets=("a travel mug",)),
            {},
            replace(GOAL, attributes=("travel mug",)),
            {"r_att": 1.0},
        ),
        (MUG, CHOSEN, replace(GOAL, attributes=("ceramic", "every day", "wool")), {"r_att": 2 / 3}),
        # r_att 0 of 2; loose (0+2+1)/5 = 0.6
        (MUG, CHOSEN, replace(GOAL, attributes=("wool", "denim")), {"r_att": 0.0, "r_strict": 0.0, "r_loose": 0.6}),
        # r_price: no budget → 1; a budget stated without a number → 0; equal to the budget → 1; a cent above → 0
        (MUG, CHOSEN, replace(GOAL, budget=None), {"r_price": 1.0}),
        (MUG, CHOSEN, replace(GOAL, budget=None, budget_stated=True), {"r_price": 0.0, "r_strict": 0.0}),
        (MUG, CHOSEN, replace(GOAL, budget=20.0), {"r_price": 1.0}),
        (MUG, CHOSEN, replace(GOAL, budget=19.99), {"r_price": 0.0, "r_success": 0.0}),
        # the price of the chosen variant counts: jumbo costs 30 > 25
        (MUG, {"color": "red", "size": "jumbo"}, GOAL, {"r_price": 0.0}),
        # a price that cannot be verified is within no budget, and no obstacle without one
        (replace(MUG, price=float("nan"), axes={}), {}, replace(GOAL, options={}), {"r_price": 0.0}),
        (replace(MUG, price=float("nan"), axes={}), {}, replace(GOAL, options={}, budget=None), {"r_price": 1.0}),
        # r_type: 2 shared nodes → 1 whatever the titles say; 1 shared node and no shared title word → 0
        (MUG, CHOSEN, replace(GOAL, title="wool coat", category=("kitchen", "drinkware")), {"r_type": 1.0}),
        (MUG, CHOSEN, replace(GOAL, title="wool coat", category=("kitchen", "x")), {"r_type": 0.0, "r_loose": 0.0}),
        # t = 1/4 > 0.2 → 1;  t = 1/5 = 0.2 → 0.5;  t = 1/10 = 0.1 → 0.5;  t = 1/12 < 0.1 → 0.1
        (MUG, CHOSEN, replace(OTHER, title="b c d mug"), {"r_type": 1.0}),
        (MUG, CHOSEN, replace(OTHER, title="b c d e mug"), {"r_type": 0.5, "r_strict": 0.5, "r_success": 0.0}),
        (MUG, CHOSEN, replace(OTHER, title="mug b c d e f g h j k"), {"r_type": 0.5}),
        (MUG, CHOSEN, replace(OTHER, title="mug b c d e f g h j k l m"), {"r_type": 0.1}),
        # r_type multiplies the loose reward too: 0.5·(2+2+1)/5
        (MUG, CHOSEN, replace(OTHER, title="b c d e mug"), {"r_loose": 0.5}),
        # t = 0 → 0: only function words and numbers agree, and they are no nouns
        (replace(MUG, title="mug for 2"), CHOSEN, replace(OTHER, title="coat for 2"), {"r_type": 0.0}),
        # Chinese: both attributes hit (哑光 in the list, 保温 in the title); 蓝色/白色 = 蓝色|白色 across axis names
        (CUP, BLUE_WHITE, CUP_GOAL, {"r_att": 1.0, "r_option": 1.0, "r_price": 1.0, "r_success": 1.0}),
        # 1 of 2 attributes: 羊毛 is nowhere; the other colour: 0 of 1; 59 > 58
        (CUP, BLUE_WHITE, replace(CUP_GOAL, attributes=("哑光", "羊毛")), {"r_att": 0.5, "r_strict": 0.5}),
        (CUP, {"颜色分类": "红色"}, CUP_GOAL, {"r_option": 0.0, "r_loose": 0.75}),
        (CUP, BLUE_WHITE, replace(CUP_GOAL, budget=58.0), {"r_price": 0.0}),
        # Han bigrams 马克 克杯 of 2 wanted: t = 1;  羊毛 毛大 大衣: t = 0
        (CUP, BLUE_WHITE, replace(CUP_GOAL, title="马克杯", category=()), {"r_type": 1.0}),
        (CUP, BLUE_WHITE, replace(CUP_GOAL, title="羊毛大衣", category=()), {"r_type": 0.0}),
    ],
)
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
        ("a mug, and price lower than 50.00 dollars", (50.0, True)),
        ("a watch under $1,234.50", (1234.5, True)),
        ("a mug, my budget is 40", (40.0, True)),
        ("a mug, $50 or less", (50.0, True)),
        ("a mug under 25", (25.0, True)),
        ("a mug under $25 and 3 lids", (25.0, True)),
        ("size 10-12 shoes under $60", (60.0, True)),
        ("size 10-12 shoes", (None, False)),
        ("a cable less than 5 meters", (None, False)),
        ("a rope about 3 meters", (None, False)),
        # a currency is surer than a bare bound, a price word surer than both
        ("laptops up to 15, under $60", (60.0, True)),
        ("my budget is 40, up to 15", (40.0, True)),
        ("price under $60 size 10-12", (60.0, True)),
        ("a stand for screens up to 65, under 140", (140.0, True)),
        # thousands, and numbers in words
        ("a laptop under $1.5k", (1500.0, True)),
        ("a laptop, between $1k and $2k", (2000.0, True)),
        ("no more than forty dollars", (40.0, True)),
        ("a lamp for less than a hundred and twenty-five dollars", (125.0, True)),
        ("a bike under two thousand three hundred dollars", (2300.0, True)),
        ("a lamp, no more than a few dollars", (None, True)),
        ("a set of forty sand dollars", (None, False)),
        ("a lamp, $50 max", (50.0, True)),
    ],
)
def test_the_budget_is_read_from_an_english_instruction(text: str, expected: tuple[float | None, bool]) -> None:
    assert budget_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("买个马克杯，预算300元以内", (300.0, True)),
        ("马克杯，不超过1,299元", (1299.0, True)),
        ("￥199以下的杯子", (199.0, True)),
        ("最多150块", (150.0, True)),
        ("价格59.9的杯子", (59.9, True)),
        ("预算五百，要两个", (500.0, True)),
        ("买一个300以内的杯子", (300.0, True)),
        # a range gives its upper end; 三十多 is less than 40
        ("价格在100到200元之间", (200.0, True)),
        ("价位２００～３００", (300.0, True)),
        ("价格区间100-200", (200.0, True)),
        ("三十多块的杯子", (40.0, True)),
        # × 1.1
        ("大概50元左右", (55.0, True)),
        ("大约2千块", (2200.0, True)),
        ("预算三百五左右", (385.0, True)),
        # a lower bound is no budget, unless an upper one follows
        ("300元以上", (None, False)),
        ("预算4k+", (None, False)),
        ("不低于100元", (None, False)),
        ("100元以上200元以下", (200.0, True)),
        # numbers that are no money
        ("500毫升的杯子", (None, False)),
        ("12~15英寸，体重100左右", (None, False)),
        ("3块毛巾", (None, False)),
        ("价格便宜的3米线", (None, False)),
        ("预算有限", (None, True)),
        # the surest amount counts: beside a price word, then with a currency, then with a bound
        ("预算500元以内，帮我挑一块。", (500.0, True)),
        ("预算五百元，要两块", (500.0, True)),
        ("预算200元，适合身高160以下的女生", (200.0, True)),
        ("价格50元以内，长度30以内", (50.0, True)),
        ("长度30以内，价格50元以内", (50.0, True)),
        ("不超过100元，最好送5元优惠券", (100.0, True)),
        ("最好送5元优惠券，100元的杯子", (100.0, True)),
        ("预算300元以上，送5元优惠券", (None, False)),
        # 块 counts pieces too; a bare bound is money at the end of a clause, beside no measure
        ("挑一块。", (None, False)),
        ("要两块，红色", (None, False)),
        ("最多5块", (5.0, True)),
        ("预算五块", (5.0, True)),
        ("五十块，红色", (50.0, True)),
        ("想要一个杯子，不超过100", (100.0, True)),
        ("低于100，要红色", (100.0, True)),
        ("不能超过100元", (100.0, True)),
        ("不超过100毫升", (None, False)),
        ("身高160以下", (None, False)),
        ("长度不超过30，红色", (None, False)),
        ("最多3，红色", (None, False)),
        ("超过100元", (None, False)),
        # 来 is about, 几 behind a ten is less than the next ten, 几 before one is no number
        ("两百来块钱", (220.0, True)),
        ("十几块的杯子", (20.0, True)),
        ("几百块", (None, True)),
        ("预算几千吧", (None, True)),
        ("几百块，不超过500元", (500.0, True)),
    ],
)
def test_the_budget_is_read_from_a_chinese_instruction(text: str, expected: tuple[float | None, bool]) -> None:
    assert budget_of(text) == expected


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("三百零五", 305),
        ("一千零五十", 1050),
        ("二十五", 25),
        ("十五", 15),
        ("一万二", 12_000),
        ("3.5k", 3500),
        ("5百", 500),
    ],
)
def test_chinese_numerals_are_numbers(written: str, value: float) -> None:
    assert budget_of(f"预算{written}元") == (value, True)


def test_values_agree_after_normalisation_and_differ_otherwise() -> None:
    assert matches("Sky Blue", "blue sky")
    assert matches("S/M", "s | m")
    assert matches("ＸＬ", "xl") and normalize(" 蓝色 / 白色 ") == "蓝色|白色"
    assert not matches("red", "blue")
    assert not matches("红色", "蓝色")


def test_the_words_of_a_title_are_letters_and_han_bigrams() -> None:
    assert title_terms("A mug for 2, with 500ml?") == ["mug", "500ml"]
    assert title_terms("??防水外套 3") == ["防水", "水外", "外套"]


def test_a_catalogue_refuses_several_price_axes_and_repeated_ids() -> None:
    two = replace(MUG, axes={axis: (OptionValue("a", 1.0),) for axis in ("color", "size")})
    with pytest.raises(ConfigError, match="1: k001"):
        Catalogue([two])
    with pytest.raises(ConfigError, match="repeated product ids: 1"):
        Catalogue([MUG, MUG])
