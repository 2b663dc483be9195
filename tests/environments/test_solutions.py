"""The check of a family that is no shop: every breach is listed, and solutions are played."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from intraskill.cli import main
from intraskill.environments.contract import check_environment
from intraskill.environments.contract.check import SHOWN, violated
from intraskill.environments.serve import ServeSettings, ShopServer
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.proof import Oracle
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import write_call

sys.path.append(str(Path(__file__).parents[1]))
from sorting import Desk, Sorting  # noqa: E402

REMOTE = "env.name=intraskill.environments.remote.shop:RemoteShop"
NAME = "env.name=sorting:Sorting"


def world(desk=Desk, **members):
    return type("Changed", (Sorting,), {"open": lambda self: desk(self), **members})()


def finding(rule, environment, **options):
    return next(one for one in check_environment(environment, **options) if one.rule == rule)


def without_solution(desk=Desk, **members):
    return world(desk, solution=None, **members)


@pytest.fixture
def said(capsys, monkeypatch):
    def run(*words):
        status = main(["env", "check", *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    return run


def written(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


def submit(letters):
    return write_call("submit", "letters", letters)


def test_chance_ends_no_episode_of_it_and_its_solution_does():
    untested = finding("payment", without_solution())
    assert untested.status == "skipped" and not untested.optional and "solution(task_id)" in untested.what
    assert {one.status for one in check_environment(Sorting(), again=Sorting) if one.rule != "snapshot"} == {"ok"}


def test_strict_fails_for_what_was_not_checked_and_passes_once_it_is(said, tmp_path, monkeypatch):
    bare = "from sorting import Sorting\nclass Bare(Sorting):\n    solution = None\n"
    (tmp_path / "bare_sorting.py").write_text(bare)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("env.name=bare_sorting:Bare",)
    assert said(*words)[0] == 0
    status, out, _ = said(*words, "--strict")
    assert status == 1 and "skipped  payment" in out and "--strict: not checked are 1: payment" in out
    letters = Sorting().words["train-0"]
    call = {"name": "submit", "arguments": {"letters": "".join(sorted(letters))}}
    actions = written(tmp_path / "actions.jsonl", [{"task_id": "train-0", "actions": [call]}])
    status, out, _ = said(*words, "--strict", "--actions", actions)
    assert status == 0 and "ok       payment" in out
    assert said(NAME, "--strict")[0] == 0


class Paid(Desk):
    pays = (10.0, {"r_strict": 10.0, "points_for_place": 10.0})

    def step(self, action):
        outcome = super().step(action)
        return replace(outcome, reward=self.pays[0], parts=self.pays[1]) if outcome.done else outcome


class PaysBeyond(Paid):
    pays = (7.5, {"r_strict": 7.5, "points_for_place": -3.0})


class PaysAnother(Paid):
    pays = (9.0, {"r_strict": 8.0, "points_for_place": 8.0})


class PaysLess(Desk):
    def paid(self, share):
        return 5.0 * share


class PaysByTheVisit(Desk):
    visits = 0

    def paid(self, share):
        PaysByTheVisit.visits += 1
        return 10 * share - PaysByTheVisit.visits / 100


class NeverEnds(Desk):
    def end(self, why, sheet, points):
        outcome = super().end(why, sheet, points)
        return outcome if why != "handed_in" else replace(outcome, done=False, reward=0.0, parts={}, termination="")


class Breaks(Desk):
    def paid(self, share):
        return {}["no such key"]


@pytest.mark.parametrize(
    ("environment", "what"),
    [
        (world(PaysBeyond, reward_range=(0, 1)), "reward is 7.5, outside the range of 0 to 1"),
        (world(PaysBeyond, reward_range=(0, 1)), "parts['points_for_place'] is -3, outside"),
        (world(PaysBeyond), "parts['points_for_place'] is -3, outside the range of 0 to 10"),
        (world(reward_range=None), "reward is 10, outside the range of 0 to 1"),
        (world(PaysAnother), "the reward is 9, its r_strict is 8"),
        (world(PaysLess), "pays 5, which is no full success"),
        (world(PaysByTheVisit), "reward 9.99 / 9.93"),
        (world(NeverEnds), "its 1 action do not end the episode: every one was executed"),
        (world(Breaks), "action 1 of 1: step: KeyError: 'no such key'"),
        (world(solution=lambda self, task_id: [submit("zz")]), "not executed are 1: action 1 other_letters"),
        (world(solution=lambda self, task_id: "zz"), "not a list of one action or more"),
    ],
)
def test_what_a_solution_is_paid_is_checked(environment, what):
    found = finding("payment", environment)
    told = f"{found.what}\n" + "\n".join(found.more)
    assert found.status == "violated" and what in told and found.count >= 6 or "list of one action" in told


def test_a_reward_in_the_file_is_what_is_due(said, tmp_path):
    words = Sorting().words
    half = "".join(sorted(words["train-0"]))
    half = half[:2] + half[3] + half[2]
    rows = [{"task_id": "train-0", "actions": [submit("zz"), submit(half)], "reward": 5}]
    assert said(NAME, "--actions", written(tmp_path / "a.jsonl", rows))[0] == 0
    status, out, _ = said(NAME, "--actions", written(tmp_path / "b.jsonl", [rows[0] | {"reward": 6}]))
    assert status == 1 and "task train-0, line 1 of b.jsonl: pays 5, and 6 is due" in out
    status, out, _ = said(NAME, "--actions", written(tmp_path / "c.jsonl", [{**rows[0], "reward": None}]))
    assert status == 1 and "pays 5, which is no full success" in out


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"task_id": "train-99", "actions": ["x"]}, "there is no task 'train-99'; ids look like 'train-0'"),
        ({"task_id": "test-0", "actions": ["x"]}, "test-0 is a test task"),
        ({"task_id": "train-0", "actions": []}, "not a list of one action or more"),
        ({"task_id": "train-0", "actions": "submit"}, "not a list"),
        ({"task_id": "train-0", "actions": [{"tool": "submit"}]}, "neither a text nor"),
        ({"task_id": "train-0"}, "actions is None"),
        ({"task_id": "train-0", "actions": ["x"], "rewrd": 1}, "there is no key rewrd"),
        ({"task_id": "train-0", "actions": ["x"], "reward": "1"}, "reward is a str, not a number"),
        (["train-0"], "a JSON object is needed"),
    ],
)
def test_a_line_that_cannot_be_played_is_named(said, tmp_path, row, what):
    good = {"task_id": "train-0", "actions": ["x"]}
    path = tmp_path / "actions.jsonl"
    status, out, err = said(NAME, "--actions", written(path, [good, row]))
    assert status == 2 and "holds lines that cannot be played, 1: line 2: " in err and what in err
    assert out == "" and err.count("\n") == 1


def test_a_file_that_is_none_is_one_sentence(said, tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "bad.jsonl").write_text('{"task_id": "train-0", ')
    for name in ("absent", "empty.jsonl", "bytes.jsonl", "bad.jsonl", "."):
        status, _, err = said(NAME, "--actions", str(tmp_path / name))
        assert status == 2 and "ArtifactError" in err and err.count("\n") == 1, name


class ManyFaults(Desk):
    """Breaks four promises, at every task."""

    def reset(self, task_id):
        opening = super().reset(task_id)
        return replace(opening, state={"sheet": "", "goal": "x", "seen": (1, 2)})

    def step(self, action):
        return replace(super().step(action), parts={"r_strict": 11.0, "points_for_place": -1.0}, reward=11.0)


def test_every_breach_of_every_rule_is_listed_with_counts():
    found = {one.rule: one for one in check_environment(world(ManyFaults), tasks=6)}
    assert {"json_state", "private_state", "running", "payment"} <= set(violated(list(found.values())))
    for rule in ("json_state", "private_state", "payment"):
        told = "\n".join([found[rule].where, *found[rule].more])
        tasks = [task_id for task_id in Sorting().words if f"task {task_id}," in told]
        assert len(tasks) == 6 and found[rule].count >= 6, rule
    assert found["running"].count > SHOWN == len(found["running"].more)
    assert f"(and {found['running'].count - 1} more)" in found["running"].what


class SomeRaise(Desk):
    def reset(self, task_id):
        if task_id.startswith("audit"):
            raise OSError("disk gone")
        return replace(super().reset(task_id), persona=7)


def test_a_task_that_raises_hides_no_other_task():
    found = finding("opening", world(SomeRaise), tasks=8)
    told = "\n".join([f"{found.where}: {found.what}", *found.more])
    assert found.count == 8 and told.count("OSError: disk gone") == 2 and told.count("its persona is int") == 6


def test_the_command_prints_them_and_keeps_its_exit_status(said, tmp_path, monkeypatch):
    (tmp_path / "wrong_sorting.py").write_text(
        "from sorting import Sorting\nclass Wrong(Sorting):\n    reward_range = (0, 1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    status, out, _ = said("env.name=wrong_sorting:Wrong")
    assert status == 1 and out.count("reward is 10, outside the range of 0 to 1") == 6
    status, out, _ = said("env.name=wrong_sorting:Wrong", "--json")
    (row,) = [row for row in json.loads(out) if row["status"] == "violated"]
    assert status == 1 and row["count"] == 1 + len(row["more"]) >= 6


def test_a_remote_shop_is_solved_by_a_file_of_actions(said, tmp_path):
    shop = ShopWorld("tiny", 0, language="plain", page_size=4)
    rows = []
    for task in shop.tasks("train")[:3]:
        oracle, session, actions = Oracle(shop.shop_task(task.id).goal, shop.strings), shop.open(), []
        session.reset(task.id)
        while session.state["page_type"] != "terminal":
            call = oracle.act(session.state)
            actions.append({"name": call.name, "arguments": {PARAMETERS[call.name]: call.argument}})
            session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
        rows.append({"task_id": task.id, "actions": actions})
    with ShopServer(shop, ServeSettings(port=0)) as server:
        words = (REMOTE, f"env.options.url={server.url}", "env.options.slots=8", "--tasks", "2")
        status, out, err = said(*words, "--strict", "--actions", written(tmp_path / "a.jsonl", rows))
        assert status == 0 and err == "" and "ok       payment" in out
        rows[1]["actions"] = rows[1]["actions"][:-1]
        rows[2]["reward"] = 0.25
        status, out, _ = said(*words, "--actions", written(tmp_path / "b.jsonl", rows))
        assert status == 1 and "line 2 of b.jsonl: its" in out and "line 3 of b.jsonl: pays 1, and 0.25 is due" in out
