"""The gate alone: its files, its refusals, reuse of a bare run, refit, ranking, and the same bytes after any kill."""

import csv
import json
import multiprocessing
import shutil
import signal
from dataclasses import replace
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from dying import dies_at
from planted_runs import TASKS, planted_config

from intraskill.cli import main
from intraskill.environments.planted import PlantedWorld
from intraskill.method.errors import (
    ArtifactError,
    ConfigError,
    PairingError,
    RankDeficientError,
    SplitError,
    UnderpoweredError,
)
from intraskill.method.gate.estimators import fit
from intraskill.method.skill.skill import Skill, parse_skill
from intraskill.report.forest import draw, write_forest
from intraskill.report.gate import paragraphs, print_gate
from intraskill.rounds.earlier_rounds import last_noise, read_noise
from intraskill.rounds.evaluate import Source, find_source, skill_of
from intraskill.rounds.gate.findings import chunk_table, find
from intraskill.rounds.gate.pairs_file import read_pairs
from intraskill.rounds.gate.plan import gate_facts
from intraskill.rounds.gate.ranking import validate_ranking
from intraskill.rounds.gate.standalone import refit, validate
from intraskill.rounds.loop import run
from intraskill.rounds.setup import bench
from intraskill.store.run_directory import read_json, read_jsonl, write_json, write_jsonl

