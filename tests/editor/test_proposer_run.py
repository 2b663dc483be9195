"""`proposer.name=skill_alpha` in real runs: trained editors from disk, exact resume, refusals in one sentence."""

import shutil
from collections import Counter
from dataclasses import replace

import pytest
from editor.editing import planted_editing, write_editor
from planted_runs import content, planted_config
from safetensors.torch import load_file, save_file

from intraskill.cli import main
from intraskill.config.config import check
from intraskill.config.overrides import compose
from intraskill.editor.trained import trained_editor
from intraskill.editor.training import train_editor
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.rounds.loop import run
from intraskill.rounds.setup import assemble, bench
from intraskill.store.metrics import Silence
from intraskill.store.run_directory import read_json, read_jsonl, write_json


def editing_run(run_dir, editor="tiny_editor", **proposer):
    config = planted_config(run_dir)
    config.proposer.name, config.proposer.editor = "skill_alpha", str(editor)
    for name, value in proposer.items():
        setattr(config.proposer, name, value)
    return check(config)


class Listener(Silence):
    """Keeps what is said."""

    def __init__(self):
        self.lines = []

    def say(self, message):
        self.lines.append(message)


def untrained(place, name="editor"):
    """A run of `intraskill editor train` that makes an editor of bare weights."""
    config = planted_editing(place, name)
    config.editor.steps, config.editor.eval_streams = 0, 0
    return train_editor(config).root


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    place = tmp_path_factory.mktemp("toy")
    write_editor(place / "model")
    return untrained(place)


def toy_run(run_dir, toy):
    config = editing_run(run_dir, toy, temperature=1.0)
    config.seed = 3  # with it the random editor draws a PRUNE of a chunk that is there in round 1
    config.coldstart.draft, config.final.tasks = "skills/shopping_draft.md", 0
    config.proposer.drafts = False
    return run(config)


@pytest.fixture(scope="module")
def edited(toy, tmp_path_factory):
    return toy_run(tmp_path_factory.mktemp("edited") / "run", toy)


def counted(directory):
    """The answers of a pass by what became of them, after checking that every one is counted and recorded once."""
    counts, records = read_json(directory / "edits.json")["counts"], read_jsonl(directory / "analyses.jsonl")
    outcomes = Counter(record["outcome"] for record in records)
    assert counts["asked"] == len(records) and counts["noop"] == outcomes.pop("noop", 0)
    proposed = outcomes.pop("proposed", 0)
    assert counts["invalid"] == sum(outcomes.values()) == counts["asked"] - counts["noop"] - proposed
    assert {name: counts[name] for name in outcomes} == outcomes
    return counts, records


def test_an_edit_of_a_trained_editor_is_tried_by_the_gate_and_its_fate_is_recorded(edited, toy):
    counts, records = counted(edited / "round_001")
    found = read_json(edited / "round_001" / "edits.json")
    assert found["analyst"] == f"skill_alpha:{toy.name}" and counts["mapped"] >= 1
    tried = [one for record in records for one in record["proposals"] if one["fate"] == "to_gate"]
    assert tried and {one["proposal"]["op"] for one in tried} == {"DELETE"}
    decided = read_json(edited / "round_001" / "decision.json")
    assert all(one["edit_id"] in decided["fates"] for one in tried)
    entries = {entry["edit_id"]: entry for entry in read_json(edited / "round_001" / "ledger.json")["entries"]}
    assert all(entries[one["edit_id"]]["support"] == one["proposal"]["support"] for one in tried)
    counted(edited / "round_000")


def test_a_round_that_is_done_again_asks_for_the_same_edits(edited, toy, tmp_path):
    again = tmp_path / "run"
    shutil.copytree(edited, again)
    for name in ("round_001", "round_002"):
        shutil.rmtree(again / name)
    toy_run(again, toy)
    expected, found = content(edited), content(again)
    assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []


def test_the_shipped_editor_proposes_in_a_planted_run_to_its_end(tmp_path):
    config = editing_run(tmp_path / "run")
    config.rounds = 1
    watcher = Listener()
    root = run(config, watcher)
    counts = [counted(root / f"round_00{number}")[0] for number in (0, 1)]
    assert counts[0]["asked"] == 12 and counts[1]["asked"] > 0 and (root / "final" / "DONE").exists()
    assert any(line.startswith("round 0: skill_alpha:tiny_editor gave 12 answers: ") for line in watcher.lines)


def test_a_run_with_a_trained_editor_refuses_another_one_under_the_same_name(toy, tmp_path):
    place = tmp_path / "place"
    shutil.copytree(toy.parent, place)
    plan = read_json(place / "editor" / "plan.json")
    plan["plan"]["policy.path"] = str(place / "model")
    write_json(place / "editor" / "plan.json", plan)
    config = editing_run(tmp_path / "run", place / "editor")
    config.rounds, config.final.tasks = 0, 0
    root = run(config)
    bench(config, root), shutil.move(place / "editor", place / "away")  # whoever asks nothing needs no editor
    with pytest.raises(ConfigError, match="there is no such directory"):
        run(config)
    weights = load_file(place / "model" / "model.safetensors")
    name = sorted(weights)[0]
    save_file(weights | {name: weights[name] + 1}, place / "model" / "model.safetensors", {"format": "pt"})
    assert untrained(place) == place / "editor"
    with pytest.raises(ArtifactError, match="other prompts; it differs in .*prompts: "):
        run(config)
    config.proposer.editor = "tiny_editor"
    with pytest.raises(ArtifactError, match=r"proposer\.editor: .* there, 'tiny_editor' here"):
        run(config)


