"""Training an editor: it updates, compares on held-out streams, and refuses what is not its own."""

import pytest
from editor.editing import planted_editing

from intraskill.editor.training import train_editor
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.runtime.run_directory import read_jsonl


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
