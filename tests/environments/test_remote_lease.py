"""RemoteShop over ``shopsim-lease``: the world's own answers, and one typed fault for everything that goes wrong."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from environments.faulty_servers import Fault, LeaseShop, serving

from intraskill.environments.protocol import Session
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.remote.transport import RemoteFault
from intraskill.environments.shopworld.proof import Oracle
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.shopworld.world import ShopWorld
from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError, EnvironmentFault, SplitError

SLOW_S, TIMEOUT_S, PATIENCE_S, BRIEF_S = 5.0, 1.0, 0.3, 0.01
MOST_ACTIONS = 12
SEARCH = write_call("search", "query", "bag")
NOT_CALLS = ("hello", SEARCH + SEARCH, write_call("search", "query", " "), '<tool_call>{"name": 1}</tool_call>')


@pytest.fixture(scope="module")
def world() -> ShopWorld:
    return ShopWorld("tiny")


@pytest.fixture
def shop(world: ShopWorld) -> LeaseShop:
    return LeaseShop(world)


@pytest.fixture
def url(shop: LeaseShop) -> Iterator[str]:
    with serving(shop) as server:
        yield server.url


def client(url: str, **options: Any) -> RemoteShop:
    return RemoteShop("persona", url=url, **{"backoff_s": BRIEF_S, "slots": 4, **options})


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def started(shop: RemoteShop, index: int = 0) -> Session:
    session = shop.open()
    session.reset(shop.tasks("train")[index].id)
    return session


def kind_of(act: Callable[[], object]) -> str:
    with pytest.raises(RemoteFault) as caught:
        act()
    return caught.value.kind


def oracle_calls(world: ShopWorld, task_id: str) -> list[str]:
    session, oracle, calls = world.open(), Oracle(world.shop_task(task_id).goal, world.strings), []
    session.reset(task_id)
    for _ in range(MOST_ACTIONS):
        call = oracle.act(session.state)
        calls.append(write_call(call.name, PARAMETERS[call.name], call.argument))
        if session.step(calls[-1]).done:
            return calls
    raise AssertionError(f"the oracle does not solve {task_id}")


@pytest.mark.parametrize(("language", "renderer"), [("plain", "structured"), ("en", "structured"), ("zh", "sep")])
def test_every_answer_equals_the_worlds_own_step_by_step(language: str, renderer: str) -> None:
    world = ShopWorld("tiny", language=language, renderer=renderer)
    shop = LeaseShop(world)
    noise = [*NOT_CALLS, write_call("click", "value", "no such button"), SEARCH]
    with serving(shop) as server:
        remote = client(server.url)
        assert remote.tools == world.tools and remote.family == world.family
        assert list(remote.reward_parts) == list(world.reward_parts)
        for task in world.tasks("train")[:6]:
            there, here = remote.open(), world.open()
            assert there.reset(task.id) == here.reset(task.id)
            actions = oracle_calls(world, task.id)
            for action in [*noise[:3], *actions[:2], *noise[3:], *actions[2:]]:
                answer = there.step(action)
                assert answer == here.step(action)
            assert answer.done and answer.reward == 1.0
        assert not shop.episodes and shop.requests["release_one"] == shop.requests["reset"] == 6


def test_tasks_and_features_come_from_the_servers_manifest(url: str, world: ShopWorld) -> None:
    remote = client(url)
    for split in ("train", "skill_validation", "test"):
        assert {t.id for t in remote.tasks(split)} == {t.id for t in world.tasks(split)}
        assert all(task.split == split for task in remote.tasks(split))
    assert not hasattr(remote, "solvable")
    with pytest.raises(SplitError, match="no task 'nowhere'"):
        remote.open().reset("nowhere")


def test_nothing_is_sent_before_something_is_asked(shop: LeaseShop, url: str) -> None:
    remote = client(url)
    assert remote.tools and remote.reward_parts and not shop.requests
    assert remote.tasks("train") and shop.requests == {"healthz": 1, "manifest": 1}
    assert remote.version and remote.tasks("test") and shop.requests == {"healthz": 1, "manifest": 1}


def test_a_limit_ends_the_episode_with_zero_on_every_part(shop: LeaseShop, url: str) -> None:
    remote = client(url)
    session = started(remote)
    outcome = session.terminate("action_limit")
    assert outcome.done and outcome.reward == 0.0 and outcome.termination == "action_limit"
    assert outcome.parts == dict.fromkeys(remote.reward_parts, 0.0)
    assert shop.requests["terminate"] == shop.requests["release_one"] == 1
    for act in (lambda: session.step(SEARCH), lambda: session.terminate("action_limit"), lambda: session.reset("x")):
        with pytest.raises(RuntimeError, match="open another"):
            act()


def test_a_text_that_is_no_call_never_reaches_the_server(shop: LeaseShop, url: str) -> None:
    session = started(client(url))
    smuggled = "Action: click[buy now]"
    codes = [session.step(text).feedback for text in (*NOT_CALLS, smuggled)]
    assert codes[:3] == ["invalid_format", "multiple_actions_not_allowed", "empty_argument"]
    assert codes[3:] == ["invalid_format", "invalid_format"] and shop.requests["interact"] == 0
    assert session.step(SEARCH).feedback == "executed" and shop.requests["interact"] == 1


@pytest.mark.parametrize("query", ["bag]\nAction: click[buy now", "bag]\\nAction: click[buy now"])
def test_a_query_cannot_start_a_second_action(shop: LeaseShop, url: str, query: str) -> None:
    session = started(client(url))  # kept: a session that is thrown away gives its lease back, which is a request too
    session.step(write_call("search", "query", query))
    assert shop.bodies[-1]["response"] == "search[bag] Action: click[buy now]"


def test_a_persona_of_sections_becomes_text_and_is_asked_for_by_an_option(shop: LeaseShop, url: str) -> None:
    sections = {"basics": {"age": 41, "tags": ["runner", "cook"]}, "history": ["mug", {"item": "pan"}], "note": " x  y"}

    def persona(reply: Any) -> Any:
        reply["result"]["user_persona"] = sections
        return reply

    shown = "basics:\n  age: 41\n  tags: runner; cook\nhistory: mug; item: pan\nnote: x y"
    for persona_asked, text in ((True, shown), (False, None)):
        shop.queue("reset", Fault("patch", patch=persona))
        remote = RemoteShop(url=url, slots=2, persona=persona_asked)
        session = remote.open()
        assert session.reset(remote.tasks("train")[0].id).persona == text
        asked = [body for body in shop.bodies if body.get("action") == "reset"][-1]
        assert asked["if_persona"] == persona_asked and asked["include_private_goal"] is False


@pytest.mark.parametrize(
    "form",
    [{"用户ID": "U111111111111", "age": 41}, "age: 41\n用户ID：U111111111111", '{"uid": "U111111111111", "age": 41}'],
)
def test_identifiers_of_a_persona_are_dropped(shop: LeaseShop, url: str, form: Any) -> None:
    def persona(reply: Any) -> Any:
        reply["result"]["user_persona"] = form
        return reply

    shop.queue("reset", Fault("patch", patch=persona))
    remote = client(url)
    assert (remote.open().reset(remote.tasks("train")[0].id).persona or "").strip() == "age: 41"


def test_an_id_of_the_opening_that_becomes_a_button_is_a_leak(shop: LeaseShop, url: str, world: ShopWorld) -> None:
    remote = client(url)
    task_id = remote.tasks("train")[0].id
    gold = world.shop_task(task_id).goal.product_id

    def persona(reply: Any) -> Any:
        reply["result"]["user_persona"] = f"bought U{gold} before"
        return reply

    shop.queue("reset", Fault("patch", patch=persona))
    session = remote.open()
    session.reset(task_id)
    with pytest.raises(RemoteFault, match="offers 1 product whose id its request or persona shows") as caught:
        session.step(oracle_calls(world, task_id)[0])
    assert caught.value.kind == "leak" and gold not in str(caught.value)
    assert shop.requests["release_one"] == 1


# -- faults ------------------------------------------------------------------------------------------------------


def test_a_purchase_that_breaks_off_is_sent_once_and_is_a_fault_not_zero(
    shop: LeaseShop, url: str, world: ShopWorld
) -> None:
    remote = client(url)
    task_id = remote.tasks("train")[0].id
    session = remote.open()
    session.reset(task_id)
    *before, buy = oracle_calls(world, task_id)
    assert all(not session.step(action).done for action in before)
    sent = shop.requests["interact"]
    shop.queue("interact", Fault("drop"))
    with pytest.raises(RemoteFault, match="may have happened") as caught:
        session.step(buy)
    assert caught.value.kind == "dropped" and isinstance(caught.value, EnvironmentFault)
    assert shop.requests["interact"] == sent + 1, "a purchase is never sent twice"
    assert shop.requests["release_one"] == 1 and not shop.episodes
    with pytest.raises(RuntimeError, match=r"is over \(fault\)"):
        session.step(buy)


def test_a_slow_action_is_a_timeout_and_is_not_sent_again(shop: LeaseShop, url: str) -> None:
    session = started(client(url, step_timeout_s=TIMEOUT_S))
    shop.queue("interact", Fault("slow", seconds=SLOW_S))
    assert kind_of(lambda: session.step(SEARCH)) == "timeout"
    assert shop.requests["interact"] == 1 and eventually(lambda: shop.requests["release_one"] == 1)


def test_a_slow_reset_is_tried_again_and_then_works(shop: LeaseShop, url: str) -> None:
    shop.queue("reset", Fault("slow", seconds=SLOW_S), Fault("status", status=500), Fault("error_200"))
    session = started(client(url, reset_timeout_s=TIMEOUT_S))
    assert shop.requests["reset"] == 4
    assert session.step(SEARCH).feedback == "executed"


def test_attempts_are_bounded(shop: LeaseShop, url: str) -> None:
    shop.queue("reset", *[Fault("status", status=503)] * 9)
    remote = client(url, retries=2)
    assert kind_of(lambda: started(remote)) == "server" and shop.requests["reset"] == 3


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("error_200"), "server"),
        (Fault("garbage"), "protocol"),
        (Fault("status", status=500), "server"),
        (Fault("status", status=400), "bad_request"),
        (Fault("status", status=302), "protocol"),
        (Fault("patch", patch=lambda reply: []), "protocol"),
        (Fault("patch", patch=lambda reply: {"result": {}}), "protocol"),
    ],
)
def test_each_bad_reply_to_an_action_is_its_own_fault(shop: LeaseShop, url: str, fault: Fault, kind: str) -> None:
    session = started(client(url))
    shop.queue("interact", fault)
    assert kind_of(lambda: session.step(SEARCH)) == kind
    assert shop.requests["interact"] == 1 and shop.requests["release_one"] == 1 and not shop.episodes


def test_an_error_message_never_quotes_a_reply(shop: LeaseShop, url: str) -> None:
    session = started(client(url))
    shop.queue("interact", Fault("garbage"))
    with pytest.raises(RemoteFault) as caught:
        session.step(SEARCH)
    assert "17 bytes of application/json, not JSON" in str(caught.value) and "oops" not in str(caught.value)


def test_a_stale_lease_is_a_fault_and_is_not_released(shop: LeaseShop, url: str) -> None:
    session = started(client(url))
    shop.leases[0] = "somebody else's"
    assert kind_of(lambda: session.step(SEARCH)) == "stale_lease"
    assert shop.requests["release_one"] == 0 and shop.leases[0] == "somebody else's"


def test_a_lease_is_released_once_however_the_session_ends(shop: LeaseShop, url: str) -> None:
    remote = client(url)
    session = started(remote)
    session.terminate("generation_length")
    session._close()
    del session
    gc.collect()
    forgotten = started(remote)
    del forgotten
    gc.collect()
    assert eventually(lambda: shop.requests["release_one"] == 2) and not shop.episodes
    assert shop.requests["reset"] == 2


def test_a_session_that_is_open_when_the_process_ends_is_released(shop: LeaseShop, url: str) -> None:
    code = (
        "from intraskill.environments.remote.shop import RemoteShop\n"
        f"remote = RemoteShop(url={url!r}, slots=2)\n"
        "session = remote.open()\n"
        "session.reset(remote.tasks('train')[0].id)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert shop.requests["reset"] == shop.requests["release_one"] == 1 and not shop.episodes


def test_a_policy_that_writes_a_private_name_gets_its_page(shop: LeaseShop, url: str) -> None:
    outcome = started(client(url)).step(write_call("search", "query", "reason_key\ngoal_options"))
    assert outcome.feedback == "executed" and outcome.state["search_text"] == "reason_key goal_options"


def test_a_failed_release_is_logged_and_costs_no_reward(
    shop: LeaseShop, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = started(client(url))
    shop.queue("release_one", Fault("status", status=409))
    assert session.terminate("action_limit").done
    assert "a slot may stay taken" in caplog.text and shop.requests["release_one"] == 1


@pytest.mark.parametrize("what", ["environment_version", "observation_version"])
def test_a_server_of_another_version_is_refused_at_a_later_reset(shop: LeaseShop, url: str, what: str) -> None:
    remote = client(url)
    first = started(remote)

    def change(reply: Any) -> Any:
        reply["result"] |= {what: "env-9.9"}
        return reply

    shop.queue("reset", Fault("patch", patch=change))
    with pytest.raises(RemoteFault, match=f"{what} is 'env-9.9' at this reset and was '(env-8.0|obs-2)'") as caught:
        started(remote, 1)
    assert caught.value.kind == "version" and shop.requests["release_one"] == 1
    assert first.step(SEARCH).feedback == "executed"


@pytest.mark.parametrize(
    ("action", "place", "value"),
    [
        ("reset", "goal_options", ["red"]),
        ("reset", "user_persona", {"taste": {"__reasoning__": "red"}}),
        ("interact", "goal", {"asin": "B1"}),
        ("interact", "targetAsin", "B1"),
        ("interact", "Gold_Product", {"asin": "B1"}),
        ("interact", "observation", "page one, goal_options: red"),
        ("interact", "observation_state", {"page_type": "search_results", "products": [{"id": "B1", "targetAsin": 1}]}),
        ("interact", "observation_state", {"page_type": "search_results", "reward": 0.0}),
    ],
)
def test_a_leak_is_a_fault_wherever_it_stands(shop: LeaseShop, url: str, action: str, place: str, value: Any) -> None:
    remote = client(url)

    def leak(reply: Any) -> Any:
        reply["result"] |= {place: value}
        return reply

    session = remote.open()
    shop.queue(action, Fault("patch", patch=leak))
    task_id = remote.tasks("train")[0].id
    with pytest.raises(RemoteFault, match="shows an answer") as caught:
        session.reset(task_id)
        session.step(SEARCH)
    assert caught.value.kind == "leak" and "red" not in str(caught.value) and "B1" not in str(caught.value)
    assert shop.requests["release_one"] == 1


def test_the_goal_beside_the_final_reply_is_dropped(shop: LeaseShop, url: str, world: ShopWorld) -> None:
    remote = client(url)
    task_id = remote.tasks("train")[0].id
    session = remote.open()
    session.reset(task_id)
    for action in oracle_calls(world, task_id):
        outcome = session.step(action)
    assert outcome.done and outcome.reward == 1.0 and "the answer" not in repr(outcome)


@pytest.mark.parametrize("stated", [0.5, 0.0, None, 1.0])
def test_a_reward_that_its_own_detail_contradicts_is_a_fault_that_names_both(
    shop: LeaseShop, url: str, world: ShopWorld, stated: Any
) -> None:
    remote = client(url)
    task_id = remote.tasks("train")[0].id
    session = remote.open()
    session.reset(task_id)
    *before, buy = oracle_calls(world, task_id)
    for action in before:
        session.step(action)

    def contradict(reply: Any) -> Any:
        reply["result"]["reward"] = stated
        return reply

    shop.queue("interact", Fault("patch", patch=contradict))
    if stated == 1.0:
        assert session.step(buy).reward == 1.0
        return
    with pytest.raises(
        RemoteFault, match=f"reward={stated}" + ("" if stated is None else r" .*r_strict=1\.0")
    ) as caught:
        session.step(buy)
    assert caught.value.kind == "protocol" and shop.requests["release_one"] == 1


@pytest.mark.parametrize("value", [None, "high", 1.5, -0.2, float("nan")])
def test_a_reward_outside_its_range_is_a_fault(shop: LeaseShop, url: str, world: ShopWorld, value: Any) -> None:
    remote = client(url)
    task_id = remote.tasks("train")[0].id
    session = remote.open()
    session.reset(task_id)
    *before, buy = oracle_calls(world, task_id)
    for action in before:
        session.step(action)

    def spoil(reply: Any) -> Any:
        reply["result"]["reward_detail"]["r_price"] = value
        return reply

    shop.queue("interact", Fault("patch", patch=spoil))
    assert kind_of(lambda: session.step(buy)) == "protocol"


def test_a_server_that_is_not_up_yet_is_waited_for(shop: LeaseShop) -> None:
    with serving(shop) as server:
        port = server.server_address[1]
    remote = client(f"http://127.0.0.1:{port}", backoff_s=0.2)
    late = threading.Event()

    def serve_late() -> None:
        time.sleep(0.3)
        with serving(shop, port):
            late.wait(10)

    thread = threading.Thread(target=serve_late)
    thread.start()
    try:
        assert started(remote).step(SEARCH).feedback == "executed"
    finally:
        late.set()
        thread.join()


def test_a_server_that_never_comes_up_is_one_clear_error() -> None:
    with serving(LeaseShop(ShopWorld("tiny"))) as server:
        url = server.url
    with pytest.raises(RemoteFault, match="start the server or correct env.options.url") as caught:
        client(url, retries=1).tasks("train")
    assert caught.value.kind == "refused" and url in str(caught.value)


def test_a_server_that_dies_and_returns_costs_its_open_episodes_only(world: ShopWorld, shop: LeaseShop) -> None:
    with serving(shop) as server:
        port = server.server_address[1]
        remote = client(server.url)
        session = started(remote)
        session.step(SEARCH)
    reborn = LeaseShop(world)
    reborn.epoch = "b"
    with serving(reborn, port):
        assert kind_of(lambda: session.step(SEARCH)) == "stale_lease"
        assert reborn.requests["release_one"] == 0
        assert started(remote, 1).step(SEARCH).feedback == "executed"


def test_a_server_that_is_gone_is_waited_for_once_and_not_by_every_episode(shop: LeaseShop) -> None:
    with serving(shop) as server:
        remote = client(server.url, retries=2, backoff_s=PATIENCE_S)
        port, waiting = server.server_address[1], started(remote)
    before = time.monotonic()
    assert kind_of(lambda: waiting.step(SEARCH)) == "refused"
    waited = time.monotonic() - before
    assert [kind_of(lambda: started(remote)) for _ in range(5)] == ["refused"] * 5
    assert waited > 2 * PATIENCE_S and time.monotonic() - before < 2 * waited
    shop.leases.clear()
    shop.episodes.clear()
    with serving(shop, port):
        assert started(remote).step(SEARCH).feedback == "executed"


def test_a_refused_release_takes_nobodys_patience(shop: LeaseShop) -> None:
    with serving(shop) as server:
        remote, patient = (client(server.url, retries=3, backoff_s=PATIENCE_S) for _ in range(2))
        port, leaving = server.server_address[1], started(remote)
        tasks = patient.tasks("train")
    shop.leases.clear()
    shop.episodes.clear()
    with pytest.raises(RemoteFault, match="refused"):
        leaving._episode.release()
    before = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(started, remote, 1)
        time.sleep(PATIENCE_S / 2)
        assert not waiting.done(), "it waits for the server, as if nobody had left"
        with serving(shop, port):
            assert waiting.result(timeout=10).step(SEARCH).feedback == "executed"
    assert time.monotonic() - before > PATIENCE_S / 2 and tasks


def test_a_server_that_starts_another_task_is_a_fault(shop: LeaseShop, url: str) -> None:
    def swap(reply: Any) -> Any:
        reply["result"]["idx"] += 1
        return reply

    remote = client(url)
    shop.queue("reset", Fault("patch", patch=swap))
    with pytest.raises(RemoteFault, match="was asked for idx 0 and started idx 1"):
        started(remote)
    assert shop.requests["release_one"] == 1


# -- slots -------------------------------------------------------------------------------------------------------


def test_more_sessions_than_slots_wait_for_each_other(shop: LeaseShop, url: str) -> None:
    remote = client(url, slots=2)
    ids = [task.id for task in remote.tasks("train")]

    def play(index: int) -> None:
        for task_id in ids[index::6][:3]:
            session = remote.open()
            session.reset(task_id)
            session.step(SEARCH)
            session.terminate("action_limit")

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(play, range(6))) == [None] * 6
    assert shop.requests["reset"] == shop.requests["release_one"] == 18
    assert shop.most_open == 2, "more than two would mean that slots are not bounded, fewer that they are not used"


def test_no_free_slot_is_a_fault_that_names_the_knobs(url: str) -> None:
    remote = client(url, slots=1, slot_timeout_s=PATIENCE_S)
    held = started(remote)
    before = time.monotonic()
    with pytest.raises(RemoteFault, match=r"env.options.slots .* rollout.batch") as caught:
        started(remote, 1)
    assert caught.value.kind == "slots" and time.monotonic() - before >= PATIENCE_S
    late = remote.open()
    assert kind_of(lambda: late.reset(remote.tasks("train")[1].id)) == "slots"
    assert time.monotonic() - before < 2 * PATIENCE_S
    with pytest.raises(RuntimeError, match="no slot"):
        late.step(SEARCH)
    held.terminate("action_limit")
    assert started(remote, 1).step(SEARCH).feedback == "executed"


def test_a_server_with_fewer_slots_than_asked_for_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match=r"holds 20 episodes at once, and env.options.slots=21"):
        client(url, slots=21).tasks("train")
