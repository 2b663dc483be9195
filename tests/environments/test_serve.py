"""A shop served over HTTP: what a client meets is the in-process world, step by step, and no request breaks it."""

import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from intraskill.environments.contract import check_environment
from intraskill.environments.contract.check import violated
from intraskill.environments.contract.play import PlayedEpisode, difference, random_rollout, session_of, step
from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.remote.transport import RemoteFault
from intraskill.environments.serve import ServeSettings, ShopServer
from intraskill.environments.serve.desk import Desk, RequestRefusal, as_call
from intraskill.environments.serve.dialects import spelled
from intraskill.environments.shopworld import Shop, ShopWorld
from intraskill.environments.shopworld.proof import Oracle
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.tasks import SPLITS

LANGUAGES = ("plain", "en", "zh")
EPISODES = 3
THREADS = 4
LEASE_S, BRIEF_LEASE_S = 600.0, 3.0
MOST_TURNS = 12
LARGE_BODY, DEEP = 20_000_000, 100_000


def world_of(language, **options):
    return ShopWorld("tiny", 0, language=language, **options)


def serving(world, **settings):
    return ShopServer(world, ServeSettings(port=0, **settings))


def remote(server, **options):
    return RemoteShop(url=server.url, slots=8, backoff_s=0.01, **options)


def scripted(world, task_id):
    """Play what an expert does, with every kind of mistake before it."""
    oracle = Oracle(world.shop_task(task_id).goal, world.strings)
    with session_of(world) as session:
        trace = PlayedEpisode(task_id, session.reset(task_id))
        for text in ("hm", write_call("search", "query", " "), write_call("click", "value", "nowhere")):
            trace = step(session, trace, text)
        while not trace.done:
            call = oracle.act(trace.states[-1])
            trace = step(session, trace, write_call(call.name, PARAMETERS[call.name], call.argument))
    return trace


def followed(environment, trace):
    with session_of(environment) as session:
        again = PlayedEpisode(trace.task_id, session.reset(trace.task_id))
        for action in trace.actions:
            again = step(session, again, action)
    return again


def post(url, route, body, method="POST"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url + route, data=data if method == "POST" else None, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def get(url, route):
    return post(url, route, {}, "GET")


def shop(url, action, **body):
    return post(url, "/api/shop_agent", {"action": action, **body})


# -- parity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "renderer"), [("plain", "structured"), ("en", "structured"), ("zh", "structured"), ("zh", "sep")]
)
def test_a_leased_shop_answers_as_the_world_in_process_step_by_step(language, renderer):
    world = world_of(language, renderer=renderer)
    ids = [task.id for task in world.tasks("train")[:EPISODES]]
    traces = [scripted(world, task_id) for task_id in ids] + [random_rollout(world, task_id, 1) for task_id in ids]
    assert sum(trace.done for trace in traces) >= EPISODES
    with serving(world) as server:
        shop = remote(server)
        assert [task.id for task in shop.tasks("train")] == [task.id for task in world.tasks("train")]
        assert [difference(trace, followed(shop, trace)) for trace in traces] == [""] * len(traces)
        assert server.programme.desk.free_slots == server.programme.desk.slots
        unlike = {"structured": "sep", "sep": "structured"}[renderer]
        other = random_rollout(world_of(language, renderer=unlike), ids[0], 1)
        assert difference(other, followed(shop, other)) != ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_four_threads_see_what_the_world_in_process_shows(language):
    world = world_of(language)
    traces = [
        random_rollout(world, task.id, seed) for seed in range(2) for task in world.tasks("skill_validation")[:EPISODES]
    ]
    with serving(world) as server, ThreadPoolExecutor(THREADS) as pool:
        shop = remote(server)
        found = list(pool.map(lambda trace: difference(trace, followed(shop, trace)), traces))
    assert found == [""] * len(traces)


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_agentgym_shop_shows_the_same_pages_and_pays_the_same_raw_reward(language):
    world = world_of(language, renderer="sep")
    ids = [task.id for task in world.tasks("train")[:EPISODES]]
    traces = [scripted(world, task_id) for task_id in ids] + [random_rollout(world, task_id, 2) for task_id in ids]
    with serving(world, dialect="webshop-agentgym") as server:
        shop = remote(server, dialect="webshop-agentgym")
        for trace in traces:
            again = followed(shop, trace)
            assert trace.opening.instruction in again.opening.instruction
            assert trace.opening.observation == again.opening.observation
            for ours, theirs in zip(trace.outcomes, again.outcomes, strict=True):
                assert (ours.feedback, ours.done, ours.tool, ours.argument) == (
                    theirs.feedback,
                    theirs.done,
                    theirs.tool,
                    theirs.argument,
                )
                assert ours.done or ours.observation == theirs.observation
                assert ours.parts.get("r_loose") == theirs.parts.get("r_loose")
                assert ours.state["actions"] == theirs.state["actions"]


