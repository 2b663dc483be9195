"""What a shop of fixed products pays, finds and shows, frozen: no rule changes without the name of the contract."""

import json
from collections.abc import Iterator
from itertools import product as every
from typing import Any

import pytest

from intraskill.environments.shopworld import Settings, Shop, reward, search, stock
from intraskill.environments.shopworld.budget import budget_of
from intraskill.environments.shopworld.catalogue import Catalogue, OptionValue, Product
from intraskill.environments.shopworld.reward import Goal
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.shopworld.task import ShopTask
from intraskill.environments.tool_calls import write_call
from intraskill.method.randomness import content_hash

BUMP = (
    "for the same products and actions, {what} has changed: bump CONTRACT in "
    "src/intraskill/environments/shopworld/world.py, so that no run goes on under new rules, and put the digests here"
)
FROZEN = {
    "shopworld-2": {
        "what a purchase pays": "0ed9d37d6a34aae8",
        "what a search finds": "0f3d59a7cd01ef96",
        "what a page shows": "c8639d336b51df88",
        "which budget is read": "c4b45abc2151dc2b",
    }
}

COLOURS = (OptionValue("red"), OptionValue("navy blue", 24.0), OptionValue("standing lamp tan"))
PRODUCTS = (
    Product(
        "k001",
        "Nova travel mug",
        "Nova",
        ("Home", "Kitchen", "Mug"),
        ("ceramic", "matte"),
        ("keeps tea hot",),
        20.0,
        {"color": COLOURS, "size": (OptionValue("S/M"), OptionValue("L"))},
        "travel mug",
    ),
    Product(
        "k002", "Steel travel", "Nova", ("Home", "Kitchen", "Flask"), ("steel",), ("mug lid", "keeps tea hot"), 18.5, {}
    ),
    Product(
        "k003",
        "Summer dress with mug print",
        "Ola",
        ("Clothing", "Dress"),
        ("cotton",),
        ("a red dress",),
        30.0,
        {"size": (OptionValue("S"), OptionValue("M"))},
        "dress",
    ),
    Product(
        "c001",
        "景德镇 陶瓷 保温 马克杯",
        "山岚",
        ("家居", "杯具", "马克杯"),
        ("材质:陶瓷", "哑光"),
        ("适合 办公室",),
        59.0,
        {"颜色分类": (OptionValue("红色"), OptionValue("蓝色/白色"))},
    ),
    Product("c002", "陶瓷 茶壶", "山岚", ("家居", "杯具", "茶壶"), ("陶瓷",), ("办公室 马克杯 同款",), 45.0, {}),
)
GOALS = (
    Goal(("ceramic", "travel mug", "matt"), {"color": "blue striped", "size": "S|M"}, 22.0, "k001", "Nova travel mug",
         ("Home", "Kitchen", "Mug"), True, "travel mug"),
    Goal(("steel", "mug lid"), {}, None, "k002", "Steel travel flask", ("Home", "Kitchen", "Flask")),
    Goal(("cotton", "red dress", "wool"), {"size": "M"}, None, "k003", "Summer dress", ("Clothing", "Dress"), True),
    Goal(("哑光", "保温"), {"颜色": "蓝色|白色"}, 60.0, "c001", "保温 马克杯", ("家居", "杯具", "马克杯"), True),
)  # fmt: skip
TASKS = tuple(ShopTask(f"t{n}", f"request {n}", f"request {n}", None, f"u{n}", goal) for n, goal in enumerate(GOALS))
QUERIES = (
    "travel mug",
    "nova red",
    "keeps tea",
    "mug",
    "steel lid hot",
    "马克杯",
    "陶瓷 办公室",
    "dress S",
    "nothing here",
)
REQUESTS = (
    "a mug under $25",
    "about $40",
    "between $30 and $50",
    "over $20",
    "a small budget",
    "size 10-12",
    "my budget is 40",
    "预算300元以内",
    "三十多块的杯子",
    "大概50元左右",
    "100元以上200元以下",
    "3块毛巾",
    "预算有限",
    "几百块",
    "不超过100",
)
WALK = (
    "nonsense", "search", "search nothing here", "click {back}", "search travel mug", "click k999", "click {next}",
    "click {prev}", "click k001", "click {buy}", "click color=navy blue", "click color=navy blue", "click {attributes}",
    "click {prev}", "click size=L", "click {buy}",
)  # fmt: skip