def test_an_editor_is_asked_as_it_was_trained(toy, tmp_path):
    config = editing_run(tmp_path / "run", toy, temperature=0.5)
    editor, trained = assemble(config).proposer.editor, read_json(toy / "plan.json")
    assert editor.learner.conditions["prompt"] == trained["about"]["conditions"]["prompt"]
    assert (editor.limits.tokens, editor.limits.characters) == (900, 200)
    assert (editor.learner.engine.temperature, editor.learner.engine.max_new_tokens) == (0.5, 12)
    assert editor.drafter and assemble(editing_run(tmp_path / "b", toy, drafts=False)).proposer.editor.drafter is None


def test_what_is_no_trained_editor_is_one_clear_sentence(toy, tmp_path):
    def refused(words, path, **change):
        with pytest.raises(ConfigError, match=words) as caught:
            assemble(editing_run(tmp_path / "run", path, **change))
        assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()

    refused(r"proposer\.editor=gone: there is no such directory; give a run of intraskill editor train", "gone")
    refused("nobody knows what prompts its editor was trained on.*editor.steps=0", toy.parent / "model")
    copy = tmp_path / "copy"
    shutil.copytree(toy, copy)
    plan = read_json(copy / "plan.json")
    other = plan | {"about": plan["about"] | {"conditions": {"prompt": "0" * 16}}}
    write_json(copy / "plan.json", other)
    refused(r"trained on other prompts than this version writes \(0000000000000000 there", copy)
    write_json(copy / "plan.json", plan | {"about": {}})
    refused("lacks the hash of the prompts", copy)
    write_json(copy / "plan.json", plan | {"plan": plan["plan"] | {"policy.path": str(tmp_path / "gone")}})
    refused("the weights that it was trained from are gone; policy.path", copy)
    (copy / "editor" / "DONE").unlink()
    refused("holds no finished training of an editor", copy)


def test_a_draft_that_leaves_no_room_for_evidence_is_refused_at_the_start(toy, tmp_path):
    (tmp_path / "long.md").write_text("### Long\n\n" + "Read the label. " * 400)
    config = editing_run(tmp_path / "run", toy)
    config.coldstart.draft = str(tmp_path / "long.md")
    with pytest.raises(ConfigError, match=r"reads prompts of 900 tokens, and coldstart\.draft=.* takes \d+ of them"):
        assemble(config)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["proposer.name=skil_alpha"], "is not one of rules, openai, skill_alpha, none, did you mean 'skill_alpha'?"),
        (["proposer.name=skill_alpha"], "needs proposer.editor"),
        (["proposer.editor=tiny_editor"], "asked by proposer.name=skill_alpha only, and proposer.name=rules"),
        (["proposer.name=skill_alpha", "proposer.editr=tiny_editor"], "did you mean 'proposer.editor'?"),
    ],
)
def test_a_wrong_name_or_knob_is_one_clear_sentence(words, message, capsys):
    assert main(["train", "+exp=planted", *words, "--dry-run"]) == 2
    assert message in capsys.readouterr().err


def test_the_dry_run_and_the_doctor_know_the_editor(toy, capsys):
    words = ["+exp=planted", "proposer.name=skill_alpha"]
    assert main(["train", *words, "proposer.editor=tiny_editor", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "edit actions" in printed and "tiny_editor" in printed
    assert main(["train", *words, "proposer.editor=gone", "--dry-run"]) == 2
    assert "no such directory" in capsys.readouterr().err
    main(["doctor", *words, f"proposer.editor={toy}"])
    assert f"ok  trained editor {toy}" in capsys.readouterr().out


def test_an_editor_of_bare_weights_is_what_the_message_says(toy):
    assert trained_editor(str(toy)).checkpoint == toy / "editor" / "checkpoint"


def test_drafts_come_to_an_editor_of_the_bare_format_unless_told_otherwise(toy):
    terse = trained_editor(str(toy))
    assert terse.config.editor.terse and terse.takes_drafts and trained_editor("tiny_editor").takes_drafts
    instructed = replace(terse, config=replace(terse.config, editor=replace(terse.config.editor, terse=False)))
    assert not instructed.takes_drafts


@pytest.mark.slow
def test_the_shipped_editor_proposes_on_a_tiny_shop(tmp_path):
    words = [
        "+exp=tiny_kill",
        "proposer.name=skill_alpha",
        "proposer.editor=tiny_editor",
        f"run_dir={tmp_path / 'run'}",
    ]
    config = compose(words)
    root = run(config)
    counts = [read_json(root / f"round_00{number}" / "edits.json")["counts"] for number in (0, 1)]
    assert counts[0]["asked"] == 8 and counts[0]["noop"] + counts[0]["invalid"] <= 8
    assert (root / "final" / "DONE").exists()
