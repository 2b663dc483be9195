"""`intraskill env`: statistics, an interactive episode, the contract check and a server, as a user runs them."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from intraskill.cli import main
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.serve import ServeSettings, ShopServer
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.proof import Oracle, prove
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import write_call

TINY = ("env.preset=tiny", "env.options.language=plain")
SECONDS = 60
REMOTE = "env.name=intraskill.environments.remote.shop:RemoteShop"
GONE = (141, 1)
"""What is said of a reader that is gone: as a shell counts it, or rich's own word where that writes the tables."""
SMALLEST = (
    *("rounds=1", "workers=1", "rollout.batch=8", "coldstart.tasks=8", "gate.tasks=24", "final.tasks=8"),
    *("grpo.steps_per_round=2", "grpo.groups_per_step=2", "grpo.group_size=4", "grpo.reserve_groups=1"),
    *("frontier.max_tasks=2", "triage.reruns=2", "triage.min_valid=1"),
)
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def said(capsys, *words):
    status = main(["env", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def launch(words, **options):
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "intraskill.cli", "env", *words], env=environment, **options)


def played(words, lines):
    typed, out, err = io.StringIO("\n".join(lines) + "\n"), io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), mock.patch("sys.stdin", typed):
        status = main(["env", "play", *words])
    return status, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def world():
    return ShopWorld("tiny", 0, language="plain")


def typed(world, task_id):
    """What a player types who knows the goal."""
    oracle, session = Oracle(world.shop_task(task_id).goal, world.strings), world.open()
    session.reset(task_id)
    lines = []
    while session.state["page_type"] != "terminal":
        call = oracle.act(session.state)
        lines.append(f"{call.name} {call.argument}")
        session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
    return lines


# -- stats -----------------------------------------------------------------------------------------------------------


def test_statistics_count_what_the_world_holds(capsys, world):
    status, out, _ = said(capsys, "stats", *TINY, "--json")
    found = json.loads(out)
    assert status == 0
    assert found["version"] == world.version and found["shop"]["manifest"] == world.manifest["hash"]
    assert found["tasks"] == {
        split: len(world.tasks(split)) for split in ("train", "skill_validation", "model_dev", "audit", "test")
    }
    assert found["shop"]["products"] == len(world.catalogue.products) == 120
    assert sum(found["features"]["budget"].values()) == sum(found["tasks"].values()) == 60
    assert found["proof"]["tasks"] == 60 and found["proof"]["most_actions"] <= 8
    assert found["proof"] == {name: getattr(prove(world), name) for name in found["proof"]}
    seen = found["texts"]
    assert {"request", "persona", "page: search_home", "page: search_results"} <= set(seen)
    assert 0 < seen["request"]["words"]["min"] <= seen["request"]["words"]["mean"] <= seen["request"]["words"]["max"]
    assert seen["request"]["tokens"]["mean"] >= seen["request"]["words"]["mean"]
    assert seen["request"]["texts"] == 60 - found["tasks"]["test"]


def test_statistics_are_a_table_too_and_work_for_any_family(capsys):
    status, out, _ = said(capsys, "stats", *TINY, "--no-prove", "--episodes", "2")
    assert status == 0 and "skill_validation" in out and "option axes" in out and "solvable" not in out
    status, out, _ = said(capsys, "stats", "env.name=planted")
    assert status == 0 and "planted" in out and "r_half" in out


def test_an_unfair_world_is_said_to_be_unsolvable_and_fails(capsys, monkeypatch):
    monkeypatch.setattr("intraskill.environments.shopworld.proof.ORACLE_ACTIONS", 1)
    status, out, _ = said(capsys, "stats", *TINY, "--episodes", "1")
    assert status == 1 and "NOT SOLVABLE" in out


