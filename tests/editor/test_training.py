"""Training an editor: it updates, and a killed run resumes to the same bytes and pays no trial twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from editor.editing import planted_editing
from planted_runs import content

from intraskill.editor.training import train_editor
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.runtime.run_directory import read_jsonl

TESTS = Path(__file__).parents[1]
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from dying import dies_at
from pathlib import Path
from editor.editing import planted_editing
from intraskill.editor.training import train_editor
count = dies_at(int(sys.argv[4]))
run = train_editor(planted_editing(Path(sys.argv[2]), sys.argv[3]))
print(count(), run.trials.asked)
"""


def live(place, name, syncs=0):
    command = [sys.executable, "-c", CHILD, str(TESTS), str(place), name, str(syncs)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def artifacts(root):
    """Everything but the trials' log, whose order is that of asking, and the clocks."""
    return {name: bytes_ for name, bytes_ in content(root).items() if not name.startswith("trials")}


def test_training_updates_the_weights_and_compares_on_held_out_streams(editing_place):
    run = train_editor(planted_editing(editing_place, "one"))
    rows = [row for row in run.metrics.rows() if row["stage"] == "editor"]
    assert len(rows) == 4
    assert sum(row["editor/valid_share"] > 0 for row in rows) >= 2
    assert any("train/loss" in row for row in rows)
    assert (run.root / "final" / "DONE").exists()
    lines = read_jsonl(run.root / "editor/train.jsonl")
    assert all(row["reward"] in (0.0, 1.0) for line in lines if line["anchors"] for row in line["answers"])
    asked = run.trials.asked
    again = train_editor(planted_editing(editing_place, "one"))
    assert asked > 0
    assert again.trials.asked == 0


def test_a_killed_training_resumes_to_the_same_bytes_and_pays_no_trial_twice(editing_place):
    whole = live(editing_place, "whole")
    assert whole.returncode == 0, whole.stderr
    syncs, asked = map(int, whole.stdout.split())
    for share in (0.3, 0.6):
        assert live(editing_place, "killed", max(1, round(syncs * share))).returncode == -signal.SIGKILL
    last = live(editing_place, "killed")
    assert last.returncode == 0, last.stderr
    expected, found = artifacts(editing_place / "whole"), artifacts(editing_place / "killed")
    assert "editor/checkpoint/weights.safetensors" in expected
    assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []
    trials = [
        sorted(
            (row["skill"], row["query"], row["seed"], row["score"])
            for row in read_jsonl(editing_place / name / "trials.partial.jsonl")
        )
        for name in ("whole", "killed")
    ]
    assert trials[0] == trials[1]
    assert len(set(trials[1])) == len(trials[1])
    assert int(last.stdout.split()[1]) < asked


def test_a_directory_of_another_plan_is_refused(editing_place):
    train_editor(planted_editing(editing_place, "plan"))
    other = planted_editing(editing_place, "plan")
    other.editor.anchors = 2
    with pytest.raises(ArtifactError, match=r"editor\.anchors"):
        train_editor(other)


def test_a_prompt_beyond_the_models_positions_is_refused_at_the_start(editing_place):
    config = planted_editing(editing_place, "long")
    config.editor.prompt_tokens, config.rollout.max_context = 2000, 4096
    with pytest.raises(ConfigError, match="positions"):
        train_editor(config)
    config.rollout.max_context = 1024
    with pytest.raises(ConfigError, match=r"editor\.prompt_tokens=2000"):
        train_editor(config)
