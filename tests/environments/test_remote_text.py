"""RemoteShop over servers that only send page texts: same feedback and rewards, states read from texts, no answers."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from environments.faulty_servers import AgentGymShop, Fault, UpstreamShop, serving

from intraskill.environments.leaks import FORBIDDEN_KEYS, is_private_key, leaks
from intraskill.environments.protocol import Session
from intraskill.environments.remote.pages import Browser, SlotNumbers, TextPage, split_parts, without_request
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.remote.transport import RemoteFault
from intraskill.environments.shopworld.proof import Oracle
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.shopworld.world import ShopWorld
from intraskill.environments.tool_calls import ToolCall, read_call, write_call

MOST_ACTIONS, TIMEOUT_S, SLOW_S = 12, 1.0, 5.0
SEARCH = write_call("search", "query", "bag")
MISSTEPS = ("hello", SEARCH + SEARCH, write_call("click", "value", "no such button"))
READ_FROM_TEXT = ("page_type", "search_available", "actions", "last_action", "search_text", "page")
READ_FROM_TEXT += ("selected_options", "available_options", "missing_option_axes", "selected_price")


@pytest.fixture(scope="module", params=["plain", "en", "zh"])
def world(request: pytest.FixtureRequest) -> ShopWorld:
    return ShopWorld("tiny", language=request.param, renderer="sep")


@pytest.fixture(scope="module")
def chinese() -> ShopWorld:
    return ShopWorld("tiny", language="zh", renderer="sep")


def agentgym(url: str, **options: Any) -> RemoteShop:
    return RemoteShop(url=url, persona=False, dialect="webshop-agentgym", **{"backoff_s": 0.01, "slots": 4, **options})


def upstream(url: str, **options: Any) -> RemoteShop:
    sizes = {"train": 6, "skill_validation": 4, "test": 2}
    options = {"split_sizes": sizes, "backoff_s": 0.01, "slots": 4, **options}
    return RemoteShop(url=url, dialect="shopsim-upstream", **options)


def oracle_calls(world: ShopWorld, task_id: str) -> list[str]:
    session, oracle, calls = world.open(), Oracle(world.shop_task(task_id).goal, world.strings), []
    session.reset(task_id)
    for _ in range(MOST_ACTIONS):
        call = oracle.act(session.state)
        calls.append(write_call(call.name, PARAMETERS[call.name], call.argument))
        if session.step(calls[-1]).done:
            return calls
    raise AssertionError(f"the oracle does not solve {task_id}")


def started(remote: RemoteShop, ids: list[str]) -> list[Session]:
    sessions = [remote.open() for _ in ids]
    for session, task_id in zip(sessions, ids, strict=True):
        session.reset(task_id)
    return sessions


def channel(name: str) -> Any:
    """Anything that can be told apart: a holder is never asked anything."""
    return SimpleNamespace(name=name)


def read_value(call: str) -> str:
    """The value that a click names."""
    parsed = read_call(call, PARAMETERS)
    assert isinstance(parsed, ToolCall)
    return parsed.argument


def read(state: Any) -> dict[str, Any]:
    return {key: state[key] for key in READ_FROM_TEXT if key in state}


def kind_of(act: Callable[[], object]) -> str:
    with pytest.raises(RemoteFault) as caught:
        act()
    return caught.value.kind


# -- webshop-agentgym --------------------------------------------------------------------------------------------


def test_agentgym_pages_feedback_and_raw_reward_equal_the_worlds_own(world: ShopWorld) -> None:
    shop = AgentGymShop(world)
    with serving(shop) as server:
        remote = agentgym(server.url, language=world.settings.language)
        assert list(remote.reward_parts) == ["r_strict", "r_loose", "r_success"]
        for task in world.tasks("train")[:4]:
            there, here = remote.open(), world.open()
            first, own = there.reset(task.id), here.reset(task.id)
            assert (first.request, first.observation) == (own.request, own.observation)
            assert read(first.state) == read(own.state)
            actions = oracle_calls(world, task.id)
            for action in [MISSTEPS[0], *actions[:2], *MISSTEPS, *actions[2:]]:
                answer, expected = there.step(action), here.step(action)
                assert (answer.feedback, answer.tool, answer.argument) == (
                    expected.feedback,
                    expected.tool,
                    expected.argument,
                )
                if not answer.done:
                    assert answer.observation == expected.observation
                    assert read(answer.state) == read(expected.state)
                if answer.state["page_type"] == "search_results":
                    rows = [(row["id"], row["price"], row["rank"]) for row in answer.state["products"]]
                    assert rows == [(row["id"], row["price"], row["rank"]) for row in expected.state["products"]]
            assert answer.done and answer.parts == {"r_strict": 1.0, "r_loose": 1.0, "r_success": 1.0}
        assert shop.created == shop.requests["close"] == 4 and not shop.envs, "each env_idx is closed"


def test_agentgym_derives_the_strict_reward_from_the_raw_one(chinese: ShopWorld) -> None:
    shop = AgentGymShop(chinese)
    with serving(shop) as server:
        remote = agentgym(server.url)
        task_id = remote.tasks("train")[0].id
        session = remote.open()
        session.reset(task_id)
        *before, buy = oracle_calls(chinese, task_id)
        for action in before:
            session.step(action)
        shop.queue("step", Fault("patch", patch=lambda reply: reply | {"reward": 0.75}))
        outcome = session.step(buy)
    assert outcome.parts == {"r_strict": 0.0, "r_loose": 0.75, "r_success": 0.0} and outcome.reward == 0.0
    assert "derived-from-raw" in remote.version


@pytest.mark.parametrize("closes", [True, False])
def test_agentgym_closes_what_a_fault_left_and_works_without_that_route(chinese: ShopWorld, closes: bool) -> None:
    shop = AgentGymShop(chinese)
    shop.closes = closes
    with serving(shop) as server:
        remote = agentgym(server.url, step_timeout_s=TIMEOUT_S)
        session = remote.open()
        session.reset(remote.tasks("train")[0].id)
        shop.queue("step", Fault("slow", seconds=SLOW_S))
        assert kind_of(lambda: session.step(SEARCH)) == "timeout"
        assert shop.requests["step"] == shop.requests["close"] == 1 and shop.envs == (set() if closes else {1})
        again = remote.open()
        again.reset(remote.tasks("train")[0].id)
        assert again.step(SEARCH).feedback == "executed" and shop.created == 2
        again.terminate("action_limit")
        assert shop.requests["close"] == 2 and shop.envs == (set() if closes else {1, 2})
        last = remote.open()
        last.reset(remote.tasks("train")[0].id)
        assert shop.created == (3 if closes else 2), "a sound env_idx that cannot be closed is used again"


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("order", [1, -1])
def test_agentgym_episodes_after_a_restart_never_share_an_env_idx(chinese: ShopWorld, closes: bool, order: int) -> None:
    shop = AgentGymShop(chinese)
    shop.closes = closes
    with serving(shop) as server:
        remote = agentgym(server.url, retries=1)
        ids = [task.id for task in remote.tasks("train")[:3]]
        before = started(remote, ids)
        for session in before[::order]:
            session.terminate("action_limit")
        shop.restart()
        earned = []
        lines = [(session, oracle_calls(chinese, one)) for session, one in zip(started(remote, ids), ids, strict=True)]
        assert shop.created == len(shop.envs) == 3
        for turn in range(MOST_ACTIONS):
            answers = [session.step(calls[turn]) for session, calls in lines if turn < len(calls)]
            earned += [answer.reward for answer in answers if answer.done]
    assert earned == [1.0] * 3


@pytest.mark.parametrize("closes", [True, False])
def test_agentgym_episodes_that_a_restart_interrupts_are_faults_and_disturb_nobody(
    chinese: ShopWorld, closes: bool
) -> None:
    shop = AgentGymShop(chinese)
    shop.closes = closes
    with serving(shop) as server:
        remote = agentgym(server.url, retries=1)
        ids = [task.id for task in remote.tasks("train")[:2]]
        late = started(remote, ids)
        shop.restart()
        new, calls = started(remote, ids[:1])[0], oracle_calls(chinese, ids[0])
        sent = shop.requests["step"]
        assert [kind_of(lambda one=one: one.step(SEARCH)) for one in late][0] == "stale_lease"
        assert shop.requests["step"] <= sent + 1, "nothing is sent to a slot that somebody else holds"
        assert [new.step(call) for call in calls][-1].reward == 1.0


def test_a_number_that_a_server_gives_out_twice_belongs_to_the_last_one() -> None:
    numbers, first, second = SlotNumbers(), channel("first"), channel("second")
    assert numbers.take(7, first) and numbers.holds(7, first)
    assert not numbers.take(7, second) and numbers.holds(7, second) and not numbers.holds(7, first)
    numbers.keep(7)
    assert numbers.take_kept(first) is None, "a number in use is never kept"
    assert not numbers.give_back(7, first) and numbers.give_back(7, second)
    numbers.keep(7)
    assert numbers.take(7, first) and numbers.take_kept(second) is None, "a number that is given out is kept no more"
    assert numbers.give_back(7, first)
    numbers.keep(7)
    assert numbers.take_kept(second) == 7 and numbers.holds(7, second)
    numbers.keep(8)
    numbers.forget_kept()
    assert numbers.take_kept(first) is None


def test_agentgym_checks_a_stated_version_at_every_reset(chinese: ShopWorld) -> None:
    shop = AgentGymShop(chinese)
    shop.states_health = True
    with serving(shop) as server:
        remote = agentgym(server.url)
        task_id = remote.tasks("train")[0].id
        assert "/env-8.0/" in remote.version and remote.open().reset(task_id)
        shop.version = "env-9.9"
        with pytest.raises(RemoteFault, match=r"'env-9.9' at this reset and was 'env-8.0'") as caught:
            remote.open().reset(task_id)
    assert caught.value.kind == "version"


def test_upstream_checks_a_stated_version_against_the_first_resets(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)

    def at(version: str) -> Fault:
        return Fault("patch", patch=lambda reply: {"result": reply["result"] | {"environment_version": version}})

    with serving(shop) as server:
        remote = upstream(server.url)
        shop.queue("reset", at("v2.1"), at("v2.1"), at("v2.4"))
        assert remote.open().reset("0") == remote.open().reset("0")
        with pytest.raises(RemoteFault, match=r"'v2.4' at this reset and was 'v2.1'"):
            remote.open().reset("0")
        assert shop.requests["reset"] == 3


def test_agentgym_without_health_and_manifest_needs_split_sizes(chinese: ShopWorld) -> None:
    shop = AgentGymShop(chinese)
    shop.offers_manifest = False
    with serving(shop) as server:
        remote = agentgym(server.url, split_sizes={"train": 3, "test": 2})
        assert [task.id for task in remote.tasks("train")] == ["0", "1", "2"]
        assert [task.id for task in remote.tasks("test")] == ["3", "4"]
        assert remote.open().reset("4").instruction.startswith(chinese.shop_task(shop.tasks[4].id).request)
        assert "unstated" in remote.version


# -- shopsim-upstream --------------------------------------------------------------------------------------------


def test_upstream_feedback_and_recomputed_reward_equal_the_worlds_own(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)
    with serving(shop) as server:
        remote = upstream(server.url)
        for index, task in enumerate(remote.tasks("train")[:4]):
            there, here = remote.open(), chinese.open()
            own = shop.tasks[index]
            assert there.reset(task.id).instruction == here.reset(own.id).instruction
            actions = oracle_calls(chinese, own.id)
            for action in [MISSTEPS[0], *actions[:2], *MISSTEPS, *actions[2:]]:
                answer, expected = there.step(action), here.step(action)
                assert (answer.feedback, answer.done, answer.reward) == (
                    expected.feedback,
                    expected.done,
                    expected.reward,
                )
                assert answer.done or read(answer.state) == read(expected.state)
            assert answer.parts == expected.parts and answer.reward == 1.0
    assert shop.released == [] and not shop.episodes, "the server freed those slots itself"
    assert shop.bodies[-1]["response"] == "\nAction: click[立即购买]"


def test_upstream_shows_no_answer_and_no_full_instruction(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)
    with serving(shop) as server:
        session = upstream(server.url).open()
        first = session.reset("0")
        answer = session.step(SEARCH)
    assert first.persona == "tastes: tea" and "full wish" not in first.request
    for shown in (first, answer):
        assert "the answer" not in repr(shown) and "full wish" not in repr(shown) and leaks(shown.state) == ()
    assert answer.observation.startswith("搜索结果")


def test_upstream_drops_a_persona_that_an_earlier_task_left(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)
    shop.simple = False
    with serving(shop) as server:
        stale = upstream(server.url).open().reset("0")
        shop.simple = True
        plain = upstream(server.url, persona=False).open().reset("0")
    assert stale.persona is None and stale.instruction == "The full wish: 0, waterproof and at most 70"
    assert plain.persona is None and plain.instruction == stale.instruction


def test_upstream_refuses_a_page_that_shows_the_hidden_instruction_elsewhere(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)

    def leak(reply: Any) -> Any:
        text = reply["result"]["instruction"]
        spoiled = text.replace('可点击的按钮: ["', '可点击的按钮: ["The full wish: 0, waterproof and at most 70", "')
        assert spoiled != text
        reply["result"]["instruction"] = spoiled
        return reply

    with serving(shop) as server:
        session = upstream(server.url).open()
        session.reset("0")
        shop.queue("interact", Fault("patch", patch=leak))
        assert kind_of(lambda: session.step(SEARCH)) == "leak"
    assert shop.released == [0]


def test_upstream_never_frees_a_slot_that_a_broken_purchase_may_have_freed(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)
    with serving(shop) as server:
        session = upstream(server.url).open()
        session.reset("0")
        *before, buy = oracle_calls(chinese, shop.tasks[0].id)
        for action in before:
            session.step(action)
        shop.queue("interact", Fault("drop"))
        sent = shop.requests["interact"]
        assert kind_of(lambda: session.step(buy)) == "dropped"
        assert shop.requests["interact"] == sent + 1 and shop.requests["release_one"] == 0
        other = upstream(server.url).open()
        other.reset("1")
        shop.queue("interact", Fault("drop"))
        assert kind_of(lambda: other.step(SEARCH)) == "dropped"
        assert shop.requests["release_one"] == 0, "what was lost may have said that the episode is over"
        third = upstream(server.url).open()
        third.reset("2")
        third.step(SEARCH)
        third.terminate("action_limit")
        assert shop.requests["release_one"] == 1, "a running reply was read, so that slot is ours to give back"


def test_upstream_never_frees_a_slot_that_a_lost_reply_gave_to_somebody_else(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)
    with serving(shop) as server:
        session = upstream(server.url).open()
        session.reset("0")

        def ends(reply: Any) -> Any:
            shop.episodes.clear()
            shop.begin(1, 0)
            return []

        shop.queue("interact", Fault("patch", patch=ends))
        assert kind_of(lambda: session.step(SEARCH)) == "protocol"
    assert shop.released == [] and list(shop.episodes) == [0], "slot 0 is somebody else's by now"


@pytest.mark.parametrize("dialect", ["upstream", "agentgym"])
def test_a_purchase_whose_slot_goes_to_the_next_one_at_once_counts_where_it_frees_the_slot(
    chinese: ShopWorld, dialect: str
) -> None:
    shop = UpstreamShop(chinese) if dialect == "upstream" else AgentGymShop(chinese)
    with serving(shop) as server:
        remote = upstream(server.url) if dialect == "upstream" else agentgym(server.url)
        (session,) = started(remote, [remote.tasks("train")[0].id])
        channel_now: Any = session._episode._channel  # type: ignore[attr-defined]
        *before, buy = oracle_calls(chinese, shop.tasks[0].id)
        for action in before:
            session.step(action)

        def taken_at_once(reply: Any) -> Any:
            channel_now._numbers.take(channel_now._env_idx, channel("next"))
            return reply

        shop.queue("interact" if dialect == "upstream" else "step", Fault("patch", patch=taken_at_once))
        if dialect == "upstream":
            assert session.step(buy).reward == 1.0 and shop.released == []
        else:
            assert kind_of(lambda: session.step(buy)) == "stale_lease" and shop.requests["close"] == 0


def test_upstream_episodes_that_a_restart_interrupts_send_nothing_to_the_next_holder(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)
    with serving(shop) as server:
        remote = upstream(server.url)
        (late,) = started(remote, ["0"])
        shop.episodes.clear()
        (new,) = started(remote, ["1"])
        sent = shop.requests["interact"]
        assert kind_of(lambda: late.step(SEARCH)) == "stale_lease"
        assert shop.requests["interact"] == sent
        assert shop.released == [0] and shop.requests["reset"] == 3, "an episode in which the late one may have acted"
        calls = oracle_calls(chinese, shop.tasks[1].id)
        assert [new.step(call) for call in calls][-1].reward == 1.0


def test_upstream_errors_in_a_200_are_faults(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)
    with serving(shop) as server:
        session = upstream(server.url).open()
        session.reset("0")
        shop.queue("interact", Fault("error_200"))
        with pytest.raises(RemoteFault, match="scripted failure") as caught:
            session.step(SEARCH)
        assert caught.value.kind == "server" and shop.requests["interact"] == 1


@pytest.mark.parametrize("text", ["no footer", "x\n\n搜索功能是否可用: Maybe\n\n可点击的按钮: []", None])
def test_upstream_pages_without_their_footer_are_faults(chinese: ShopWorld, text: Any) -> None:
    shop = UpstreamShop(chinese)

    def spoil(reply: Any) -> Any:
        reply["result"]["instruction"] = text
        return reply

    with serving(shop) as server:
        session = upstream(server.url).open()
        session.reset("0")
        shop.queue("interact", Fault("patch", patch=spoil))
        assert kind_of(lambda: session.step(SEARCH)) == "protocol"


def test_upstream_over_without_done_is_an_episode_without_a_purchase(chinese: ShopWorld) -> None:
    shop = UpstreamShop(chinese)

    def cut(reply: Any) -> Any:
        reply["result"] |= {"over": True}
        return reply

    with serving(shop) as server:
        remote = upstream(server.url)
        session = remote.open()
        session.reset("0")
        shop.queue("interact", Fault("patch", patch=cut))
        outcome = session.step(SEARCH)
    assert outcome.done and outcome.termination == "action_limit" and not any(outcome.parts.values())
    assert shop.requests["release_one"] == 0 and "upstream-random-price" in remote.version


def test_upstream_versions_never_equal_those_of_another_profile(chinese: ShopWorld) -> None:
    with serving(UpstreamShop(chinese)) as first, serving(AgentGymShop(chinese)) as second:
        sizes = {"train": 3}
        assert upstream(first.url, split_sizes=sizes).version != upstream(first.url, split_sizes={"train": 4}).version
        assert upstream(first.url).version == upstream(first.url).version
        assert upstream(first.url, persona=False).version.split("/")[1] != agentgym(second.url).version.split("/")[1]


@pytest.mark.parametrize("dialect", ["upstream", "agentgym"])
@pytest.mark.parametrize("key", ["用户ID", "note"])
def test_an_identifier_is_dropped_and_an_id_elsewhere_is_a_leak_once_it_is_a_button(
    chinese: ShopWorld, dialect: str, key: str
) -> None:
    shop = UpstreamShop(chinese) if dialect == "upstream" else AgentGymShop(chinese)
    gold = chinese.shop_task(shop.tasks[0].id).goal.product_id

    def name_it(reply: Any) -> Any:
        if dialect == "upstream":
            reply["result"]["user_persona"] = {key: f"U{gold}, ", "tastes": "tea"}
            return reply
        wish = shop.wishes[1]
        shop.wishes[1] = f"{wish}\n{key}: U{gold}\ntastes: tea"
        return [reply[0].replace(wish, shop.wishes[1]), None]

    with serving(shop) as server:
        remote = upstream(server.url) if dialect == "upstream" else agentgym(server.url)
        session = remote.open()
        shop.queue("reset", Fault("patch", patch=name_it))
        first = session.reset(remote.tasks("train")[0].id)
        search = oracle_calls(chinese, shop.tasks[0].id)[0]
        assert first.request.endswith("tastes: tea") and (gold in first.request) == (key == "note")
        if key == "note":
            assert kind_of(lambda: session.step(search)) == "leak"
        else:
            assert gold in session.step(search).state["actions"]


# -- pages of the real WebShop -----------------------------------------------------------------------------------


def test_a_webshop_product_page_is_read_into_axes_and_prices() -> None:
    text = "Back to Search [SEP] Page 1 (Total results: 42) [SEP] Next > [SEP] B01ABC [SEP] Mug [SEP] $9.50"
    results = TextPage(tuple(split_parts(text)), False, ("back to search", "next >", "b01abc"))
    browser = Browser(TextPage(("search",), True, ()))
    browser.follow(ToolCall("search", "mug"), results)
    state = browser.state(None)
    assert (state["page_type"], state["total_results"], state["search_text"]) == ("search_results", 42, "mug")
    assert state["products"][0] | {"id": "b01abc", "title": "Mug", "price": 9.5, "rank": 1} == state["products"][0]
    text = "Back to Search [SEP] < Prev [SEP] size [SEP] S [SEP] XL [SEP] Mug [SEP] Price: $9 to $12.00 [SEP] Buy Now"
    product = TextPage(tuple(split_parts(text)), False, ("back to search", "< prev", "s", "xl", "buy now"))
    browser.follow(ToolCall("click", "b01abc"), product)
    assert browser.state(None)["available_options"] == {"size": ["s", "xl"]}
    browser.follow(ToolCall("click", "xl"), product)
    state = browser.state(None)
    assert state["selected_options"] == {"size": "xl"} and state["options_complete"]
    assert state["product"]["title"] == "Mug" and state["selected_price"] == 12.0
    assert browser.refusal(ToolCall("click", "buy now")) is browser.refusal(ToolCall("click", "Buy Now")) is None
    assert browser.refusal(ToolCall("search", "cup")) == "search_unavailable"


# Pages in the shape of the public servers, made up here: parts joined by [SEP], clickables in lower case.


def browsing(kind: str, text: str, *buttons: str) -> Browser:
    return Browser(TextPage(tuple(split_parts(text)), False, buttons), kind=kind)


def test_buttons_are_matched_in_any_case_and_followed_in_the_servers_spelling() -> None:
    browser = browsing("search_results", "Back to Search [SEP] B01ABC [SEP] Mug [SEP] $9", "back to search", "b01abc")
    assert [browser.button(words) for words in ("B01ABC", "Back to Search", "B02")] == [
        "b01abc",
        "back to search",
        None,
    ]
    twins = browsing("product_detail", "size [SEP] S [SEP] s", "S", "s", "m")
    assert [twins.button(words) for words in ("S", "s", "M")] == ["S", "s", "m"]
    assert browsing("product_detail", "size", "Ab", "aB").refusal(ToolCall("click", "AB")) == "unavailable_action"


def test_agentgym_sends_a_click_in_capitals_as_the_server_spells_it(world: ShopWorld) -> None:
    shop = AgentGymShop(world)
    with serving(shop) as server:
        session = agentgym(server.url, language=world.settings.language).open()
        session.reset(shop.tasks[0].id)
        calls = oracle_calls(world, shop.tasks[0].id)
        session.step(calls[0])
        product = session.step(calls[1].replace(chosen := read_value(calls[1]), chosen.swapcase()))
        assert product.feedback == "executed" and product.state["product"]["id"] == chosen
        assert [body["action"] for body in shop.bodies if "action" in body][-1] == f"click[{chosen}]"


@pytest.mark.parametrize("name", ["Description", "Features", "Reviews"])
def test_a_webshop_subpage_is_known_and_leads_back_to_its_product(name: str) -> None:
    text = "Back to Search [SEP] < Prev [SEP] Mug [SEP] Price: $9 [SEP] Description [SEP] Features [SEP] Reviews"
    product = TextPage(
        tuple(split_parts(text)), False, ("back to search", "< prev", "description", "features", "reviews", "buy now")
    )
    browser = Browser(product, kind="product_detail")
    assert browser.refusal(ToolCall("click", name)) is None
    browser.follow(ToolCall("click", name), TextPage(("Back to Search", "< Prev", "words"), False, ("< prev",)))
    assert browser.kind == "information_subpage" and browser.selected == {}
    browser.follow(ToolCall("click", "< Prev"), product)
    assert browser.kind == "product_detail" and browser.offered == {}


def test_an_option_is_split_at_its_equals_sign_only_where_all_are() -> None:
    mixed = browsing("product_detail", "款式 [SEP] a=b款 [SEP] 标准款", "a=b款", "标准款")
    mixed._arrive(mixed.page)
    assert mixed.offered == {"款式": ["a=b款", "标准款"]}
    mixed.follow(ToolCall("click", "a=b款"), mixed.page)
    assert mixed.selected == {"款式": "a=b款"}
    alone = browsing("product_detail", "款式 [SEP] a=b款", "a=b款")
    alone._arrive(alone.page)
    assert alone.offered == {"款式": ["a=b款"]}
    named = browsing("product_detail", "规格 款式: 甲、乙", "款式=甲", "款式=乙")
    named._arrive(named.page)
    assert named.offered == {"款式": ["甲", "乙"]}


def test_the_price_is_the_labelled_part_and_no_options_text() -> None:
    text = "套餐 [SEP] 价格（含税¥99） [SEP] 价格（面议） [SEP] 杯 [SEP] 价格: 12"
    browser = browsing("product_detail", text, "价格（含税¥99）", "价格（面议）")
    assert browser.state(None)["selected_price"] == 12.0


def test_no_results_have_no_pages_though_a_button_leads_on() -> None:
    browser = browsing("search_results", "Page 1 (Total results: 0) [SEP] Next >", "back to search", "next >")
    state = browser.state(None)
    assert (state["total_results"], state["total_pages"], state["products"]) == (0, 0, [])


@pytest.mark.parametrize("option", ["黑色[加厚]", "a]b", "two  spaces"])
def test_an_option_that_no_action_text_can_carry_is_refused_here(option: str) -> None:
    browser = browsing("product_detail", f"款式 [SEP] {option} [SEP] 白色", option, "白色")
    assert browser.refusal(ToolCall("click", option)) == "unsendable_action"
    assert browser.refusal(ToolCall("click", "白色")) is None


def test_the_request_is_taken_off_a_page_once_and_nothing_else() -> None:
    parts = split_parts("WebShop [SEP] Instruction: [SEP] Find a mug [SEP] Search")
    assert without_request(parts) == ("Find a mug", ("Search",))
    assert without_request(["需求:", "买  杯子", "搜索页"], "买 杯子") == ("", ("搜索页",))
    assert without_request(["Back to Search", "Mug"], "") == ("", ("Back to Search", "Mug"))


# -- keys that tell an answer ------------------------------------------------------------------------------------


def test_a_key_is_private_in_any_case_and_with_or_without_underscores() -> None:
    for name in FORBIDDEN_KEYS:
        camel = "".join(word.title() for word in name.split("_"))
        assert all(map(is_private_key, (name, name.upper(), name.replace("_", "-"), f"_{name}", camel)))
    for name in ("goalkeeper", "目标goal", "reason", "price", "", 3):
        assert not is_private_key(name)
