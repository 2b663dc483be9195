"""The bound pair on planted runs: what it binds, what an evaluation refuses, and the export that carries it."""

import json
import shutil
from dataclasses import replace

import pytest
from planted_runs import planted_config

from intraskill.cli import main
from intraskill.history.export import arm_summary, benchmark, export_skill
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.method.skill.skill import parse_skill
from intraskill.rounds.bound_pair import claim_of, pair_of, read_pair
from intraskill.rounds.loop import run
from intraskill.store.artifacts import PAIR
from intraskill.store.run_directory import file_hash

EPOCH = "1700000000"
CLOSE = 1e-6  # numbers of benchmark.json are rounded to six digits


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(planted_config(tmp_path_factory.mktemp("pair") / "run"))


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def said(capsys, *words):
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def verdict_of(root, mode):
    file = next((root / "evals").glob(f"{mode}-*/eval.json"))
    return json.loads(file.read_text())["pair"]


def test_a_run_ends_with_the_pair_that_its_last_gate_measured(finished):
    pair, last = read_pair(finished), finished / "round_002"
    row = json.loads((last / "round.json").read_text())
    assert (pair.checkpoint.hash, pair.skill.hash, pair.gate.round) == (row["checkpoint"], row["skill"], 2)
    assert pair.skill.sha256 == file_hash(last / "skill.md")
    assert pair.gate.contributions_sha256 == file_hash(last / "contributions.json") and pair.gate.pairs == 48
    assert pair.environment.family == "planted" and pair.gate.estimator == "paired_ols"
    earlier = pair_of(finished / "round_001")
    assert earlier.checkpoint != pair.checkpoint and earlier.config == pair.config


def test_a_run_without_a_closing_comparison_has_its_pair_too(tmp_path):
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks = 0, 0
    root = run(config)
    assert read_pair(root).gate.round == 0 and not (root / "final").exists()


def test_the_bound_pair_is_evaluated_and_the_result_says_so(capsys, copy):
    status, out, _ = said(capsys, "eval", "--pair", copy, "--mode", "skill-augmented")
    assert status == 0 and "This is the bound pair of" in out
    assert verdict_of(copy, "skill-augmented") == {"bound": True, "of": str(copy), "differs": []}


def test_another_checkpoint_is_refused_and_named(capsys, copy):
    status, _, err = said(capsys, "eval", "--pair", copy, "--ckpt", copy / "round_001" / "checkpoint")
    assert status == 2 and "UnboundPairError" in err and "the checkpoint is" in err
    assert not (copy / "evals").exists() or not list((copy / "evals").glob("*/eval.json"))


def test_another_skill_is_refused_with_pair_and_said_without(capsys, copy, tmp_path):
    other = tmp_path / "other.md"
    other.write_text("### Another\n\nDo something else.\n")
    words = ["eval", "--ckpt", copy, "--skill", other, "--mode", "skill-augmented"]
    status, _, err = said(capsys, *words, "--pair", copy)
    assert status == 2 and "the skill is" in err and "the checkpoint is" not in err
    status, out, _ = said(capsys, *words)
    assert status == 0 and "This is not the bound pair of" in out and "the skill is" in out
    assert verdict_of(copy, "skill-augmented")["bound"] is False


def test_another_world_is_refused_with_pair_and_said_without(capsys, copy):
    status, _, err = said(capsys, "eval", "--pair", copy, "env.options.baseline=0.4")
    assert status == 2 and "UnboundPairError" in err and "the environment is" in err
    free = claim_of(None, copy / "round_002" / "checkpoint", other_skill=False)
    verdict = free.judge({"checkpoint": free.pair.checkpoint.hash, "environment": "another"})
    assert not verdict["bound"] and verdict["differs"][0].startswith("the environment is another here")


def test_a_pair_beside_the_run_that_names_other_weights_is_refused(capsys, copy):
    pair = read_pair(copy)
    PAIR.write(copy, replace(pair, checkpoint=replace(pair.checkpoint, hash="0" * 16)))
    status, _, err = said(capsys, "eval", "--ckpt", copy)
    assert status == 2 and "0000000000000000 in the pair" in err


def test_an_earlier_round_is_the_pair_of_its_own_gate(capsys, copy):
    status, out, _ = said(capsys, "eval", "--ckpt", copy / "round_001")
    assert status == 0 and "This is the bound pair of" in out and "round_001" in out