def test_a_manifest_is_written_once_and_then_refuses_every_other_world(capsys, tmp_path, world):
    path = tmp_path / "manifest.json"
    words = ("--no-prove", "--episodes", "0", "--manifest", str(path))
    assert said(capsys, "stats", *TINY, *words)[0] == 0
    written = path.read_text(encoding="utf-8")
    assert json.loads(written) == world.manifest
    assert said(capsys, "stats", *TINY, *words)[0] == 0 and path.read_text(encoding="utf-8") == written
    status, out, err = said(capsys, "stats", *TINY, "env.seed=1", *words)
    assert status == 2 and "belongs to catalogue" in err and world.catalogue.hash in err and out == ""
    path.write_text("[1]")
    assert said(capsys, "stats", *TINY, *words)[0] == 2
    path.write_text("{broken")
    status, _, err = said(capsys, "stats", *TINY, *words)
    assert status == 2 and "ArtifactError" in err
    status, _, err = said(capsys, "stats", "env.name=planted", *words)
    assert status == 2 and "only a shop" in err


# -- play ------------------------------------------------------------------------------------------------------------


def test_a_scripted_player_buys_and_sees_every_reward_part(tmp_path, world):
    task_id = world.tasks("train")[0].id
    goal = world.shop_task(task_id).goal
    transcript = tmp_path / "play.jsonl"
    words = [*TINY, "--task", task_id, "--out", str(transcript)]
    status, out, err = played(words, ["help", "nonsense", "click nowhere", *typed(world, task_id)])
    assert status == 0 and err == ""
    for name in world.reward_parts:
        assert f"{name} = 1" in out
    assert world.shop_task(task_id).request in out and "feedback: unavailable_action" in out
    assert "no tool and no number: 'nonsense'" in out and "NUMBER" in out
    assert "--- goal ---" not in out
    records = [json.loads(line) for line in transcript.read_text(encoding="utf-8").splitlines()]
    assert records[0]["task"] == task_id and records[0]["version"] == world.version
    assert records[-1]["done"] and records[-1]["parts"]["r_strict"] == 1.0
    assert [record["turn"] for record in records[1:]] == list(range(1, len(records)))
    before = out[: out.index("1>")]
    assert goal.product_id not in before and goal.title not in before and task_id not in before


def test_the_goal_is_shown_only_when_asked_for_and_only_after_the_end(world):
    task_id = world.tasks("train")[0].id
    lines = typed(world, task_id)
    _, out, _ = played([*TINY, "--task", task_id, "--reveal"], lines)
    assert out.index(f"the end of {task_id}: purchase") < out.index("--- goal ---")
    assert world.shop_task(task_id).goal.title in out[out.index("--- goal ---") :]
    _, out, _ = played([*TINY, "--task", task_id, "--reveal"], lines[:-1])
    assert "--- goal ---" not in out and "nothing is paid, and --reveal shows a goal only after" in out


def test_a_pipe_plays_as_a_terminal_does(world):
    task_id = world.tasks("train")[0].id
    lines = typed(world, task_id)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = launch(["play", *TINY, "--task", task_id], **pipes)
    out, _ = process.communicate("\n".join(lines), timeout=SECONDS)
    assert process.returncode == 0 and out == played([*TINY, "--task", task_id], lines)[1]
    assert "r_success = 1" in out


def test_a_number_takes_the_listed_action_and_raw_text_goes_as_it_is():
    _, out, _ = played(TINY, ["search mug", "1", "raw I think so", "again", "quit"])
    first = re.search(r"\[1\] (\S+)", out)
    assert first and out.count("feedback: executed") == 2 and "feedback: invalid_format" in out
    assert out.count("--- page ---") == 5


def test_the_seed_draws_the_task_and_ids_are_checked(capsys):
    picked = {
        re.search(r"(\S+) was left before its end", played([*TINY, "--seed", seed], ["quit"])[1])[1] for seed in "001"
    }
    assert len(picked) == 2
    status, _, err = said(capsys, "play", *TINY, "--task", "shop-99999")
    assert status == 2 and "SplitError" in err and "shop-" in err


def test_a_transcript_that_cannot_be_written_is_refused_before_play(tmp_path):
    path = tmp_path / "absent" / "x.jsonl"
    status, out, err = played([*TINY, "--out", str(path)], ["quit"])
    assert status == 2 and "ArtifactError: --out=" in err and out == "" and err.count("\n") == 1


