"""A finished or stopped run gets more rounds by the same command with a larger ``rounds``, to the same bytes."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import statsmodels.regression.linear_model  # noqa: F401  # once here, not in every forked child
from dying import dies_at
from planted_runs import TASKS, content

from intraskill.cli import main
from intraskill.store.provenance import plan_record
from intraskill.store.run_directory import locked

SIZES = "{" + ",".join(f"{split}: {size}" for split, size in TASKS.items()) + "}"
PLANTED = ["+exp=planted", "rollout.batch=16", f"env.options.tasks_per_split={SIZES}", "gate.tasks=40"]
PLANTED += ["grpo.steps_per_round=3", "grpo.save_every_steps=1", "grpo.groups_per_step=4", "coldstart.tasks=12"]
TINY = ["+exp=tiny_kill", "grpo.steps_per_round=2", "final.tasks=4", "coldstart.tasks=4"]
SUMS = ("tokens", "timing", "answers")
"""Parts of the summary that count the shorter run's closing comparison too."""


def train(root, rounds, *words, experiment=PLANTED):
    return main(["train", *experiment, f"run_dir={root}", f"rounds={rounds}", *words])


def comparable(root, shorter=None):
    """Return what a lengthened run shares with one planned so: all but the shorter's closing comparison."""
    files = content(root)
    summary = json.loads(files.pop("summary.json"))
    files["summary.json"] = {key: value for key, value in summary.items() if key not in SUMS}
    if shorter is None:
        return files
    earlier = {f"final_{shorter:03d}", f"final_{shorter:03d}/DONE"}
    files = {name: held for name, held in files.items() if not name.startswith(tuple(earlier))}
    files["metrics.jsonl"] = [
        row for row in files["metrics.jsonl"] if not (row["round"] == shorter and row["stage"].startswith("final_"))
    ]
    return files


def differing(one, two):
    return sorted(name for name in {*one, *two} if one.get(name) != two.get(name))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole") / "run"
    assert train(root, 4) == 0
    return root


@pytest.fixture
def finished(tmp_path, tmp_path_factory):
    kept = tmp_path_factory.getbasetemp() / "shorter"
    if not kept.exists():
        assert train(kept, 2) == 0
    return Path(shutil.copytree(kept, tmp_path / "run"))


def test_a_finished_run_is_lengthened_to_the_bytes_of_one_that_was_planned_so(whole, finished, capsys):
    root = finished
    first = content(root)
    assert train(root, 4, "--dry-run") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{root} goes on after round 2 of 4, lengthened from 2 rounds; final/ of the shorter run is kept as" in said
    assert differing(content(root), first) == []
    assert train(root, 4) == 0
    assert differing(comparable(root, 2), comparable(whole)) == []
    earlier = {name: held for name, held in first.items() if name.startswith("final/")}
    assert earlier and all(content(root)[name.replace("final/", "final_002/")] == earlier[name] for name in earlier)
    (change,) = json.loads((root / "plan.json").read_text())["lengthened"]
    assert change["rounds"] == [2, 4] and change["after_round"] == 2 and change["packages"]["intraskill"]
    assert "lengthened" not in json.loads((whole / "plan.json").read_text())


def test_a_run_that_was_stopped_in_the_middle_is_lengthened_too(whole, tmp_path):
    root = tmp_path / "run"
    assert run_until(root, 2, 60) == -signal.SIGKILL
    assert not (root / "final").exists() and not (root / "round_002" / "DONE").exists()
    assert train(root, 4) == 0
    assert differing(comparable(root), comparable(whole)) == []
    assert train(root, 4) == 0 and len(plan_record(root)["lengthened"]) == 1


def _run_until(root, rounds, syncs):
    dies_at(syncs)
    os._exit(train(root, rounds))


def run_until(root, rounds, syncs):
    child = multiprocessing.get_context("fork").Process(target=_run_until, args=(root, rounds, syncs))
    child.start()
    child.join()
    return child.exitcode


@pytest.mark.parametrize("moment", [1, 2, 3, 5, 20, 60, 110])
def test_a_lengthening_that_is_killed_ends_in_the_same_bytes(whole, finished, moment):
    root = finished
    assert run_until(root, 4, moment) == -signal.SIGKILL
    assert train(root, 4) == 0
    assert differing(comparable(root, 2), comparable(whole)) == []


def test_after_a_kill_before_the_plan_changed_the_shorter_run_is_whole_again_and_lengthens_again(whole, finished):
    root = finished
    first = content(root)
    assert run_until(root, 4, 1) == -signal.SIGKILL  # the first write is that of plan.json
    assert plan_record(root)["plan"]["rounds"] == 2 and not (root / "final").exists()
    assert train(root, 2) == 0
    other = [name for name in differing(content(root), first) if not name.startswith("final_002/")]
    assert set(other) <= {".plan.json.tmp", "summary.json"}  # a summary holds times
    assert train(root, 4) == 0
    assert differing(comparable(root, 2), comparable(whole)) == []


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_a_rate_that_falls_with_the_rounds_is_not_lengthened(tmp_path, capsys, decay):
    root = tmp_path / "run"
    assert train(root, 1, f"grpo.lr_decay={decay}") == 0
    before = content(root)
    assert train(root, 2, f"grpo.lr_decay={decay}") == 2
    assert f"cannot be lengthened from 1 to 2 rounds: with grpo.lr_decay={decay}" in capsys.readouterr().err
    assert train(root, 2) == 2
    assert "differs in 1: grpo.lr_decay" in capsys.readouterr().err
    assert differing(content(root), before) == []


def test_a_run_is_not_shortened_nor_lengthened_with_another_option(finished, capsys):
    root = finished
    before = content(root)
    assert train(root, 1) == 2
    assert "differs in 1: rounds: 2 there, 1 here" in capsys.readouterr().err
    assert train(root, 3, "grpo.steps_per_round=4") == 2
    assert "differs in 1: grpo.steps_per_round: 3 there, 4 here" in capsys.readouterr().err
    assert train(root, 3, "grpo.steps_per_round=4", "--dry-run") == 0
    assert "would be refused" in " ".join(capsys.readouterr().out.split())
    assert differing(content(root), before) == []


def test_a_run_that_another_process_writes_is_not_lengthened(finished):
    root = finished
    before = content(root)
    with locked(root):
        words = ["train", *PLANTED, f"run_dir={root}", "rounds=4"]
        second = subprocess.run([sys.executable, "-m", "intraskill", *words], capture_output=True, text=True)
    assert second.returncode == 2 and "another process writes" in second.stderr
    assert differing(content(root), before) == []


@pytest.mark.slow
def test_a_run_of_the_real_tiny_policy_is_lengthened_to_the_same_bytes_weights_included(tmp_path):
    for name, lives in (("long", [2]), ("lengthened", [1, 2])):
        for rounds in lives:
            assert train(tmp_path / name, rounds, experiment=TINY) == 0
    assert differing(comparable(tmp_path / "lengthened", 1), comparable(tmp_path / "long")) == []