def play_in_turns(server, shop, tasks, between=lambda: None):
    """Open an episode a task, play all of them by turns as the oracle would, and return what each one earned."""
    world, lines, earned = server.programme.shop, [], []
    for task in tasks:
        session = shop.open()
        session.reset(task.id)
        lines.append((session, iter(scripted(world, task.id).actions[3:])))
    for turn in range(MOST_TURNS):
        if turn == 1:
            between()
        for session, actions in lines:
            action = next(actions, None)
            outcome = None if action is None else session.step(action)
            if outcome is not None and outcome.done:
                earned.append(outcome.reward)
    return earned


def ended(shop, tasks, first=0):
    """Play episodes that end without a purchase, all of them open at once; ``first`` -1 ends the last one first."""
    sessions = [shop.open() for _ in tasks]
    for session, task in zip(sessions, tasks, strict=True):
        session.reset(task.id)
    for session in sessions if first == 0 else reversed(sessions):
        session.terminate("action_limit")


def test_agentgym_episodes_after_a_restart_never_share_a_slot():
    world = world_of("en", renderer="sep")
    tasks = world.tasks("train")[:EPISODES]
    with serving(world, dialect="webshop-agentgym") as server:
        port = urlsplit(server.url).port
        shop = remote(server, dialect="webshop-agentgym")
        ended(shop, tasks)
    with ShopServer(world, ServeSettings(port=port, dialect="webshop-agentgym")) as server:
        assert play_in_turns(server, shop, tasks) == [1.0] * EPISODES
        assert server.programme.desk.free_slots == server.programme.desk.slots, "what is over is closed"


def test_agentgym_episodes_after_their_leases_expired_never_share_a_slot():
    world = world_of("en", renderer="sep")
    tasks = world.tasks("train")[:EPISODES]
    with serving(world, dialect="webshop-agentgym", lease_s=BRIEF_LEASE_S) as server:
        shop = remote(server, dialect="webshop-agentgym")
        ended(shop, tasks, first=-1)
        time.sleep(2 * BRIEF_LEASE_S)
        assert play_in_turns(server, shop, tasks) == [1.0] * EPISODES


def test_an_agentgym_episode_whose_slot_expired_is_a_fault_and_leaves_the_next_holder_alone():
    world = world_of("en", renderer="sep")
    tasks = world.tasks("train")[:EPISODES]
    with serving(world, dialect="webshop-agentgym", lease_s=BRIEF_LEASE_S) as server:
        shop = remote(server, dialect="webshop-agentgym")
        late = [shop.open() for _ in tasks]
        for session, task in zip(late, tasks, strict=True):
            session.reset(task.id)
        time.sleep(2 * BRIEF_LEASE_S)

        def disturb():
            for session in late:
                with pytest.raises(RemoteFault) as caught:
                    session.step(write_call("search", "query", "mug"))
                assert caught.value.kind == "stale_lease"

        assert play_in_turns(server, shop, tasks, disturb) == [1.0] * EPISODES


def test_an_agentgym_step_that_waited_for_a_restart_is_not_sent_to_the_next_holder():
    world = world_of("en", renderer="sep")
    tasks = world.tasks("train")[:2]
    with serving(world, dialect="webshop-agentgym") as server:
        port = urlsplit(server.url).port
        shop = remote(server, dialect="webshop-agentgym")
        session = shop.open()
        session.reset(tasks[0].id)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(session.step, write_call("search", "query", "mug"))
        with ShopServer(world, ServeSettings(port=port, dialect="webshop-agentgym")) as server:
            assert play_in_turns(server, shop, tasks[1:]) == [1.0]
            fault = waiting.exception(timeout=10)
    assert isinstance(fault, RemoteFault) and fault.kind in ("stale_lease", "bad_request", "refused")