def test_play_without_input_without_a_reader_and_after_ctrl_c_ends_without_a_traceback():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    closed = launch(["play", *TINY], preexec_fn=lambda: os.close(0), **pipes)
    out, err = closed.communicate(timeout=SECONDS)
    assert closed.returncode == 0 and err == "" and "was left before its end" in out
    for words in (["play", *TINY], ["stats", *TINY, "--no-prove", "--episodes", "0"]):
        unread = launch(words, stdin=subprocess.PIPE, **pipes)
        unread.stdout.close()
        unread.stdin.close()
        assert unread.wait(SECONDS) in GONE and unread.stderr.read() == ""
    stopped = launch(["play", *TINY], stdin=subprocess.PIPE, preexec_fn=hears_ctrl_c, **pipes)
    while not stopped.stdout.readline().startswith("--- page ---") and stopped.poll() is None:
        pass
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate(timeout=SECONDS)
    assert stopped.returncode == 0 and err == "" and "was left before its end: nothing is paid" in out


def hears_ctrl_c():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored


def test_test_tasks_are_refused_by_split_and_by_id(capsys, world):
    for words in (("--split", "test"), ("--task", world.tasks("test")[0].id)):
        status, out, err = said(capsys, "play", *TINY, *words)
        assert status == 2 and "SplitError" in err and "final report" in err and out == ""
    status, _, err = said(capsys, "play", *TINY, "--split", "exam")
    assert status == 2 and "unknown split" in err


