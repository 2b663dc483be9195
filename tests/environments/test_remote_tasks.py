"""Which tasks a remote shop has, what its options may say, and what counts as a leak."""

import json
from pathlib import Path
from typing import Any

import pytest
from environments.faulty_servers import LeaseShop, serving

from intraskill.config.config import Config
from intraskill.environments.leaks import leaks
from intraskill.environments.protocol import slots_of
from intraskill.environments.remote.roster import from_manifest, from_sizes
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.remote.transport import is_loopback
from intraskill.environments.serve import ServeSettings, ShopServer
from intraskill.environments.shopworld.world import ShopWorld
from intraskill.method.errors import ArtifactError, ConfigError, SplitError
from intraskill.method.tasks import SPLITS
from intraskill.rounds.setup import bench
from intraskill.rounds.sizes import check_slots


@pytest.fixture(scope="module")
def world() -> ShopWorld:
    return ShopWorld("tiny")


def client(url: str, **options: Any) -> RemoteShop:
    return RemoteShop(url=url, slots=2, backoff_s=0.01, **options)


def write(path: Path, manifest: object) -> str:
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return str(path)


def test_index_ranges_are_disjoint_and_follow_the_order_of_the_config() -> None:
    roster = from_sizes({"train": 2, "test": 3, "skill_validation": 1})
    assert [(t.id, t.split) for t in roster.tasks] == [
        *((str(i), "train") for i in range(2)),
        *((str(i), "test") for i in range(2, 5)),
        ("5", "skill_validation"),
    ]
    assert [t.id for t in roster.of("test")] == ["2", "3", "4"] and roster.number("5") == 5
    with pytest.raises(SplitError, match="unknown split"):
        roster.of("eval")  # type: ignore[arg-type]


def test_an_id_in_two_splits_is_refused_in_either_form() -> None:
    rows = [{"idx": 0, "id": "a", "split": "train"}, {"idx": 1, "id": "a", "split": "test"}]
    with pytest.raises(SplitError, match=r"more than once: 1: id a \(train, test\)"):
        from_manifest({"tasks": rows}, "m")
    with pytest.raises(SplitError, match=r"more than once: 1: id 4 \(train, test\)"):
        from_manifest({"splits": {"train": [3, 4], "test": [4]}}, "m")
    rows[1] |= {"id": "b", "idx": 0}
    with pytest.raises(SplitError, match="idx 0"):
        from_manifest({"tasks": rows}, "m")
    rows[1] |= {"idx": 1}
    assert len(from_manifest({"tasks": rows}, "m").tasks) == 2


@pytest.mark.parametrize(
    "manifest",
    [
        *([], {}, {"tasks": [{"id": "a", "split": "train"}]}, {"splits": {"train": ["a"]}}, {"splits": [1]}),
        *({"tasks": 3}, {"tasks": []}, {"splits": {}}, {"splits": {"train": []}}, {"splits": {"train": "12"}}),
        *({"tasks": [{"idx": idx, "id": "a", "split": "train"}]} for idx in (1.5, True, "1", None)),
        {"tasks": [{"idx": 1, "id": None, "split": "train"}]},
        {"tasks": [{"idx": 1, "id": "a", "split": ["train"]}]},
    ],
)
def test_a_manifest_of_another_shape_is_one_clear_error(manifest: object) -> None:
    with pytest.raises(ArtifactError, match="my file"):
        from_manifest(manifest, "my file")


