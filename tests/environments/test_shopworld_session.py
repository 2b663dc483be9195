"""Pages, actions, feedback codes, and what the public state may never hold."""

import json

import pytest

from intraskill.environments.protocol import Outcome
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.session import PARAMETERS, ShopSession
from intraskill.environments.shopworld.strings import STRINGS
from intraskill.environments.tool_calls import ToolCall, read_call, write_call
from intraskill.method.errors import ConfigError, SplitError

PLAIN = STRINGS["plain"]
BACK, BUY, NEXT, PREV = PLAIN.back, PLAIN.buy, PLAIN.next, PLAIN.prev


@pytest.fixture(scope="module")
def world() -> ShopWorld:
    return ShopWorld("tiny", 0, page_size=4, language="plain")


def search(session: ShopSession, query: str) -> Outcome:
    return session.step(write_call("search", "query", query))


def click(session: ShopSession, value: str) -> Outcome:
    return session.step(write_call("click", "value", value))


def product_page(world: ShopWorld, task_id: str) -> tuple[ShopSession, Outcome]:
    session = world.open()
    session.reset(task_id)
    search(session, world.shop_task(task_id).goal.title)
    return session, click(session, world.shop_task(task_id).goal.product_id)


def test_a_whole_purchase_earns_full_success(world: ShopWorld) -> None:
    task_id = world.tasks("train")[0].id
    session, outcome = product_page(world, task_id)
    for axis, value in world.shop_task(task_id).goal.options.items():
        outcome = click(session, f"{axis}={value}")
        assert outcome.feedback == "executed" and not outcome.done
    outcome = click(session, BUY)
    assert outcome.done and outcome.termination == "purchase"
    assert outcome.reward == outcome.parts["r_strict"] == outcome.parts["r_success"] == 1.0
    with pytest.raises(RuntimeError, match="is over"):
        click(session, BUY)


def test_every_feedback_code_leaves_the_page_as_it_was(world: ShopWorld) -> None:
    task_id = next(t.id for t in world.tasks("train") if world.shop_task(t.id).goal.options)
    session = world.open()
    session.reset(task_id)
    assert session.step("hello").feedback == "invalid_format"
    assert session.step(write_call("search", "query", " ")).feedback == "empty_argument"
    assert session.step(write_call("search", "query", "a") * 2).feedback == "multiple_actions_not_allowed"
    assert click(session, "k999").feedback == "unavailable_action"
    assert session.state["page_type"] == "search_home"
    session, outcome = product_page(world, task_id)
    axis, value = next(iter(world.shop_task(task_id).goal.options.items()))
    assert search(session, "mug").feedback == "search_unavailable"
    assert click(session, BUY).feedback == "incomplete_options"
    assert click(session, f"{axis}={value}").feedback == "executed"
    assert click(session, f"{axis}={value}").feedback == "already_selected"
    assert click(session, "size=enormous").feedback == "unavailable_action"
    assert session.state["page_type"] == "product_detail"
    assert outcome.feedback == "executed"


def test_results_are_paged_and_the_way_back_keeps_its_place(world: ShopWorld) -> None:
    task = world.shop_task(world.tasks("train")[0].id)
    session = world.open()
    session.reset(task.id)
    first = search(session, task.goal.category[-1]).state
    assert [row["rank"] for row in first["products"]] == [1, 2, 3, 4]
    assert NEXT in first["actions"] and PREV not in first["actions"]
    second = click(session, NEXT).state
    assert second["page"] == 2 and PREV in second["actions"]
    assert not {row["id"] for row in first["products"]} & {row["id"] for row in second["products"]}
    opened = second["products"][0]["id"]
    click(session, opened)
    assert click(session, PREV).state["page"] == 2
    assert click(session, BACK).state["page_type"] == "search_home"


def test_the_attributes_page_keeps_chosen_options(world: ShopWorld) -> None:
    task_id = next(t.id for t in world.tasks("train") if world.shop_task(t.id).goal.options)
    session, _ = product_page(world, task_id)
    axis, value = next(iter(world.shop_task(task_id).goal.options.items()))
    click(session, f"{axis}={value}")
    page = click(session, "attributes").state
    assert page["page_type"] == "information_subpage" and page["product"]["attributes"]
    assert click(session, PREV).state["selected_options"] == {axis: value}


def test_the_price_line_follows_the_chosen_variant(world: ShopWorld) -> None:
    priced = next(p for p in world.catalogue.products if any(v.price for v in p.axes.get("size", ())))
    dearest = max(priced.axes["size"], key=lambda v: v.price or 0)
    assert priced.price_of({"size": dearest.value}) == dearest.price != priced.price
    assert priced.price_of({}) == priced.price


def test_a_snapshot_restores_the_episode(world: ShopWorld) -> None:
    session, _ = product_page(world, world.tasks("train")[0].id)
    before, snapshot = session.state, session.snapshot()
    click(session, BACK)
    assert session.state != before
    session.restore(snapshot)
    assert session.state == before


def test_no_page_ever_shows_the_goal(world: ShopWorld) -> None:
    for task in world.tasks("train"):
        goal = world.shop_task(task.id).goal
        session = world.open()
        opening = session.reset(task.id)
        assert goal.product_id not in opening.observation + opening.request
        assert goal.title not in opening.request
        keys = json.dumps(product_page(world, task.id)[1].state)
        assert not any(word in keys for word in ("goal", "reward", "target", "answer", "r_att"))