def test_a_served_shop_keeps_the_contract_of_an_environment():
    with serving(world_of("en")) as server:
        findings = check_environment(remote(server), again=lambda: remote(server), tasks=4)
    assert violated(findings) == []


# -- leases ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url():
    with serving(world_of("en"), slots=3, wait_s=0.2) as server:
        yield server.url


def begin(url, idx=0):
    status, reply = shop(url, "reset", idx=idx)
    assert status == 200
    return {name: reply["result"][name] for name in ("env_idx", "lease_id")}


def test_a_lease_is_released_once_and_then_stale(url):
    free = get(url, "/healthz")[1]["free_slots"]
    lease = begin(url)
    assert get(url, "/healthz")[1]["free_slots"] == free - 1
    assert shop(url, "release_one", **lease)[0] == 200
    for action, more in (
        ("release_one", {}),
        ("interact", {"response": "search[mug]"}),
        ("terminate", {"termination_reason": "action_limit"}),
    ):
        status, reply = shop(url, action, **lease, **more)
        assert status == 409 and "stale" in reply["result"]["error"]
    assert get(url, "/healthz")[1]["free_slots"] == free


def test_a_lease_of_another_client_does_not_act_in_its_slot(url):
    first = begin(url)
    assert shop(url, "release_one", **first)[0] == 200
    second = begin(url)
    assert second["env_idx"] == first["env_idx"] and second["lease_id"] != first["lease_id"]
    assert shop(url, "interact", **first, response="search[mug]")[0] == 409
    assert shop(url, "interact", **second, response="search[mug]")[0] == 200
    assert shop(url, "release_one", **second)[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"action": "dance"},
        {"action": "reset"},
        {"action": "reset", "idx": 100000},
        {"action": "reset", "idx": -1},
        {"action": "reset", "idx": "0"},
        {"action": "reset", "idx": True},
        {"action": "reset", "idx": 0, "include_private_goal": True},
        {"action": "reset", "idx": 0, "interaction_mode": "multi_turn"},
        {"action": "interact", "response": "search[mug]"},
        {"action": "interact", "env_idx": "0", "lease_id": "x", "response": "search[mug]"},
        {"action": "terminate", "env_idx": 0, "lease_id": "x", "termination_reason": "bored"},
        b"{",
        b"[1]",
        b"\xff",
    ],
    ids=str,
)
def test_a_malformed_request_is_400_with_a_json_error_and_takes_no_slot(url, body):
    free = get(url, "/healthz")[1]["free_slots"]
    status, reply = post(url, "/api/shop_agent", body)
    assert status == 400 and reply["result"]["error"]
    assert get(url, "/healthz")[1]["free_slots"] == free


def test_unknown_routes_are_404(url):
    assert get(url, "/nothing")[0] == post(url, "/nothing", {})[0] == 404
    assert get(url, "/healthz")[0] == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_another_method_is_refused_in_json_and_the_server_goes_on(url, method):
    request = urllib.request.Request(url + "/api/shop_agent", data=b"{}", method=method)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    assert caught.value.code == 405 and caught.value.headers["Allow"] == "GET, POST"
    assert method in json.load(caught.value)["result"]["error"] and get(url, "/healthz")[0] == 200


def test_a_head_request_has_no_body_and_a_broken_request_line_is_json_too(url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("HEAD", "/healthz")
    reply = connection.getresponse()
    assert reply.status == 405 and reply.read() == b""
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=10) as raw:
        raw.sendall(b"one two three four\r\n\r\n")
        said = raw.makefile("rb").read()
    assert "four" in json.loads(said)["result"]["error"], "a line without a version is answered without a head"