def test_loose_weights_have_no_pair(capsys, copy, tmp_path):
    loose = shutil.copytree(copy / "round_002" / "checkpoint", tmp_path / "loose" / "weights" / "checkpoint")
    shutil.copy(copy / "plan.json", tmp_path / "loose")
    status, out, _ = said(capsys, "eval", "--ckpt", loose, "--out", tmp_path / "o")
    assert status == 0 and "No pair.json says" in out


def test_a_file_that_is_no_pair_is_refused(tmp_path):
    (tmp_path / "pair.json").write_text('{"format": "another"}')
    with pytest.raises(ArtifactError, match="no bound pair of format"):
        read_pair(tmp_path)


def test_eval_needs_a_checkpoint_or_a_pair(capsys, copy, tmp_path):
    assert "eval needs --ckpt" in said(capsys, "eval")[2]
    folder = export_skill(copy, tmp_path / "out").folder
    assert "add --ckpt" in said(capsys, "eval", "--pair", folder)[2]


def test_an_export_passes_the_reference_validator_and_comes_back_identical(capsys, finished, tmp_path):
    status, out, _ = said(capsys, "skill", "export", finished, "--out", tmp_path)
    folder = tmp_path / "planted-skill"
    assert status == 0 and str(folder) in out
    validate = pytest.importorskip("skills_ref.validator", reason="skills-ref is not installed").validate
    assert validate(folder) == []
    status, out, _ = said(capsys, "skill", "import", folder, "--out", tmp_path / "again.md", "--like", finished)
    assert status == 0 and "The text is the exported one" in out
    assert (tmp_path / "again.md").read_bytes() == (finished / "round_002" / "skill.md").read_bytes()
    assert read_pair(folder) == read_pair(finished)


def test_the_exported_pair_evaluates_with_its_run_and_refuses_an_edit(capsys, copy, tmp_path):
    folder = export_skill(copy, tmp_path / "out").folder
    words = ["eval", "--pair", folder, "--ckpt", copy, "--mode", "skill-augmented"]
    assert said(capsys, *words)[0] == 0
    text = (folder / "SKILL.md").read_text()
    (folder / "SKILL.md").write_text(text.replace("Procedure: ", "Procedure: quickly ", 1))
    status, _, err = said(capsys, *words)
    assert status == 2 and "the skill is" in err and "the checkpoint is" not in err
    out = said(capsys, "skill", "import", folder, "--out", tmp_path / "edited.md")[1]
    assert "edited since its export" in out and "1 new, 1 gone" in out


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_run_exports_the_same_bytes_but_for_the_time(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    one, two = (files_of(export_skill(finished, tmp_path / name).folder) for name in "ab")
    assert one == two and b'exported-at: "2023-11-14T22:13:20Z"' in one["SKILL.md"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(EPOCH) + 1))
    later = files_of(export_skill(finished, tmp_path / "a").folder)  # over the earlier export
    assert {name for name in one if one[name] != later[name]} == {"SKILL.md"}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH"):
        export_skill(finished, tmp_path / "c")


def test_the_side_file_says_what_the_gate_measured(finished, tmp_path):
    folder = export_skill(finished, tmp_path).folder
    side = json.loads((folder / "chunks.json").read_text())
    skill = parse_skill((finished / "round_002" / "skill.md").read_text())
    assert [row["id"] for row in side["chunks"]] == list(skill.ids) and side["skill"] == skill.hash
    measured = {row["id"]: row for row in json.loads((finished / "round_002" / "round.json").read_text())["chunks"]}
    for row in side["chunks"]:
        assert (row["beta"], row["se"]) == (measured[row["id"]]["beta"], measured[row["id"]]["se"])
        first = parse_skill((finished / f"round_{row['round_admitted']:03d}" / "skill.md").read_text())
        assert row["id"] in first.ids and row["support"]
        if row["round_admitted"]:
            before = finished / f"round_{row['round_admitted'] - 1:03d}" / "skill.md"
            assert row["id"] not in parse_skill(before.read_text()).ids