def test_another_family_is_played_with_its_own_tools(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    status, out, _ = played(["env.name=number_hunt:NumberHunt"], ["guess 31", "15", "guess 16", "1", "2", "3"])
    assert status == 0 and "feedback: unavailable_action" in out and "than 15" in out
    assert ": guessed, reward" in out and "r_close = " in out


# -- check -----------------------------------------------------------------------------------------------------------


def test_the_check_prints_one_line_per_rule_and_passes_a_sound_world(capsys):
    status, out, _ = said(capsys, "check", *TINY, "--tasks", "3")
    assert status == 0
    lines = out.splitlines()
    assert len(lines) == 22 and all(line.startswith("ok ") for line in lines)
    status, out, _ = said(capsys, "check", *TINY, "--tasks", "2", "--json")
    assert status == 0 and {row["status"] for row in json.loads(out)} == {"ok"}


def test_the_check_fails_with_the_broken_rule_and_what_to_do(capsys, tmp_path, monkeypatch):
    (tmp_path / "bent.py").write_text(
        "from number_hunt import Hunt, NumberHunt\n"
        "class Bent(Hunt):\n"
        "    def terminate(self, reason):\n"
        "        return self.outcome('executed', '', reason, 1.0, 0.0)\n"
        "class World(NumberHunt):\n"
        "    def open(self):\n"
        "        return Bent(self)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    status, out, _ = said(capsys, "check", "env.name=bent:World")
    broken = [line for line in out.splitlines() if line.startswith("VIOLATED")]
    assert status == 1 and len(broken) == 1 and broken[0].startswith("VIOLATED terminate: ")
    assert "pays 1.0" in broken[0] and "parts=" in broken[0]


def test_bad_words_are_one_clear_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["env", "check", *TINY, "--tasks", "0"])
    status, _, err = said(capsys, "check", "env.name=nowhere:Nothing")
    assert status == 2 and "ConfigError" in err and "package.module:factory" in err
    status, _, err = said(capsys, "serve", "env.name=planted")
    assert status == 2 and "no shop" in err
    with pytest.raises(SystemExit):
        main(["env"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["env.options.languge=en"], "no 'languge', did you mean 'language'? It takes: language, page_size"),
        (["env.options.page_size=abc"], "env.options.page_size='abc' is a str, and env.name=shopworld takes int"),
        (["env.options.page_size=true"], "is a bool"),
        (["env.name=intraskill.environments.shop_files:webshop"], "set env.options.items=…, it has no default"),
        ([f"{REMOTE}", "env.options.page_size=4"], "It takes: persona, url, dialect"),
        ([f"{REMOTE}", "env.options.slots=many"], "is a str"),
        ([f"{REMOTE}", "env.options.split_sizes=3"], "the factory failed: AttributeError"),
        ([f"{REMOTE}", "env.preset=plain"], "env.options.persona=false"),
        (["env.name=bad_env:boom"], "env.name=bad_env:boom: the factory failed: ValueError: no such shop"),
        (["env.name=bad_env:without_preset"], "takes no preset"),
        (
            ["env.name=shopwrld"],
            "env.name=shopwrld is no name, did you mean 'shopworld'? There are: shopworld, planted",
        ),
        (["env.name=bad_env:NUMBER"], "names a int, which cannot be called"),
        (
            ["env.name=bad_module:any"],
            "cannot be imported; use shopworld, planted or 'package.module:factory': OSError",
        ),
    ],
)
def test_options_that_do_not_fit_and_factories_that_fail_are_one_sentence(
    capsys, tmp_path, monkeypatch, words, message
):
    (tmp_path / "bad_env.py").write_text(
        "NUMBER = 3\ndef boom(**options):\n    raise ValueError('no such shop')\ndef without_preset(seed):\n    pass\n"
    )
    (tmp_path / "bad_module.py").write_text("raise OSError('gone')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    status, out, err = said(capsys, "check", *words)
    assert status == 2 and "ConfigError" in err and message in err and err.count("\n") == 1 and out == ""


# -- serve -----------------------------------------------------------------------------------------------------------


def test_a_server_answers_and_stops_cleanly_at_ctrl_c(world):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = launch(["serve", *TINY, "--port", "0", "--slots", "20", "--splits", "train"], **pipes)
    try:
        first = process.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", first)[0]
        assert world.version in first and "shopsim-lease" in first
        with urllib.request.urlopen(url + "/healthz", timeout=SECONDS) as reply:
            assert json.load(reply)["environment_version"] == world.version
        shop = RemoteShop(url=url, slots=20)
        assert shop.tasks("test") == () and len(shop.tasks("train")) == len(world.tasks("train"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0 and err.strip() == "intraskill: stopped serving"


def test_a_server_is_looked_at_with_the_default_preset_and_one_slot(capsys):
    world = ShopWorld("tiny", 0, language="plain", page_size=4)
    with ShopServer(world, ServeSettings(port=0)) as server:
        words = (REMOTE, f"env.options.url={server.url}", "env.options.slots=1")
        status, out, _ = said(capsys, "stats", *words, "--episodes", "2")
        assert status == 0 and str(len(world.tasks("train"))) in out
        assert said(capsys, "check", *words, "--tasks", "2")[0] == 0
        assert played(words, ["search mug", "quit"])[0] == 0
        assert server.programme.desk.free_slots == server.programme.desk.slots


@pytest.mark.slow
def test_the_documented_experiment_trains_against_a_server(tmp_path):
    with ShopServer(ShopWorld("small", 0, language="plain", page_size=4), ServeSettings(port=0)) as server:
        run = tmp_path / "run"
        assert main(["train", "+exp=remote", f"env.options.url={server.url}", *SMALLEST, f"run_dir={run}"]) == 0
        assert (run / "summary.json").exists() and server.programme.desk.free_slots == server.programme.desk.slots


def test_a_dry_run_refuses_options_that_do_not_fit_and_asks_no_server(capsys):
    assert main(["train", "+exp=remote", "--dry-run"]) == 0
    assert main(["train", REMOTE, "env.options.page_size=4", "--dry-run"]) == 2
    assert "has no 'page_size'" in capsys.readouterr().err


ANY_LINE = (
    *('raw {"name":', "raw", "submit", 'submit {"letters": ', "submit {}", 'submit {"letters": 3}', "nosuchtool x"),
    *(
        "",
        "   ",
        "\x1b[2J\x07",
        "raw \x00\x1b[31m",
        "9" * 5000,
        "0",
        "-1",
        "٣",
        "1" * 1_000_000,
        "raw " + "x" * 1_000_000,
    ),
    *("raw \ud83d half", "\ud83d", "submit \ud83d", "raw " + "[" * 100_000, "again", "help"),
)


def sorting(tmp_path, monkeypatch, text=""):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"played_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(f"from sorting import *\nclass World(Sorting):\n    pass\n{text}")
    return f"env.name={name}:World"


def test_no_line_ends_a_played_episode(tmp_path, monkeypatch):
    transcript = tmp_path / "play.jsonl"
    words = (sorting(tmp_path, monkeypatch), "--task", "train-3", "--out", str(transcript), "--reveal")
    status, out, err = played(words, [*ANY_LINE, "submit acdg"])
    assert status == 0 and err == "" and "the end of train-3: handed_in, reward 10" in out
    assert "r_success = 1" in out and '"letters": "acdg"' in out[out.index("--- goal ---") :]
    assert "\x1b" not in out and len(out) < 2 * len(ANY_LINE) * 1000
    records = [json.loads(line) for line in transcript.read_text(encoding="utf-8").splitlines()]
    assert records[-1]["reward"] == 10 and records[-1]["turn"] == len(records) - 1


def test_bytes_that_are_no_text_and_a_missing_last_line_end_no_episode_either(tmp_path):
    shared = {"PYTHONPATH": f"{Path(__file__).parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "intraskill.cli", "env", "play", "env.name=sorting:Sorting", "--task", "train-3"]
    lines = b"raw \xff\xfe\n\xed\xa0\xbd\nraw \xed\xa0\xbd\nsubmit acdg"
    environment = os.environ | shared | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, input=lines, capture_output=True, env=environment, timeout=SECONDS)
    assert done.returncode == 0 and done.stderr == b"" and b"reward 10" in done.stdout


RAISING = """
class Raising(Desk):
    def step(self, action):
        outcome = super().step(action)
        if "odd" in action:
            raise {}
        return outcome if outcome.done else None
def opened(self): return Raising(self)
World.open = opened
"""


@pytest.mark.parametrize("error", ["ValueError('half a\\ud83d')", "EnvironmentError(5, 'gone')", "RecursionError()"])
def test_an_environment_that_raises_or_returns_nothing_is_said_and_played_on(tmp_path, monkeypatch, error):
    name = sorting(tmp_path, monkeypatch, RAISING.format(error))
    status, out, err = played((name, "--task", "train-3"), ["raw odd", "submit zz", "submit acdg"])
    assert status == 0 and err == "" and "handed_in, reward 10" in out
    assert (
        f"the environment broke, which sets a rollout aside: {error.split('(')[0].replace('Environment', 'OS')}" in out
    )
    assert "TypeError: step returned a NoneType, not an Outcome" in out


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def opened(self): return Desk(None)\nWorld.open = opened\n", "train-3 cannot be opened: AttributeError"),
        ("World.tools = [{'name': 'submit'}]\n", "its tasks or tools cannot be read: KeyError: 'function'"),
        ("World.tasks = None\n", "its tasks or tools cannot be read: TypeError"),
        ("World.reward_range = (1, 0)\n", "World.reward_range must be two finite numbers"),
    ],
)
def test_an_environment_that_cannot_be_played_is_one_sentence(tmp_path, monkeypatch, text, what):
    name = sorting(tmp_path, monkeypatch, text)
    status, _, err = played((name, "--task", "train-3"), ["submit acdg"])
    assert status == 2 and what in err and err.count("\n") == 1


def test_a_tool_with_several_arguments_or_none_is_called(tmp_path, monkeypatch):
    text = (
        "def tool(name, *names):\n"
        "    schema = {'type': 'object', 'properties': {n: {'type': 'string'} for n in names}}\n"
        "    return {'type': 'function', 'function': {'name': name, 'description': name, 'parameters': schema}}\n"
        "World.tools = [*World.tools, tool('look'), tool('move', 'source', 'target')]\n"
    )
    name, transcript = sorting(tmp_path, monkeypatch, text), tmp_path / "play.jsonl"
    lines = ["look", "look around", "move a b", 'move {"source": "a", "target": "b"}', "quit"]
    status, out, _ = played((name, "--out", str(transcript)), lines)
    assert status == 0 and "look takes 0 arguments; write: look" in out
    assert 'move takes 2 arguments; write: move {"source": "…", "target": "…"}' in out
    actions = [json.loads(line).get("action") for line in transcript.read_text(encoding="utf-8").splitlines()][1:]
    assert [json.loads(action.split("\n")[1])["arguments"] for action in actions] == [
        {},
        {"source": "a", "target": "b"},
    ]
