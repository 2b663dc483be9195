"""``kill -9`` at any moment and the same command again: the same bytes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
import statsmodels.regression.linear_model  # noqa: F401  # once here, not in every forked child
from dying import dies_at
from planted_runs import TASKS, content, planted_config

from intraskill.cli import main
from intraskill.method.randomness import child_seed
from intraskill.report.summary import write_summary
from intraskill.rounds.loop import run

KILLS = 20


def _run_until(config, syncs):
    """Run in this process and die at the n-th fsync: between the write and the rename of some artifact."""
    count = dies_at(syncs)
    run(config)
    with open(os.path.join(config.run_dir, ".syncs"), "w") as stream:
        stream.write(str(count()))


def run_until(config, syncs):
    child = multiprocessing.get_context("fork").Process(target=_run_until, args=(config, syncs))
    child.start()
    child.join()
    return child.exitcode


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole") / "run"
    assert run_until(planted_config(root, fault_rate=0.01), 0) == 0
    syncs = int((root / ".syncs").read_text())
    (root / ".syncs").unlink()
    return content(root), syncs


def test_a_run_killed_at_twenty_moments_ends_in_the_same_bytes(whole, tmp_path):
    expected, syncs = whole
    config = planted_config(tmp_path / "run", fault_rate=0.01)
    # Each life may do at most a share of the work, so that the kills spread over the whole run.
    lives = [1 + child_seed(0, "kill", life) % max(2, syncs // 5) for life in range(KILLS)]
    killed = [run_until(config, life) for life in lives]
    assert killed.count(-signal.SIGKILL) >= KILLS // 3
    assert run_until(config, 0) == 0
    (tmp_path / "run" / ".syncs").unlink(missing_ok=True)
    found = content(tmp_path / "run")
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.75, 0.95])
def test_a_run_killed_once_ends_in_the_same_bytes(whole, tmp_path, share):
    expected, syncs = whole
    config = planted_config(tmp_path / "run", fault_rate=0.01)
    assert run_until(config, max(1, round(syncs * share))) == -signal.SIGKILL
    assert run_until(config, 0) == 0
    (tmp_path / "run" / ".syncs").unlink()
    found = content(tmp_path / "run")
    assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []


@pytest.mark.slow
def test_a_small_run_killed_at_every_single_sync_ends_in_the_same_bytes(tmp_path):
    def small(name):
        sizes = {"train": 12, "skill_validation": 30, "test": 8}
        config = planted_config(tmp_path / name, tasks_per_split=sizes)
        config.rounds, config.grpo.steps_per_round, config.grpo.save_every_steps = 1, 3, 1
        config.grpo.groups_per_step, config.frontier.max_tasks, config.rollout.batch = 2, 2, 30
        return config

    assert run_until(small("whole"), 0) == 0
    syncs = int((tmp_path / "whole" / ".syncs").read_text())
    (tmp_path / "whole" / ".syncs").unlink()
    expected = content(tmp_path / "whole")
    for moment in range(1, syncs + 1):
        name = f"killed-{moment}"
        assert run_until(small(name), moment) == -signal.SIGKILL
        assert run_until(small(name), 0) == 0
        (tmp_path / name / ".syncs").unlink()
        found = content(tmp_path / name)
        assert [key for key in {*found, *expected} if found.get(key) != expected.get(key)] == [], moment


def test_another_seed_gives_other_bytes(whole, tmp_path):
    expected, _ = whole
    config = planted_config(tmp_path / "run", fault_rate=0.01)
    config.seed = 1
    assert run_until(config, 0) == 0
    assert content(tmp_path / "run")["round_002/bare.jsonl"] != expected["round_002/bare.jsonl"]


def test_the_command_line_continues_a_killed_run(tmp_path):
    sizes = "{" + ",".join(f"{split}: {size}" for split, size in TASKS.items()) + "}"
    words = ["train", "+exp=planted", "rounds=3", "rollout.batch=4", f"env.options.tasks_per_split={sizes}"]
    command = [*words, "grpo.steps_per_round=4", "grpo.save_every_steps=1", "gate.tasks=40"]
    victim = subprocess.Popen([sys.executable, "-m", "intraskill.cli", *command, f"run_dir={tmp_path / 'killed'}"])
    deadline = time.monotonic() + 60
    while not (tmp_path / "killed" / "round_000" / "bare.partial.jsonl").exists() and time.monotonic() < deadline:
        assert victim.poll() is None
        time.sleep(0.005)
    victim.kill()
    assert victim.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "final" / "DONE").exists()
    for name in ("killed", "whole"):
        assert main([*command, f"run_dir={tmp_path / name}"]) == 0
    found, expected = content(tmp_path / "killed"), content(tmp_path / "whole")
    for files in (found, expected):
        files.pop("summary.json")
    assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []
    assert write_summary(tmp_path / "killed")["rounds"] == write_summary(tmp_path / "whole")["rounds"]