@pytest.mark.parametrize("rows", [[{"idx": 0, "id": "a", "split": "eval"}], [{"idx": -1, "id": "a", "split": "train"}]])
def test_a_manifest_with_an_unknown_split_or_a_negative_number_is_refused(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(SplitError):
        from_manifest({"tasks": rows}, "m")


def test_a_manifest_of_another_catalogue_or_version_is_refused(world: ShopWorld, tmp_path: Path) -> None:
    shop = LeaseShop(world)
    with serving(shop) as server:
        good = shop.manifest()
        for what in ("catalogue", "environment_version"):
            path = write(tmp_path / f"{what}.json", good | {what: "another"})
            with pytest.raises(ArtifactError, match=f"belongs to {what} 'another'"):
                client(server.url, manifest=path).tasks("train")
        path = write(tmp_path / "good.json", good | {"tasks": good["tasks"][:7]})
        assert sum(len(client(server.url, manifest=path).tasks(s)) for s in ("train", "test")) == 7


def test_the_worlds_own_manifest_names_tasks_by_id(world: ShopWorld, tmp_path: Path) -> None:
    with serving(LeaseShop(world)) as server:
        remote = client(server.url, manifest=write(tmp_path / "world.json", world.manifest))
        ids = [task.id for task in remote.tasks("train")]
        assert ids == [task.id for task in world.tasks("train")]
        assert remote.open().reset(ids[3]).instruction == world.shop_task(ids[3]).request


def test_a_file_that_names_tasks_otherwise_than_the_server_is_refused(world: ShopWorld, tmp_path: Path) -> None:
    shop = LeaseShop(world)
    with serving(shop) as server:
        rows = [dict(row) for row in shop.manifest()["tasks"]]
        first, second = rows[0]["id"], rows[1]["id"]
        path = write(tmp_path / "one.json", {"tasks": [{**rows[0], "id": "mine"}]})
        with pytest.raises(ArtifactError, match=f"idx 0 is 'mine' in the file and '{first}' there"):
            client(server.url, manifest=path).tasks("train")
        path = write(tmp_path / "two.json", {"tasks": [{**rows[0], "idx": 1}, {**rows[1], "idx": 0}]})
        with pytest.raises(ArtifactError, match=f"2: idx 1 is '{first}' in the file and '{second}' there"):
            client(server.url, manifest=path).tasks("train")
        path = write(tmp_path / "three.json", {"tasks": rows[:2]})
        assert len(client(server.url, manifest=path).tasks(rows[0]["split"])) >= 1


def test_a_manifest_of_the_world_names_tasks_that_a_server_does_not_serve(world: ShopWorld, tmp_path: Path) -> None:
    with ShopServer(world, ServeSettings(port=0)) as server:
        path = write(tmp_path / "whole.json", world.manifest)
        with pytest.raises(ArtifactError, match="the server's manifest does not list it"):
            client(server.url, manifest=path).tasks("train")
    with ShopServer(world, ServeSettings(port=0, splits=SPLITS)) as server:
        listed = client(server.url, manifest=path).tasks("test")
        assert [task.id for task in listed] == [task.id for task in world.tasks("test")]


@pytest.mark.parametrize("text", ["", '{"tasks": [', "[1]", "[" * 100_000])
def test_a_truncated_manifest_is_one_clear_error(world: ShopWorld, tmp_path: Path, text: str) -> None:
    path = tmp_path / "cut.json"
    path.write_text(text)
    with serving(LeaseShop(world)) as server, pytest.raises(ArtifactError, match="cut.json"):
        client(server.url, manifest=str(path)).tasks("train")
    with serving(LeaseShop(world)) as server, pytest.raises(ArtifactError, match="nowhere.json"):
        client(server.url, manifest=str(tmp_path / "nowhere.json")).tasks("train")


def test_sources_of_tasks_that_disagree_or_lack_are_refused(world: ShopWorld) -> None:
    shop = LeaseShop(world)
    with serving(shop) as server:
        with pytest.raises(ConfigError, match="contradicts the manifest"):
            client(server.url, split_sizes={"train": 1}).tasks("train")
        shop.offers_manifest = False
        with pytest.raises(ConfigError, match="nothing says which tasks"):
            client(server.url).tasks("train")
        with pytest.raises(SplitError, match=f"holds {len(shop.tasks)} tasks, and 1: {len(shop.tasks)} lie beyond"):
            client(server.url, split_sizes={"train": len(shop.tasks) + 1}).tasks("train")
        assert len(client(server.url, split_sizes={"train": len(shop.tasks)}).tasks("train")) == len(shop.tasks)


@pytest.mark.parametrize(
    "options",
    [
        {"dialect": "smoke-signals"},
        {"url": "127.0.0.1:5700"},
        {"url": "ftp://127.0.0.1"},
        {"url": "http://127.0.0.1:42867:"},
        {"url": "http://127.0.0.1:"},
        {"url": "http://127.0.0.1:port"},
        {"url": "http://127.0.0.1:99999"},
        {"url": "http://[::1"},
        {"url": "http://127.0.0.1:5700/a b"},
        {"url": "http://127.0.0.1:5700/\n"},
        {"url": "http://user:word@127.0.0.1:5700"},
        {"url": "http://192.168.0.7:5700"},
        {"url": "http://127.0.0.1.example.org:5700"},
        {"step_timeout_s": 0},
        {"slots": 0},
        {"retries": -1},
        {"split_sizes": {"eval": 3}},
        {"split_sizes": {"train": -3}},
        {"split_sizes": {"train": 3}, "manifest": "m.json"},
    ],
)
def test_each_senseless_option_is_refused_before_anything_is_sent(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"env\.options"):
        RemoteShop(**options)


@pytest.mark.parametrize("host", ["999.1.1.1", "ex..ample"])
def test_a_host_that_only_the_http_client_can_refuse_is_a_config_error_too(host: str) -> None:
    with pytest.raises(ConfigError, match=r"env\.options\.url"):
        client(f"http://{host}:5700", allow_remote_host=True, retries=0).tasks("train")


def test_an_address_of_every_good_form_is_taken() -> None:
    for url in ("http://127.0.0.1", "http://localhost:5700/", "https://[::1]:5700/shop", "http://127.0.0.1:80"):
        assert RemoteShop(url=url).settings.url == url


def test_a_run_of_more_episodes_than_slots_is_refused_before_it_starts(tmp_path: Path, world: ShopWorld) -> None:
    shop = LeaseShop(world)
    with serving(shop) as server:
        remote, config = client(server.url), Config()
        config.rollout.batch = remote.slots + 1
        with pytest.raises(ConfigError, match=r"rollout\.batch=3 .* env\.options\.slots=2"):
            bench(config, tmp_path, environment=remote)
        assert not shop.requests
        check_slots(remote.slots, remote.slots)
        check_slots(config.rollout.batch, slots_of(world))


def test_a_remote_host_must_be_allowed_by_name() -> None:
    assert RemoteShop(url="http://shop.example.org:5700", allow_remote_host=True).settings.allow_remote_host
    assert is_loopback("127.8.9.1") and is_loopback("::1") and is_loopback("LOCALHOST") and not is_loopback("10.0.0.1")
    with pytest.raises(ConfigError, match=r"env\.options\.persona=false"):
        RemoteShop(preset="plain")
    with pytest.raises(TypeError, match="langauge"):
        RemoteShop(langauge="en")


def test_leaks_are_found_at_any_depth_and_in_any_spelling() -> None:
    clean = {"page_type": "search_results", "products": [{"id": "B1", "title": "Goal keeper gloves", "price": 3.0}]}
    assert leaks(clean) == ()
    assert leaks({"products": [{"id": 1, "goalOptions": []}]}) == ("products[0].goalOptions",)
    assert leaks({"a": ({"TARGET-ASIN": 1},)}) == ("a[0].TARGET-ASIN",)
    assert leaks({"a": {"reward": 0}, "b": {"answer": ""}}) == ("a.reward", "b.answer")
    assert leaks("the reason_key is red") == ("text (reason_key)",)
    assert leaks({"page": "buy the red one"}, ("the red one", " ")) == ("page (a private text)",)


def test_an_echo_of_what_the_policy_made_up_is_no_leak() -> None:
    page = {"page": "results for 'reason_key mug'", "state": {"search_text": "reason_key mug"}}
    assert leaks(page) == ("page (reason_key)", "state.search_text (reason_key)")
    assert leaks(page, said=["reason_key mug"]) == ()
    assert leaks(page | {"x": "goal_options"}, said=["reason_key mug"]) == ("x (goal_options)",)
    assert leaks(page | {"goal": 1}, said=["goal"]) == ("page (reason_key)", "state.search_text (reason_key)", "goal")


def test_an_axis_may_have_any_name() -> None:
    assert leaks({"available_options": {"target": ["dart", "bow"]}, "selected_options": {"goal": "big"}}) == ()
    assert leaks({"available_options": {"colour": [{"reward": 1}]}}) == ("available_options.colour[0].reward",)