def shop(**settings: Any) -> Shop:
    return Shop(Catalogue(PRODUCTS), TASKS, Settings(**{"page_size": 1, **settings}))


def payments() -> Iterator[object]:
    for name, goal, product in every(("shopsimulator", "webshop"), GOALS, PRODUCTS):
        choices = [{}, *(dict(zip(product.axes, values, strict=True)) for values in every(*product.axes.values()))]
        for chosen in choices:
            selected = {axis: option.value for axis, option in chosen.items()}
            parts = stock.SCORERS[name](product, selected, goal)
            yield name, goal.product_id, product.id, selected, {part: round(paid, 9) for part, paid in parts.items()}


def findings() -> Iterator[object]:
    index = shop().index
    yield from ((query, index.search(query, limit)) for query in QUERIES for limit in (2, 150))


def pages() -> Iterator[object]:
    for language, renderer in every(("plain", "en", "zh"), stock.RENDERERS):
        place = shop(language=language, renderer=renderer)
        session = place.open()
        opening = session.reset("t0")
        yield language, renderer, opening.observation, opening.state
        for said in WALK:
            name, _, argument = said.partition(" ")
            names = {slot: getattr(place.strings, slot) for slot in ("back", "next", "prev", "attributes", "buy")}
            text = write_call(name, PARAMETERS[name], argument.format(**names)) if name in PARAMETERS else said
            outcome = session.step(text)
            yield said, outcome.feedback, outcome.observation, outcome.state, outcome.done, outcome.termination
        assert outcome.done


def budgets() -> Iterator[object]:
    yield from ((request, budget_of(request)) for request in REQUESTS)


BEHAVIOUR = {
    "what a purchase pays": payments,
    "what a search finds": findings,
    "what a page shows": pages,
    "which budget is read": budgets,
}


def digest(what: str) -> str:
    return content_hash(json.loads(json.dumps(list(BEHAVIOUR[what]()))))


def test_what_a_shop_does_is_frozen_under_the_name_of_its_contract() -> None:
    for what in BEHAVIOUR:
        assert digest(what) == FROZEN[stock.CONTRACT][what], BUMP.format(what=what)


@pytest.mark.parametrize(
    ("module", "name", "value", "changed"),
    [
        (search, "FIELD_WEIGHTS", search.FIELD_WEIGHTS | {"title": 0.5}, {"what a search finds"}),
        (reward, "MATCH_THRESHOLD", 95.0, {"what a purchase pays"}),
        (stock.webshop_reward, "MATCH_THRESHOLD", 95, {"what a purchase pays"}),
        (stock.webshop_reward, "_COLORS", (), {"what a purchase pays"}),
        (reward, "_FUNCTION_WORDS", ("mug",), {"what a purchase pays"}),
        ("intraskill.environments.shopworld.budget", "ABOUT_FACTOR", 1.2, {"which budget is read"}),
        ("intraskill.environments.shopworld.render_plain", "page", lambda state: ["?"], {"what a page shows"}),
    ],
)
def test_a_changed_rule_is_noticed(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, value: object, changed: set[str]
) -> None:
    before = {what: digest(what) for what in BEHAVIOUR}
    if isinstance(module, str):
        monkeypatch.setattr(f"{module}.{name}", value)
    else:
        monkeypatch.setattr(module, name, value)
    assert changed <= {what for what in BEHAVIOUR if digest(what) != before[what]} <= changed | {"what a page shows"}


def test_the_version_tells_the_order_of_options_apart() -> None:
    first = PRODUCTS[0]
    turned = Product(
        **{**{f: getattr(first, f) for f in Product.__slots__}, "axes": dict(reversed(first.axes.items()))}
    )
    versions = [Shop(Catalogue((p, *PRODUCTS[1:])), TASKS, Settings()).version for p in (first, first, turned)]
    assert versions[0] == versions[1] != versions[2]
    assert Catalogue((first,)).hash == Catalogue((turned,)).hash  # which is why the version hashes it apart


def test_the_version_follows_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    before = shop().version
    monkeypatch.setattr(stock, "CONTRACT", "another")
    assert shop().version != before