def spoil(value: object) -> None:
    """Empty every list and dictionary inside a state."""
    if isinstance(value, dict | list):
        for part in list(value.values() if isinstance(value, dict) else value):
            spoil(part)
        value.clear()


def test_a_state_belongs_to_its_caller(world: ShopWorld) -> None:
    task_id = world.tasks("train")[0].id
    untouched, spoilt = product_page(world, task_id), product_page(world, task_id)
    for state in (spoilt[1].state, spoilt[0].state):
        spoil(state)
        assert not state
    for value in (PREV, BACK):
        wanted, found = (click(session, value) for session, _ in (untouched, spoilt))
        assert found.observation == wanted.observation and found.state == wanted.state
        spoil(found.state)
        assert spoilt[0].state == untouched[0].state
    assert product_page(world, task_id)[1].state["product"]["key_attributes"]


def test_termination_scores_zero_on_every_component(world: ShopWorld) -> None:
    session = world.open()
    session.reset(world.tasks("train")[0].id)
    outcome = session.terminate("action_limit")
    assert outcome.done and outcome.termination == "action_limit"
    assert set(outcome.parts) == set(world.reward_parts) and not any(outcome.parts.values())


def test_bad_settings_and_unknown_tasks_are_refused(world: ShopWorld) -> None:
    with pytest.raises(ConfigError, match="choose one of tiny, small"):
        ShopWorld("huge")
    with pytest.raises(ConfigError, match="structured or sep"):
        ShopWorld("tiny", renderer="html", language="plain")
    with pytest.raises(SplitError, match="no task 'shop-99999'"):
        world.open().reset("shop-99999")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool_call>{"name": "click", "arguments": {"value": "buy now"}}</tool_call>', ToolCall("click", "buy now")),
        ('so <tool_call>{"name": "search", "arguments": {"query": "a b"}}</tool_call>', ToolCall("search", "a b")),
        ('<tool_call>{"name": "pay", "arguments": {"value": "x"}}</tool_call>', "invalid_format"),
        ('<tool_call>{"name": "click", "arguments": {"query": "x"}}</tool_call>', "invalid_format"),
        ('<tool_call>{"name": "click", "arguments": {"value": 3}}</tool_call>', "invalid_format"),
        ('<tool_call>{"name": "click", "arguments": {"value": "x", "y": 1}}</tool_call>', "invalid_format"),
        ("<tool_call>[1]</tool_call>", "invalid_format"),
        ("<tool_call>{", "invalid_format"),
        ('<tool_call>{"name": "click", "arguments": {"value": ""}}</tool_call>', "empty_argument"),
        # half a character cannot be written to any file; its whole pair is one character
        (r'<tool_call>{"name": "search", "arguments": {"query": "mug \ud83d"}}</tool_call>', "invalid_format"),
        (r'<tool_call>{"name": "search", "arguments":{"query": "\ud83d\ude00"}}</tool_call>', ToolCall("search", "😀")),
        # nesting without end
        ("<tool_call>" + "[" * 1_000 + "</tool_call>", "invalid_format"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "invalid_format"),
        ('<tool_call>{"name":' + '{"a":' * 100_000 + "</tool_call>", "invalid_format"),
    ],
)  # fmt: skip
def test_exactly_one_well_formed_call_is_read(text: str, expected: ToolCall | str) -> None:
    assert read_call(text, PARAMETERS) == expected


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("renderer", ["structured", "sep"])
def test_a_market_is_shopped_with_the_buttons_of_its_language(language: str, renderer: str) -> None:
    market, words = ShopWorld("tiny", 0, language=language, renderer=renderer), STRINGS[language]
    task = market.shop_task(market.tasks("train")[0].id)
    session, outcome = product_page(market, task.id)
    title, brand = task.goal.title, market.catalogue.by_id[task.goal.product_id].brand
    assert title in outcome.observation and f"{words.labels['brand']}: {brand}" in outcome.observation
    assert all(text in outcome.observation for text in outcome.state["product"]["bullets"])
    assert click(session, words.attributes).state["page_type"] == "information_subpage"
    assert click(session, words.prev).state["page_type"] == "product_detail"
    if language == "zh":
        assert click(session, BUY).feedback == "unavailable_action"
    for axis, value in task.goal.options.items():
        outcome = click(session, f"{axis}={value}")
    price = market.catalogue.by_id[task.goal.product_id].price_of(task.goal.options)
    assert f"{words.labels['price']}: {words.labels['currency']}{price:g}" in outcome.observation
    outcome = click(session, words.buy)
    assert outcome.done and outcome.reward == 1.0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_page_of_a_market_shows_the_goal(language: str) -> None:
    market = ShopWorld("tiny", 0, language=language)
    for task in market.tasks("train"):
        goal = market.shop_task(task.id).goal
        opening = market.open().reset(task.id)
        assert goal.product_id not in opening.observation + opening.request
        assert goal.title not in opening.request
        state = product_page(market, task.id)[1].state
        assert not {"goal", "reward", "target", "answer", "r_att", "query"} & keys_in(state)


def keys_in(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys_in(item)}
    return {key for item in value for key in keys_in(item)} if isinstance(value, list) else set()


def test_the_two_renderers_show_the_same_state() -> None:
    compact, upstream = ShopWorld("tiny", language="plain"), ShopWorld("tiny", renderer="sep", language="plain")
    task_id = compact.tasks("train")[0].id
    pages = [product_page(world, task_id)[1] for world in (compact, upstream)]
    assert pages[0].state == pages[1].state
    assert " [SEP] " in pages[1].observation and " [SEP] " not in pages[0].observation
    assert compact.version != upstream.version