def test_a_body_too_large_is_read_away_and_refused_and_a_deep_one_is_400(url):
    status, reply = post(url, "/api/shop_agent", b" " * LARGE_BODY)
    assert status == 413 and str(LARGE_BODY) in reply["result"]["error"]
    status, reply = post(url, "/api/shop_agent", b'{"action":' + b"[" * DEEP + b"]" * DEEP + b"}")
    assert status == 400 and "JSON" in reply["result"]["error"]
    assert post(url, "/api/shop_agent", b" " * (LARGE_BODY // 64))[0] == 400, "a small one is read, and has no action"


def test_a_get_with_a_body_does_not_upset_the_next_request_of_its_connection(url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    for _ in range(2):
        connection.request("GET", "/healthz", body=b'{"a": 1}')
        reply = connection.getresponse()
        assert reply.status == 200 and json.load(reply)["dialect"] == "shopsim-lease"


def test_true_is_no_slot_number(url):
    leases = [begin(url) for _ in range(2)]  # true equals 1, which is a slot now
    lease = next(lease for lease in leases if lease["env_idx"] in (0, 1))
    assert shop(url, "interact", env_idx=True, lease_id=lease["lease_id"], response="search[mug]")[0] == 400
    assert [shop(url, "release_one", **lease)[0] for lease in leases] == [200] * 2
    with serving(world_of("en"), dialect="webshop-agentgym", slots=2) as server:
        created = {post(server.url, "/create", {})[1] for _ in range(2)}
        assert created == {0, 1}
        assert post(server.url, "/reset", {"env_idx": True, "session_id": 0})[0] == 400
        assert post(server.url, "/reset", {"env_idx": 1, "session_id": "9" * 5000})[0] == 400
        assert get(server.url, "/observation?env_idx=" + "9" * 5000)[0] == 404
        assert post(server.url, "/reset", {"env_idx": 1, "session_id": 0})[0] == 200


def test_half_a_character_in_an_action_is_a_mistake_of_its_writer(url):
    lease = begin(url)
    status, reply = shop(url, "interact", **lease, response="search[\ud800]")
    assert status == 200 and reply["result"]["action_feedback"]["reason"] == "invalid_format"
    assert shop(url, "\ud800")[0] == 400 and shop(url, "release_one", **lease)[0] == 200


def test_a_client_of_another_dialect_is_told_which_one_is_spoken():
    with serving(world_of("en"), dialect="webshop-agentgym") as server:
        for dialect in ("shopsim-lease", "shopsim-upstream"):
            with pytest.raises(ConfigError, match="set env.options.dialect=webshop-agentgym"):
                remote(server, dialect=dialect).open()
        assert remote(server, dialect="webshop-agentgym").tasks("train")


def test_a_session_from_before_a_restart_is_told_that_its_lease_is_unknown():
    world = world_of("en")
    with serving(world) as server:
        session, port = remote(server).open(), urlsplit(server.url).port
        session.reset(world.tasks("train")[0].id)
    with ShopServer(world, ServeSettings(port=port)), pytest.raises(RemoteFault) as caught:
        session.step(write_call("search", "query", "mug"))
    assert caught.value.kind == "stale_lease" and "it restarted or gave the slot away" in str(caught.value)


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_the_contract_is_checked_with_as_few_slots_as_one(slots):
    with serving(world_of("plain"), slots=slots) as server:
        shop = RemoteShop(url=server.url, slots=slots, slot_timeout_s=5.0)
        findings = {finding.rule: finding for finding in check_environment(shop, tasks=3)}
        assert server.programme.desk.free_slots == slots
    assert violated(list(findings.values())) == []
    skipped = {name for name, finding in findings.items() if finding.status == "skipped"}
    assert skipped == {"snapshot", "version"} | {1: {"interleaved", "threads"}, 2: {"threads"}, 8: set()}[slots]
    assert slots == 8 or f"env.options.slots={slots}" in findings["threads"].what


def test_an_action_text_that_is_no_call_is_feedback_and_a_step_after_the_end_is_400(url):
    lease = begin(url)
    for text, code in (
        ("buy it", "invalid_format"),
        ("buy[it]", "invalid_format"),
        ("search[ ]", "empty_argument"),
        ("click[x]", "unavailable_action"),
    ):
        status, reply = shop(url, "interact", **lease, response=text)
        feedback = reply["result"]["action_feedback"]
        assert status == 200 and feedback["reason"] == code and not feedback["valid"]
    assert shop(url, "interact", **lease, response=7)[0] == 400
    ended = shop(url, "terminate", **lease, termination_reason="generation_length")[1]["result"]
    assert ended["done"] and ended["reward"] == 0.0 and set(ended["reward_detail"].values()) == {0.0}
    assert ended["termination_reason"] == "generation_length" and ended["purchase"] == {}
    assert shop(url, "interact", **lease, response="search[mug]")[0] == 400
    assert shop(url, "release_one", **lease)[0] == 200


def test_a_reset_waits_for_a_slot_and_gives_up_with_500(url):
    leases = [begin(url) for _ in range(3)]
    status, reply = shop(url, "reset", idx=0)
    assert status == 500 and "3 slots" in reply["result"]["error"]
    timer = threading.Timer(0.05, lambda: shop(url, "release_one", **leases.pop()))
    timer.start()
    leases.append(begin(url))
    timer.join()
    assert [shop(url, "release_one", **lease)[0] for lease in leases] == [200] * 3


def test_a_purchase_says_what_was_bought_and_never_the_goal():
    world = world_of("en")
    task_id = world.tasks("train")[0].id
    goal = world.shop_task(task_id).goal
    with serving(world) as server:
        lease, replies = begin(server.url), []
        for action in scripted(world, task_id).actions[3:]:
            call = json.loads(action.split("\n")[1])
            text = f"{call['name']}[{next(iter(call['arguments'].values()))}]"
            replies.append(shop(server.url, "interact", **lease, response=text)[1]["result"])
    last = replies[-1]
    assert last["purchase"] == {
        "asin": goal.product_id,
        "options": dict(goal.options),
        "price": world.catalogue.by_id[goal.product_id].price_of(goal.options),
    }
    assert last["reward"] == last["reward_detail"]["r_strict"] == 1.0 and last["termination_reason"] == "purchase"
    assert not [key for reply in replies for key in reply if "goal" in key]
    assert all(reply["reward_detail"] == reply["purchase"] == {} for reply in replies[:-1])


def test_a_lease_that_nobody_uses_expires_and_one_in_use_does_not():
    now = [0.0]
    desk = Desk(2, LEASE_S, 0.0, clock=lambda: now[0])
    kept, forgotten = desk.take(), desk.take()
    with pytest.raises(RequestRefusal, match="2 slots"):
        desk.take()
    now[0] = LEASE_S - 1
    assert desk.held(kept.env_idx, kept.lease_id) is kept and desk.free_slots == 0
    now[0] = LEASE_S + 1
    assert desk.free_slots == 1 and desk.held(kept.env_idx, kept.lease_id) is kept
    assert desk.take().lease_id != forgotten.lease_id
    assert not desk.release(forgotten) and desk.free_slots == 0
    with pytest.raises(RequestRefusal, match="stale"):
        desk.held(forgotten.env_idx, forgotten.lease_id)


def test_without_persona_the_whole_request_is_shown():
    world = world_of("en")
    idx, task = next((i, t) for i, t in enumerate(world.tasks("train")) if world.shop_task(t.id).persona)
    with serving(world) as server:
        full = shop(server.url, "reset", idx=idx, if_persona=False)[1]["result"]
        part = shop(server.url, "reset", idx=idx, if_persona=True)[1]["result"]
    assert (full["task_instruction"], full["user_persona"]) == (world.shop_task(task.id).instruction, None)
    assert (part["task_instruction"], part["user_persona"]) == (
        world.shop_task(task.id).request,
        world.shop_task(task.id).persona,
    )


# -- what is served --------------------------------------------------------------------------------------------------


def test_the_test_split_is_served_only_when_it_is_named():
    world = world_of("en")
    test_ids = {task.id for task in world.tasks("test")}
    with serving(world) as server:
        offered = get(server.url, "/manifest")[1]
        assert offered["environment_version"] == get(server.url, "/healthz")[1]["environment_version"] == world.version
        assert not test_ids & {task["id"] for task in offered["tasks"]}
        assert remote(server).tasks("test") == ()
    with serving(world, splits=("train", "test")) as server:
        assert test_ids <= {task["id"] for task in get(server.url, "/manifest")[1]["tasks"]}
    with pytest.raises(SplitError, match="exam"):
        serving(world, splits=("exam",))


def test_ids_that_name_the_wanted_product_are_replaced_by_numbers():
    world = world_of("en")
    tasks = [world.shop_task(task.id) for split in SPLITS for task in world.tasks(split)]
    named = {task.goal.product_id: replace(task, id=task.goal.product_id) for task in tasks}
    telling = Shop(world.catalogue, list(named.values()), world.settings)
    with serving(telling) as server:
        offered = [task["id"] for task in get(server.url, "/manifest")[1]["tasks"]]
        shop = remote(server)
        task = shop.tasks("train")[0]
        trace = random_rollout(telling, telling.tasks("train")[0].id, 0)
        again = followed(shop, replace(trace, task_id=task.id))
    assert offered[0] == "task-00000" and len(set(offered)) == len(offered) and not set(offered) & set(named)
    assert difference(trace, replace(again, task_id=trace.task_id)) == ""
    with serving(world) as server:
        assert get(server.url, "/manifest")[1]["tasks"][0]["id"] == world.tasks("train")[0].id


def test_settings_that_make_no_sense_are_refused():
    world = world_of("en")
    with pytest.raises(ConfigError, match="shopsim-upstream"):
        ServeSettings(dialect="shopsim-upstream")
    with pytest.raises(ConfigError, match="--slots"):
        ServeSettings(slots=0)
    with pytest.raises(ConfigError, match="--port=99999"):
        ServeSettings(port=99999)
    with pytest.raises(ConfigError, match="hold no task"):
        ShopServer(world, ServeSettings(port=0, splits=()))
    with serving(world) as server:
        taken = urlsplit(server.url).port
        with pytest.raises(ConfigError, match="--port"):
            ShopServer(world, ServeSettings(port=taken))


def test_a_failure_of_the_shop_is_500_and_keeps_no_lease():
    world = world_of("en")

    class Broken:
        def reset(self, task_id):
            raise KeyError("gold-product-b0123")

    with serving(world) as server:
        real, world.open = world.open, Broken
        status, reply = shop(server.url, "reset", idx=0)
        assert status == 500 and "KeyError" in reply["result"]["error"] and "gold" not in reply["result"]["error"]
        assert server.programme.desk.free_slots == server.programme.desk.slots
        world.open = real
        assert shop(server.url, "reset", idx=0)[0] == 200


def test_agentgym_slots_are_created_reset_again_and_closed():
    with serving(world_of("en"), dialect="webshop-agentgym", slots=2) as server:
        url = server.url
        assert get(url, "/")[1] == "ok"
        env_idx = post(url, "/create", {})[1]
        assert isinstance(env_idx, int)
        assert get(url, f"/observation?env_idx={env_idx}")[0] == 400
        for session_id in (0, "1"):
            page, nothing = post(url, "/reset", {"env_idx": env_idx, "session_id": session_id})[1]
            assert page.startswith("WebShop [SEP] Instruction: [SEP] ") and nothing is None
            assert page == get(url, f"/observation?env_idx={env_idx}")[1]
        assert get(url, f"/available_actions?env_idx={env_idx}")[1] == {"has_search_bar": True, "clickables": []}
        reply = post(url, "/step", {"env_idx": env_idx, "action": "search[mug]"})[1]
        assert set(reply) == {"state", "reward", "done", "info"} and reply["reward"] == 0 and not reply["done"]
        buttons = get(url, f"/available_actions?env_idx={env_idx}")[1]
        assert not buttons["has_search_bar"] and "back to search" in buttons["clickables"]
        assert post(url, "/close", {"env_idx": env_idx})[1] == {"closed": True}
        assert post(url, "/close", {"env_idx": env_idx})[0] == 404
        assert post(url, "/step", {"env_idx": env_idx, "action": "search[mug]"})[0] == 404
        assert get(url, "/observation?env_idx=x")[0] == 404


def test_webshop_spellings_are_understood_only_where_they_mean_one_button():
    actions = ["color=red", "color=blue", "trim=blue", "buy now", "< prev"]
    assert spelled("click[Buy Now]", actions) == "click[buy now]"
    assert spelled("click[red]", actions) == "click[color=red]"
    assert spelled("click[blue]", actions) == "click[blue]"
    assert spelled("search[Red]", actions) == "search[Red]"


def test_an_action_text_is_one_call_whatever_its_argument_holds():
    assert as_call("search[a [b] c]") == write_call("search", "query", "a [b] c")
    assert as_call(" click[color=red] ") == write_call("click", "value", "color=red")
    assert as_call("hack[x]") == "hack[x]" and as_call("search") == "search"


def test_the_records_that_parity_compares_are_whole():
    fields = {"observation", "state", "feedback", "tool", "argument", "done", "reward", "parts", "termination"}
    assert set(Outcome.__slots__) == fields
    assert set(Opening.__slots__) == {"instruction", "persona", "observation", "state"}
