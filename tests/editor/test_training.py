"""Training an editor: it updates, compares on held-out streams, and refuses what is not its own."""

import pytest
from editor.editing import planted_editing

from intraskill.editor.domains.planted import PlantedDomain
from intraskill.editor.setup import editor_bench
from intraskill.editor.training import train_editor
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.store.metrics import Silence
from intraskill.store.run_directory import read_jsonl


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


def test_a_run_is_not_continued_in_other_worlds(editing_place, monkeypatch):
    config = planted_editing(editing_place, "other-worlds")
    config.editor.steps, config.editor.eval_streams = 1, 0
    train_editor(config)
    monkeypatch.setattr(PlantedDomain, "version", "planted-editing-1")
    with pytest.raises(ArtifactError, match="differs in 1: domain: '[0-9a-f]+' there, 'planted-editing-1' here"):
        train_editor(config)


class Listener(Silence):
    def __init__(self):
        self.lines = []

    def say(self, message):
        self.lines.append(message)


@pytest.mark.parametrize(("wanted", "said"), [(2, []), (24, ["editor.eval_streams=24 are wanted, all 2"])])
def test_more_held_out_streams_than_there_are_is_said_in_one_line(editing_place, tmp_path, wanted, said):
    config, listener = planted_editing(editing_place, "unused"), Listener()
    config.editor.eval_streams = wanted
    run = editor_bench(config, tmp_path, listener)
    assert len(run.held_out) == len(run.held_out) == 2
    assert [line.split(" held-out")[0] for line in listener.lines] == said


def test_a_prompt_beyond_the_models_positions_is_refused_at_the_start(editing_place):
    config = planted_editing(editing_place, "long")
    config.editor.prompt_tokens, config.rollout.max_context = 2000, 4096
    with pytest.raises(ConfigError, match="positions"):
        train_editor(config)
    config.rollout.max_context = 1024
    with pytest.raises(ConfigError, match=r"editor\.prompt_tokens=2000"):
        train_editor(config)