EXACT = 1e-12
STANDARD_ERRORS = 3.5
FILES = {"masks.json", "context.json", "bare.jsonl", "masked.jsonl", "full.jsonl", "contributions.json", "gate.json"}
FILES |= {"contributions.csv", "decision.json", "skill.md", "pairs.parquet", "metrics.jsonl"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(planted_config(tmp_path_factory.mktemp("validate") / "run"))


def alone(root, out, *, skill=None, bare=None, ckpt=None, **gate):
    """Run the gate alone at the last round of a run (or at ``ckpt``), files under ``out``."""
    config = planted_config(root)
    for name, value in gate.items():
        setattr(config.gate, name, value)
    source = find_source(ckpt or root)
    out.mkdir(parents=True, exist_ok=True)
    return validate(bench(config, out), source, skill or skill_of(source, None), bare=bare)


def loose(tmp_path, world, skill=None, **gate):
    """Run the gate alone at the start weights of a planted world that no run is from."""
    config = planted_config(tmp_path / "run")
    config.env.options = world
    for name, value in gate.items():
        setattr(config.gate, name, value)
    tmp_path.mkdir(parents=True, exist_ok=True)
    setup = bench(config, tmp_path)
    (tmp_path / "weights").mkdir(exist_ok=True)
    setup.learner.save(tmp_path / "weights")
    source = Source(tmp_path / "weights", None, None)
    return setup, source, validate(setup, source, skill or setup.environment.draft)


@pytest.fixture(scope="module")
def measured(finished, tmp_path_factory):
    """A gate over the first draft, five chunks and two placebos."""
    skill = parse_skill((finished / "round_000" / "draft.md").read_text())
    return alone(finished, tmp_path_factory.mktemp("measured"), skill=skill, ckpt=finished / "round_001", placebos=2)


def content(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and path.name != "metrics.jsonl"
    }


# --- what it writes


def test_every_output_exists_and_parses(measured):
    directory, ids = measured.directory, measured.validation.facts.columns.ids
    assert {path.name for path in directory.iterdir() if not path.name.startswith(".")} == FILES
    rows = list(csv.DictReader((directory / "contributions.csv").open()))
    data = read_json(directory / "contributions.json")
    assert [row["id"] for row in rows] == list(ids) == [row["id"] for row in data["chunks"]]
    assert [float(row["beta"]) for row in rows[:5]] == data["beta_J"]
    for row in data["chunks"][:5]:
        assert {"visible", "se", "low", "high", "shrunk", "shrunk_sd", "verdict", "reason", "ancova_beta"} <= set(row)
        assert row["low"] < row["beta"] < row["high"] and 0.0 <= row["probability"] <= 1.0
    assert [row["kind"] for row in data["chunks"]] == ["chunk"] * 5 + ["placebo"] * 2
    frame = pd.read_parquet(directory / "pairs.parquet")
    assert len(frame) == 48 and set(frame["split"]) == {"skill_validation"}
    assert {f"visible.{chunk_id}" for chunk_id in ids} < set(frame.columns) and {"B.r_half", "R.r_half"} < set(frame)
    assert frame["R"].sub(frame["B"]).mean() == pytest.approx(measured.validation.pairs.delta_N.mean(), abs=EXACT)
    gate = read_json(directory / "gate.json")
    assert gate["additivity"]["chunks"] == 5 and gate["placebos"]["count"] == 2 and gate["smallest_effect"] > 0.0


def test_the_plan_is_written_first_and_says_how_it_will_be_read(measured):
    masks = read_json(measured.directory / "masks.json")
    assert masks["estimator"] == "paired_ols" and masks["policy"] == {"top_k": 10, "name": "positive_topk"}
    assert masks["design"]["kind"] == "bernoulli" and len(masks["placebos"]) == 2
    assert set(masks["placebos"]) < set(masks["chunks"]) and set(masks["conditions"]) >= {"prompt", "environment"}
    ages = {path.name: path.stat().st_mtime_ns for path in measured.directory.iterdir()}
    assert ages["masks.json"] <= min(ages[name] for name in FILES - {"masks.json"})


def test_a_placebo_is_shown_and_measured_but_never_kept(measured):
    placebos = measured.validation.facts.placebo_ids
    shown = {chunk_id for row in read_jsonl(measured.directory / "masked.jsonl") for chunk_id in row["visible"]}
    assert placebos < shown and not placebos & set(measured.validation.decision.kept)
    assert not placebos & set(measured.validation.contributions.chunk_ids)
    assert measured.validation.assessment.placebos.chunk_ids == tuple(c.id for c in measured.validation.facts.placebos)


def test_it_finds_the_planted_contributions(tmp_path):
    world = {"tasks_per_split": TASKS | {"skill_validation": 900}, "baseline": 0.4, "spread": 0.05}
    setup, _, found = loose(tmp_path, world, design="balanced", estimator="ancova", full_arm=False)
    true = setup.environment.true_contributions(
        found.validation.contributions.chunk_ids, setup.environment.tasks("skill_validation"), {}
    )
    distance = np.abs(found.validation.contributions.beta_J - true) / found.validation.contributions.se_J
    assert distance.max() < STANDARD_ERRORS
    assert np.abs(found.validation.contributions.beta_J).max() / found.validation.contributions.se_J.max() > 3.0


def test_the_words_say_what_can_be_seen_what_helps_and_whether_it_adds_up(measured):
    text = dict(paragraphs(measured.validation, measured.findings))
    assert "48 tasks were played" in text["What was measured"] and "relative to no skill" in text["What was measured"]
    seen = text["What can be seen"]
    assert seen.startswith("With 48 tasks, 7 chunks and σ = ")
    assert "a useless chunk of the skill stays with probability 50 %" in seen and "candidate" not in seen
    assert "192 tasks would see" in seen and "corr(R, B) =" in text["Could it have been cheaper"]
    assert "2 placebo chunks" in text["Noise check"] and "gap" in text["Do the contributions add up"]
    titles = {chunk.title for chunk in measured.validation.facts.skill.chunks}
    assert all(title in text["Which chunks help"] for title in titles)


def test_an_empty_skill_and_a_skill_of_one_chunk_are_legal(tmp_path):
    world = {"tasks_per_split": TASKS}
    _, _, nothing = loose(tmp_path / "none", world, Skill("Nothing."))
    assert (
        nothing.findings.power is None and list(csv.DictReader((nothing.directory / "contributions.csv").open())) == []
    )
    assert dict(paragraphs(nothing.validation, nothing.findings))["What was measured"].endswith("no chunk to measure.")
    assert read_pairs(nothing.directory / "pairs.parquet").contributions.chunk_ids == ()
    one = PlantedWorld().draft.chunks[:1]
    _, _, single = loose(tmp_path / "one", world, Skill("One.", one))
    assert single.validation.contributions.rank == 1 and len(chunk_table(single.validation)) == 1


# --- where it writes


def test_whatever_fixes_a_gate_names_its_directory_and_the_same_gate_is_never_run_twice(finished, tmp_path):
    first = alone(finished, tmp_path, tasks=40)
    before = content(first.directory)
    assert alone(finished, tmp_path, tasks=40).directory == first.directory and content(first.directory) == before
    others = [{"tasks": 30}, {"design": "balanced"}, {"placebos": 1}, {"estimator": "ancova"}, {"replicates": 2}]
    directories = {alone(finished, tmp_path, **{"tasks": 40} | other).directory for other in others}
    assert len(directories) == len(others) and first.directory not in directories


def test_a_changed_plan_in_an_old_directory_is_refused(finished, tmp_path):
    directory = alone(finished, tmp_path).directory
    write_json(directory / "masks.json", read_json(directory / "masks.json") | {"estimator": "ancova"})
    with pytest.raises(ArtifactError, match="estimator differ; a changed plan cannot resume a gate"):
        alone(finished, tmp_path)


@pytest.mark.parametrize("options", [{}, {"replicates": 2, "bare_replicates": 2, "placebos": 1}, {"sequential": 10}])
def test_a_gate_killed_after_any_artifact_ends_in_the_same_bytes(finished, tmp_path, options):
    whole = alone(finished, tmp_path / "whole", **options).directory
    expected = content(whole)
    order = sorted((path for path in whole.iterdir() if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
    for number in range(len(order)):
        killed = tmp_path / f"killed-{number}" / whole.name
        killed.mkdir(parents=True)
        for path in order[:number]:
            shutil.copy2(path, killed)
        (killed / ".contributions.json.tmp").write_text("half")
        assert alone(finished, killed.parent, **options).directory == killed
        assert content(killed) == expected, order[number].name


def _command_until(words, syncs, counted):
    """Run the command in a child that dies at its n-th fsync (0 = never) and leaves the number of all."""
    count = dies_at(syncs)
    main(words)
    counted.write_text(str(count()))


def command_until(words, syncs, counted):
    child = multiprocessing.get_context("fork").Process(target=_command_until, args=(words, syncs, counted))
    child.start()
    child.join()
    return child.exitcode


def test_the_command_killed_at_any_moment_ends_in_the_same_bytes(finished, tmp_path):
    def words(name):
        return ["validate", "--ckpt", str(finished), "--out", str(tmp_path / name), "gate.placebos=1", "seed=3"]

    assert command_until(words("whole"), 0, tmp_path / "syncs") == 0
    syncs = int((tmp_path / "syncs").read_text())
    whole = next((tmp_path / "whole").iterdir())
    for number, share in enumerate((0.2, 0.6, 0.95)):
        moment = max(1, round(share * syncs))
        assert command_until(words(f"killed-{number}"), moment, tmp_path / "syncs") == -signal.SIGKILL
        assert command_until(words(f"killed-{number}"), 0, tmp_path / "syncs") == 0
        assert content(next((tmp_path / f"killed-{number}").iterdir())) == content(whole)


# --- reuse of a bare run


def test_a_matching_bare_run_is_reused_and_reuse_changes_no_number(finished, tmp_path):
    reused = alone(finished, tmp_path / "reused")
    assert reused.bare.source == str(finished / "round_002" / "bare.jsonl") and "those of" in reused.bare.words()
    bare = tmp_path / "run"
    shutil.copytree(finished, bare, ignore=lambda path, names: ["bare.jsonl", "DONE"] if "round_" in path else [])
    source = Source(bare / "round_002" / "checkpoint", bare / "round_002" / "skill.md", bare)
    anew = validate(bench(planted_config(bare), tmp_path), source, skill_of(source, None))
    assert anew.bare.source is None and "run anew" in anew.bare.words()
    assert (anew.directory / "bare.jsonl").read_bytes() == (reused.directory / "bare.jsonl").read_bytes()
    assert (anew.directory / "masked.jsonl").read_bytes() == (reused.directory / "masked.jsonl").read_bytes()


def test_a_gate_alone_draws_masks_that_no_round_has_drawn(finished, tmp_path):
    skill = parse_skill((finished / "round_000" / "draft.md").read_text())
    found = alone(finished, tmp_path, skill=skill, ckpt=finished / "round_000")
    there, here = (read_json(path / "masks.json") for path in (finished / "round_000", found.directory))
    assert there["chunks"] == here["chunks"] and there["visible"].keys() == here["visible"].keys()
    assert there["visible"] != here["visible"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda plan, rows: plan.update(checkpoint="0000"), "another checkpoint"),
        (lambda plan, rows: plan["conditions"].update(environment="world-2"), "another environment"),
        (lambda plan, rows: plan["conditions"].update(sampling="greedy"), "another sampling"),
        (lambda plan, rows: plan["conditions"].update(prompt="other"), "another prompt"),
        (lambda plan, rows: plan.update(seeds={"masks": 0, "bare": 9}), "another seed"),
        (lambda plan, rows: plan.update(round=1), "another round"),
        (lambda plan, rows: rows.pop(), "lacks rollouts, 1: planted-skill_validation-0047#0"),
        (lambda plan, rows: rows[3].update(checkpoint="0000"), "rollouts of another checkpoint, 1: "),
        (lambda plan, rows: rows[3].update(visible=["a-1"]), "rollouts that saw a chunk, 1: "),
        (lambda plan, rows: rows[3].update(fault="gone", reward=None), "rollouts that ended in a fault, 1: "),
    ],
)
def test_a_bare_run_that_is_no_pair_is_refused_by_name(finished, tmp_path, spoil, message):
    gate = tmp_path / "gate"
    gate.mkdir()
    plan, rows = read_json(finished / "round_002" / "masks.json"), read_jsonl(finished / "round_002" / "bare.jsonl")
    spoil(plan, rows)
    write_json(gate / "masks.json", plan)
    write_jsonl(gate / "bare.jsonl", rows)
    with pytest.raises(PairingError, match=f"not reused: .*{message}"):
        alone(finished, tmp_path / "out", bare=gate)


def test_an_unspoilt_bare_run_may_be_named(finished, tmp_path):
    found = alone(finished, tmp_path, bare=finished / "round_002")
    assert found.bare.source == str(finished / "round_002" / "bare.jsonl")
    with pytest.raises(PairingError, match="holds no masks.json and bare.jsonl"):
        alone(finished, tmp_path / "other", bare=tmp_path)


def test_bare_traces_of_another_checkpoint_in_its_own_directory_are_refused(finished, tmp_path):
    directory = alone(finished, tmp_path).directory
    rows = read_jsonl(directory / "bare.jsonl")
    write_jsonl(
        directory / "bare.jsonl", [row | {"checkpoint": "0000"} if i < 3 else row for i, row in enumerate(rows)]
    )
    with pytest.raises(PairingError, match="rollouts ran under another checkpoint .*, 3: "):
        alone(finished, tmp_path)


# --- refit


def test_a_refit_gives_the_same_bytes(measured, tmp_path):
    found, findings, directory = refit(measured.directory / "pairs.parquet", {}, tmp_path / "refit")
    for name in ("contributions.csv", "contributions.json", "decision.json", "skill.md"):
        assert (directory / name).read_bytes() == (measured.directory / name).read_bytes(), name
    same = ("r_free", "r_pair", "gap", "additivity", "placebos", "smallest_effect", "sigma")
    once, again = (read_json(path / "gate.json") for path in (measured.directory, directory))
    assert {name: once[name] for name in same} == {name: again[name] for name in same}
    assert paragraphs(found, findings) == paragraphs(measured.validation, measured.findings)


def test_an_edited_reward_is_noticed(measured, tmp_path):
    def one_flipped(frame):
        frame.loc[3, "R"] = 1.0 - frame.loc[3, "R"]
        return frame

    path = spoilt(measured.directory / "pairs.parquet", one_flipped, tmp_path)
    with pytest.raises(ArtifactError, match="was changed since its gate wrote it"):
        read_pairs(path)
    reordered = spoilt(measured.directory / "pairs.parquet", lambda frame: frame[::-1], tmp_path)
    assert read_pairs(reordered).pairs.task_ids == measured.validation.pairs.task_ids


def test_a_refit_replaces_no_other_gate(measured, tmp_path):
    rows = measured.directory / "pairs.parquet"
    with pytest.raises(ArtifactError, match="holds the results of another gate"):
        refit(rows, {}, measured.directory)
    refit(rows, {}, tmp_path / "refit")
    refit(rows, {"policy": "fdr"}, tmp_path / "refit")
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(rows.read_bytes())
    with pytest.raises(ArtifactError, match="holds the results of another gate"):
        refit(copy, {}, tmp_path / "refit")


def test_a_refit_may_ask_another_estimator_and_policy_of_the_same_rows(measured, tmp_path):
    changes = {"estimator": "ancova", "policy": "probability", "admit": 0.9, "retire": 0.1}
    found, _, directory = refit(measured.directory / "pairs.parquet", changes, tmp_path / "refit")
    expected = fit(measured.validation.pairs, "ancova").without(measured.validation.facts.placebo_ids)
    assert np.array_equal(found.contributions.beta_J, expected.beta_J)
    assert not np.array_equal(found.contributions.beta_J, measured.validation.contributions.beta_J)
    assert np.array_equal(found.assessment.beside["paired_ols"].beta_J, measured.validation.contributions.beta_J)
    assert found.facts.rule.admit == 0.9 and "P(> 0)" in next(iter(found.decision.reasons.values()))
    assert read_json(directory / "gate.json")["policy"] == "probability"


def test_replicates_survive_the_file(finished, tmp_path):
    found = alone(finished, tmp_path, replicates=2, bare_replicates=3)
    again = read_pairs(found.directory / "pairs.parquet")
    assert len(again.pairs.task_ids) == 96 and again.contributions.covariance == "CR3"
    assert np.array_equal(again.contributions.se_J, found.validation.contributions.se_J)
    assert (again.pairs.num_bare, again.pairs.num_masked) == (144, 96)


def spoilt(path, change, tmp_path):
    table = pq.read_table(path)
    frame = change(table.to_pandas())
    spoilt_table = type(table).from_pandas(frame, preserve_index=False)
    target = tmp_path / "pairs.parquet"
    pq.write_table(spoilt_table.replace_schema_metadata(table.schema.metadata), target)
    return target


def with_value(column, row, value):
    def change(frame):
        frame.loc[row, column] = value
        return frame

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (with_value("R", 2, np.nan), PairingError, r"NaN in 1: R, in pairs 1: planted-skill_validation-0002#0"),
        (with_value("B.r_half", 1, np.nan), PairingError, r"NaN in 1: B\.r_half"),
        (with_value("R", 2, np.inf), PairingError, r"not finite in 1: R"),
        (lambda frame: pd.concat([frame, frame.iloc[[4]]]), PairingError, r"pairs more than once, 1: .*0004#0"),
        (lambda frame: frame.drop(index=[7]), PairingError, r"lacks pairs of its gate, 1: .*0007#0"),
        (with_value("task_id", 7, "stranger"), PairingError, r"lacks pairs of its gate, 1: .*0007#0"),
        (with_value("split", 5, "test"), SplitError, r"another split than skill_validation, 1: .*0005 \(test\)"),
        (lambda frame: frame.drop(columns=["B"]), ArtifactError, r"lacks columns, 1: B"),
        (lambda frame: frame.drop(columns=["R.r_half"]), ArtifactError, r"lacks columns, 1: R\.r_half"),
        (lambda frame: frame.iloc[:, :5].join(frame[["B", "R", "B.r_half", "R.r_half"]]), ArtifactError, "visible"),
    ],
)
def test_a_refit_refuses_rows_that_are_not_the_pairs_of_one_gate(measured, tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        refit(spoilt(measured.directory / "pairs.parquet", change, tmp_path), {}, tmp_path / "refit")


def test_an_unspoilt_copy_is_read(measured, tmp_path):
    path = spoilt(measured.directory / "pairs.parquet", lambda frame: frame, tmp_path)
    assert np.array_equal(read_pairs(path).contributions.beta_J, measured.validation.contributions.beta_J)


def test_two_bare_rewards_of_one_task_are_refused(finished, tmp_path):
    found = alone(finished, tmp_path, replicates=2)
    path = spoilt(found.directory / "pairs.parquet", with_value("B", 0, 0.25), tmp_path)
    with pytest.raises(PairingError, match="several bare rewards for one task, 1: planted-skill_validation-0000"):
        read_pairs(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"design": "balanced"}, "cannot change what its rows have fixed, 1: gate.design"),
        ({"admit": 0.4}, r"gate\.admit=0\.4 is outside"),
        ({"estimator": "magic"}, "is not one of paired_ols"),
    ],
)
def test_a_refit_changes_only_what_rows_leave_open(measured, tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        refit(measured.directory / "pairs.parquet", changes, tmp_path / "refit")
    assert not (tmp_path / "refit").exists()


def test_a_file_that_is_no_gates_is_refused(measured, tmp_path):
    with pytest.raises(ArtifactError, match="cannot be read as parquet"):
        read_pairs(measured.directory / "masks.json")
    with pytest.raises(ArtifactError, match="there is no file"):
        read_pairs(tmp_path / "absent.parquet")
    pd.DataFrame({"B": [1.0]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ArtifactError, match="does not say which gate its rows are from"):
        read_pairs(tmp_path / "other.parquet")


# --- gates that cannot be


def test_a_gate_that_cannot_see_the_effect_is_refused_or_warned_about(finished, tmp_path):
    with pytest.raises(
        UnderpoweredError, match=r"with 48 tasks, 1 chunk .* it was asked for 0\.050\. Use [\d,]+ tasks"
    ):
        alone(finished, tmp_path, effect=0.05, require_power=True)
    assert list(tmp_path.iterdir()) == []
    said = []
    config = planted_config(finished)
    config.gate.effect = 0.05
    setup = bench(config, tmp_path)
    setup.monitor.say = said.append
    source = find_source(finished)
    validate(setup, source, skill_of(source, None))
    assert said[0].startswith("warning: with 48 tasks") and "would need" in said[0]
    alone(finished, tmp_path, effect=0.9, require_power=True)


@pytest.mark.parametrize("estimator", ["paired_ols", "ancova", "masked_ols", "covariate"])
def test_a_gate_whose_rewards_are_all_equal_ends_with_no_information_and_so_does_its_refit(tmp_path, estimator, capsys):
    world = {"tasks_per_split": TASKS, "broken": 1.0}
    report = loose(tmp_path, world, estimator=estimator, placebos=1)[2]
    draft = PlantedWorld(**world).draft
    print_gate(report.validation, report.findings, report.directory, report.remarks)
    said = capsys.readouterr().out
    assert "No information: all 48" in said and "nan" not in said
    assert "No information: all 48" in (report.directory / "summary.md").read_text()
    assert not (report.directory / "forest.svg").exists()
    gate, measured = (read_json(report.directory / name) for name in ("gate.json", "contributions.json"))
    assert gate["no_information"] == measured["no_information"] and measured["beta_J"] == []
    assert gate["kept"] == list(draft.ids) and gate["r_free"]["mean"] == 0.0
    rows = list(csv.DictReader((report.directory / "contributions.csv").open()))
    assert [row["id"] for row in rows] == list(draft.ids) and "beta" not in rows[0]
    assert {row["verdict"] for row in rows} == {"no_information"}
    again, findings, directory = refit(report.directory / "pairs.parquet", {"estimator": "paired_ols_intercept"})
    print_gate(again, findings, directory, ())
    assert "No information: all 48 outcomes equal 0" in capsys.readouterr().out
    assert again.assessment.no_information and again.decision.skill == draft


def test_a_gate_of_fewer_pairs_than_chunks_is_refused(tmp_path):
    with pytest.raises(RankDeficientError, match="4 .*5"):
        loose(tmp_path, {"tasks_per_split": TASKS}, tasks=4)


# --- the forest plot


@pytest.mark.parametrize(("number", "placebos"), [(1, 0), (5, 2), (30, 0)])
def test_the_forest_plot_names_each_chunk_once_and_no_text_overlaps(tmp_path, number, placebos):
    chunks = [{"title": f"Chunk number {j} of the pool", "effect": 0.01 * (j % 3 - 1)} for j in range(number)]
    world = {"tasks_per_split": TASKS | {"skill_validation": 200}, "chunks": chunks}
    _, _, found = loose(tmp_path, world, placebos=placebos, full_arm=False)
    svg = write_forest(tmp_path, found.validation, found.findings)[1].read_text()
    for chunk in found.validation.facts.columns.chunks:
        assert svg.count(f">{chunk.title}<") + svg.count(f">{chunk.title} (placebo)<") == 1
    if number < 30:  # drawing takes its time
        assert write_forest(tmp_path, found.validation, found.findings)[1].read_text() == svg
    assert (tmp_path / "forest.png").read_bytes().startswith(b"\x89PNG")
    figure = draw(found.validation, found.findings)
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    plot = figure.axes[0]
    texts = [text for text in [*figure.texts, plot.xaxis.label, *plot.get_xticklabels()] if text.get_text()]
    boxes = [text.get_window_extent(renderer) for text in texts]
    overlapping = [
        (a.get_text(), b.get_text())
        for i, (a, one) in enumerate(zip(texts, boxes, strict=True))
        for b, other in list(zip(texts, boxes, strict=True))[i + 1 :]
        if one.overlaps(other)
    ]
    assert overlapping == []
    width, height = figure.canvas.get_width_height()
    assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for box in boxes)


def test_any_title_is_drawn_as_it_is(tmp_path):
    titles = ["先读完整的请求", "Costs $5 and $x_1$", 'Compare <a> & "b"']
    chunks = [{"title": title, "effect": 0.1} for title in titles]
    _, _, found = loose(tmp_path, {"tasks_per_split": TASKS, "chunks": chunks}, full_arm=False)
    svg = write_forest(tmp_path, found.validation, found.findings)[1].read_text()
    assert all(f">{escape(title)}<" in svg for title in titles)


# --- sigma


@pytest.mark.parametrize("gate", [{}, {"bare_replicates": 3, "estimator": "masked_ols", "replicates": 2}])
def test_every_sigma_of_a_gate_is_the_same_number(capsys, finished, tmp_path, gate):
    skill = parse_skill((finished / "round_000" / "draft.md").read_text())
    found = alone(finished, tmp_path, skill=skill, ckpt=finished / "round_001", **gate)
    pairs, data = found.validation.pairs, read_json(found.directory / "contributions.json")
    paired = data if data["estimator"] == "paired_ols" else data["beside"]["paired_ols"]
    beta_J, *_ = np.linalg.lstsq(pairs.design_NJ, pairs.delta_N, rcond=None)
    residual_N = pairs.delta_N - pairs.design_NJ @ beta_J
    row = residual_N @ residual_N / (len(residual_N) - len(beta_J))
    sigma = found.findings.sigma
    assert sigma == pytest.approx((row / ((1 + 1 / gate.get("bare_replicates", 1)) / 2)) ** 0.5, rel=EXACT)
    assert (sigma == paired["residual_sd"]) == (gate == {})
    assert sigma == read_json(found.directory / "gate.json")["sigma"] == read_noise(found.directory).sigma
    assert sigma == read_pairs_sigma(found.directory) == found.findings.power.design.sigma
    assert f"σ = {sigma:.2f} " in dict(paragraphs(found.validation, found.findings))["What can be seen"]
    assert main(["gate", "plan", "--from", str(found.directory), "--json"]) == 0
    assert {plan["sigma"] for plan in json.loads(capsys.readouterr().out)} == {sigma}


def read_pairs_sigma(directory):
    return find(read_pairs(directory / "pairs.parquet")).sigma


def test_a_run_is_planned_with_the_sigma_of_its_newest_gate_wherever_it_is_asked(finished):
    first, *_, last = sorted(finished.glob("round_*"))
    newest = read_noise(last)
    assert read_noise(finished) == last_noise(finished) == newest != read_noise(first)
    config = planted_config(finished).gate
    config.effect = 0.1
    facts = gate_facts(config, Skill(""), (), round_index=len(list(finished.glob("round_*"))), seed=0, root=finished)
    assert (facts.sigma, facts.correlation) == (newest.sigma, newest.correlation)


# --- slices


class WorldWithColours(PlantedWorld):
    """Gives every task a public colour."""

    def tasks(self, split):
        return tuple(
            replace(task, features={"colour": "red" if number % 3 else "blue", "size": "L" if number < 9 else "S"})
            for number, task in enumerate(super().tasks(split))
        )


def test_slices_are_registered_before_any_reward_and_survive_a_refit(tmp_path):
    config = planted_config(tmp_path / "run")
    config.gate.slices, config.gate.placebos = ["colour", "size"], 1
    world = WorldWithColours(tasks_per_split=TASKS | {"skill_validation": 240})
    setup = bench(config, tmp_path, environment=world)
    (tmp_path / "weights").mkdir()
    setup.learner.save(tmp_path / "weights")
    found = validate(setup, Source(tmp_path / "weights", None, None), world.draft)
    assert read_json(found.directory / "masks.json")["slices"] == found.validation.facts.slices.hash
    rows = list(csv.DictReader((found.directory / "slices.csv").open()))
    assert {(row["feature"], row["value"], row["tasks"]) for row in rows if not row["refused"]} == {
        ("colour", "blue", "80"),
        ("colour", "red", "160"),
        ("size", "S", "231"),
    }
    assert [row["refused"] for row in rows if row["value"] == "L"] == ["9 paired tasks, 30 needed for 6 chunks"]
    text = dict(paragraphs(found.validation, found.findings))["On slices of the tasks"]
    assert "18 intervals of 95 %: about 0.9 miss by chance" in text and "size=L" in text
    assert set(pd.read_parquet(found.directory / "pairs.parquet")["feature.colour"]) == {"red", "blue"}
    _, _, again = refit(found.directory / "pairs.parquet", {}, tmp_path / "refit")
    assert (again / "slices.csv").read_bytes() == (found.directory / "slices.csv").read_bytes()
    config.gate.slices = ["flavour"]
    with pytest.raises(ConfigError, match="no task has these features, 1: flavour; choose of colour, size"):
        validate(setup, Source(tmp_path / "weights", None, None), world.draft)


def test_a_gate_larger_than_its_split_is_refused(finished, tmp_path):
    with pytest.raises(ConfigError, match="gate.tasks=49, but the environment has 48 skill-validation tasks"):
        alone(finished, tmp_path, tasks=49)


# --- ranking


def test_a_ranking_of_strong_effects_holds_on_the_audit_split(tmp_path):
    effects = (0.3, 0.25, -0.2, -0.25)
    chunks = [{"title": f"Chunk {j}", "effect": effect} for j, effect in enumerate(effects)]
    sizes = TASKS | {"skill_validation": 400, "audit": 150}
    world = {"tasks_per_split": sizes, "chunks": chunks, "baseline": 0.45, "spread": 0.0}
    setup, source, found = loose(tmp_path, world, full_arm=False)
    ranking, directory = validate_ranking(setup, source, found.validation)
    assert ranking.size == 2 and ranking.num_tasks == 150 and len(ranking.order) == 4
    assert ranking.differences["top − bottom"].low > 0.0 and "The ranking holds: on 150 audit tasks" in ranking.words()
    data = read_json(directory / "ranking.json")
    assert data["verdict"] == "holds" and len([arm for arm in data["arms"] if arm.startswith("random_")]) == 3
    rows = list(csv.DictReader((directory / "ranking.csv").open()))
    assert {"empty", "full", "top", "bottom", "random_0", "top − bottom"} <= {row["arm_or_difference"] for row in rows}
    for path in directory.glob("*.jsonl"):
        if path.name != "metrics.jsonl":
            assert all(row["task_id"].startswith("planted-audit") for row in read_jsonl(path)), path
    before = content(directory)
    (directory / "top.jsonl").unlink()
    (directory / "ranking.json").unlink()
    assert validate_ranking(setup, source, found.validation)[1] == directory and content(directory) == before


def test_a_ranking_of_useless_chunks_cannot_be_told_from_chance(tmp_path):
    chunks = [{"title": f"Chunk {j}", "effect": 0.0} for j in range(4)]
    setup, source, found = loose(tmp_path, {"tasks_per_split": TASKS | {"audit": 100}, "chunks": chunks})
    ranking, _ = validate_ranking(setup, source, found.validation, size=1)
    assert ranking.verdict == "cannot be told apart from chance"


def test_a_ranking_that_makes_no_sense_is_refused(finished, measured, tmp_path):
    setup, source, single = loose(tmp_path, {"tasks_per_split": TASKS}, Skill("", PlantedWorld().draft.chunks[:1]))
    with pytest.raises(ConfigError, match="needs two chunks or more, and this skill has 1"):
        validate_ranking(setup, source, single.validation)
    with pytest.raises(ConfigError, match="needs 1 ≤ K < 5"):
        validate_ranking(setup, source, measured.validation, size=5)


def test_audit_tasks_that_a_decision_has_read_can_audit_nothing(finished, tmp_path):
    root = tmp_path / "run"
    shutil.copytree(finished, root)
    found = alone(root, root / "validations", ckpt=root / "round_001")
    plan = read_json(found.directory / "masks.json")
    write_json(found.directory / "masks.json", plan | {"visible": {"planted-audit-0000": []}})
    with pytest.raises(SplitError, match="online decisions have read audit tasks, 1: planted-audit-0000"):
        validate_ranking(bench(planted_config(root), tmp_path), find_source(root), found.validation)


# --- the command


def test_the_command_runs_refits_and_ranks(capsys, finished, tmp_path):
    words = ["--ckpt", str(finished / "round_001"), "--out", str(tmp_path), "gate.placebos=1"]
    assert main(["validate", *words, "--ranking", "--policy", "fdr"]) == 0
    out = capsys.readouterr().out
    assert (
        "β ± SE" in out and "The ranking" in out and "bare rollouts are those of" in out and "Validation split:" in out
    )
    directory = next(path for path in tmp_path.iterdir() if not path.name.startswith("ranking"))
    assert {"forest.png", "forest.svg", "summary.md"} <= {path.name for path in directory.iterdir()}
    assert (directory / "summary.md").read_text().startswith("# What the gate found\n\n**What was measured.**")
    assert main(["validate", "--refit", str(directory / "pairs.parquet")]) == 0
    for name in ("contributions.csv", "forest.svg", "forest.png"):
        assert (directory / "refit" / name).read_bytes() == (directory / name).read_bytes()
    assert main(["validate", "--refit", str(directory / "pairs.parquet"), "--estimator", "masked_ols"]) == 0
    assert "masked_ols" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["validate"], "validate needs --ckpt"),
        (["validate", "--refit", "/absent.parquet"], "there is no file /absent.parquet"),
        (["validate", "--refit", "/absent.parquet", "rounds=3"], "overrides of gate.… only, got rounds"),
        (["validate", "--refit", "/absent.parquet", "gate.polcy=fdr"], "did you mean 'gate.policy'"),
        (["validate", "--ckpt", ".", "gate.require_power=true"], "needs gate.effect"),
        (["train", "gate.design=balanced", "gate.inclusion=0.3"], "balanced needs gate.inclusion=0.5"),
        (["train", "gate.admit=0.5"], "outside (0.5, 1)"),
    ],
)
def test_bad_input_is_one_sentence(capsys, monkeypatch, tmp_path, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_the_findings_of_a_gate_without_a_full_arm_say_nothing_about_adding_up(finished, tmp_path):
    found = alone(finished, tmp_path, full_arm=False)
    assert found.findings.additivity is None and found.validation.gap is None
    assert "Do the contributions add up" not in dict(paragraphs(found.validation, found.findings))
    assert find(replace(found.validation, shown=frozenset())).additivity is None
    json.dumps(read_json(found.directory / "gate.json"), allow_nan=False)


@pytest.mark.parametrize("tasks", [4, 7])
def test_a_gate_that_no_rewards_could_fit_is_refused_before_its_first_rollout(finished, tmp_path, tasks):
    skill = parse_skill((finished / "round_000" / "draft.md").read_text())
    with pytest.raises(RankDeficientError, match="more validation tasks"):
        alone(finished, tmp_path, skill=skill, ckpt=finished / "round_001", placebos=2, tasks=tasks)
    assert not list(tmp_path.rglob("*.jsonl"))