def test_an_export_never_overwrites_what_it_did_not_write(finished, tmp_path):
    (tmp_path / "planted-skill").mkdir()
    (tmp_path / "planted-skill" / "mine.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="is no export of intraskill"):
        export_skill(finished, tmp_path)
    for name in ("No Good", "a--b", "x" * 65):
        with pytest.raises(ConfigError, match="choose --name"):
            export_skill(finished, tmp_path, name)


def test_the_benchmark_is_the_closing_comparison(finished, tmp_path):
    found = json.loads((export_skill(finished, tmp_path).folder / "benchmark.json").read_text())
    final = json.loads((finished / "final" / "final.json").read_text())
    summary = found["run_summary"]
    for arm, name in (("with_skill", "final_pair"), ("without_skill", "final_free")):
        assert abs(summary[arm]["pass_rate"]["mean"] - final["success"][name]["mean"]) < CLOSE
        assert summary[arm]["time_seconds"]["mean"] > 0 and summary[arm]["time_seconds"]["stddev"] is None
    gained = final["comparisons"]["final_pair - final_free"]["success"]["mean"]
    assert abs(summary["delta"]["pass_rate"] - gained) < CLOSE
    assert abs(summary["delta"]["pass_rate"] - gained - 0.01) > CLOSE


def test_without_an_evaluation_there_is_no_benchmark_and_both_modes_make_one(capsys, tmp_path):
    config = planted_config(tmp_path / "run")
    config.final.tasks = 0
    root = run(config)
    status, out, _ = said(capsys, "skill", "export", root, "--out", tmp_path / "o")
    assert status == 0 and "without benchmark.json: no evaluation compares" in out
    assert not list((tmp_path / "o").rglob("benchmark.json"))
    out = said(capsys, "eval", "--ckpt", root, "--repeats", "2", "--mode", "skill-augmented")[1]
    assert "benchmark.json" not in out
    out = said(capsys, "eval", "--ckpt", root, "--repeats", "2")[1]
    assert "Both arms are there" in out
    assert not export_skill(root / "round_001", tmp_path / "earlier").benchmark
    found = export_skill(root, tmp_path / "o")
    assert found.benchmark
    content = json.loads((found.folder / "benchmark.json").read_text())
    assert content["metadata"]["tasks"] == 20 and content["metadata"]["repeats"] == 2


def row_of(reward, sampled):
    return {"reward": reward, "parts": {}, "sampled_tokens": sampled, "prompt_tokens": 10}


def test_a_benchmark_counts_tokens_and_time_and_invents_nothing():
    rows = [row_of(1.0, 4), row_of(0.0, 8), row_of(None, 0)]
    timed = arm_summary(rows, {"eval/tokens_per_s": 2.0})
    assert timed["pass_rate"]["mean"] == 0.5 and timed["tokens"]["mean"] == 16.0
    assert timed["time_seconds"] == {"mean": 2.0, "stddev": None}  # 12 tokens at 2 a second, three rollouts
    untimed = arm_summary(rows, None)
    assert untimed["time_seconds"]["mean"] is None
    assert benchmark(timed, untimed, {})["run_summary"]["delta"] == {
        "pass_rate": 0.0,
        "time_seconds": None,
        "tokens": 0.0,
    }


def test_an_unfinished_run_and_an_empty_skill_are_not_exported(finished, tmp_path):
    with pytest.raises(ArtifactError, match="neither a run"):
        export_skill(tmp_path, tmp_path / "o")
    config = planted_config(tmp_path / "bare")
    config.rounds, config.final.tasks, config.proposer.name = 0, 0, "none"
    with pytest.raises(ConfigError, match="no chunks"):
        export_skill(run(config), tmp_path / "o")


def test_import_takes_the_secrets_of_a_world_and_refuses_other_overrides(capsys, finished, tmp_path):
    bank = tmp_path / "bank.json"
    bank.write_text(json.dumps([{"title": "Wait", "content": "Wait for the page."}]))
    words = ["skill", "import", bank, "--out"]
    assert said(capsys, *words, tmp_path / "a.md", "env.name=planted")[0] == 0
    assert "is there already" in said(capsys, *words, tmp_path / "a.md")[2]
    assert "overrides of env.… only" in said(capsys, *words, tmp_path / "b.md", "seed=3")[2]
    report = tmp_path / "report.json"
    assert said(capsys, *words, tmp_path / "c.md", "--like", finished, "--report", report)[0] == 0
    assert json.loads(report.read_text())["chunks"][0]["title"] == "Wait"
    bank.write_text("[]")
    status, out, _ = said(capsys, *words, tmp_path / "d.md")
    assert status == 1 and "Nothing passed" in out and not (tmp_path / "d.md").exists()
