"""What a gate's words may claim: the noise band, interactions without a full arm, stopping early, another estimator."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from method_records import ids, pairs_of
from planted_runs import TASKS, planted_config
from rounds.gate.test_validate import WorldWithColours, loose

from intraskill.method.gate.diagnostics.interactions import InteractionScreen
from intraskill.method.gate.diagnostics.placebo import EmpiricalNull
from intraskill.method.gate.diagnostics.remeasure import MeasuredRound
from intraskill.method.gate.estimators import fit
from intraskill.method.gate.simultaneous import sides
from intraskill.report.forest import draw
from intraskill.report.gate import LOOKED, paragraphs
from intraskill.report.screen import Look, print_blocks
from intraskill.report.summary import named_over_a_run, summarise
from intraskill.report.tables import named_words, report
from intraskill.rounds.evaluate import find_source
from intraskill.rounds.gate.findings import noise_band
from intraskill.rounds.gate.standalone import validate
from intraskill.rounds.loop import run
from intraskill.rounds.setup import bench
from intraskill.store.run_directory import read_json

EXACT = 1e-12
INTERACTIONS = "Do chunks change one another's effect"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return loose(tmp_path_factory.mktemp("words"), {"tasks_per_split": TASKS}, placebos=1, full_arm=False)[2]


def test_one_placebo_that_happens_to_lie_at_zero_does_not_make_the_noise_band_narrow(measured):
    lucky = EmpiricalNull(mean=0.001, spread=0.001, expected=0.04, largest=0.001, count=1)
    assert noise_band(lucky) == pytest.approx(0.08, abs=EXACT)
    assert noise_band(replace(lucky, spread=0.1)) == pytest.approx(0.2, abs=EXACT)
    found = replace(measured.validation, assessment=replace(measured.validation.assessment, null=lucky))
    said = dict(paragraphs(found, measured.findings))["Noise check"]
    assert "within ±0.080" in said and "1 placebo chunk of" in said and "±0.002" not in said
    edges = [patch for patch in draw(found, measured.findings).axes[0].patches if patch.get_width() > 0.1]
    assert edges and edges[0].get_x() == pytest.approx(-0.08, abs=EXACT)


def test_interactions_are_told_by_title_with_their_size_and_p_even_without_a_full_arm(measured):
    first, second, third = measured.validation.facts.skill.chunks[:3]
    pairs = ((first.id, second.id), (first.id, third.id))
    screen = InteractionScreen(pairs, np.array([-0.3, 0.0]), np.array([0.004, 0.8]), ((second.id, third.id),))
    assert measured.findings.additivity is None
    said = dict(paragraphs(measured.validation, replace(measured.findings, screen=screen)))[INTERACTIONS]
    assert f"{first.title} with {second.title} (γ̂ -0.300, p = 0.004)" in said
    assert third.title not in said and first.id not in said
    assert "1 pair was not screened" in said and "about 5 %" in said
    calm = replace(screen, p_K=np.array([0.4, 0.8]))
    quiet = dict(paragraphs(measured.validation, replace(measured.findings, screen=calm)))[INTERACTIONS]
    assert "no pair stands out" in quiet and "γ̂" not in quiet


def test_a_gate_that_looked_says_that_its_intervals_are_those_of_a_fixed_size(measured):
    assert LOOKED not in str(paragraphs(measured.validation, measured.findings))
    stopped = replace(measured.validation, stopped="Sequential: 30 pairs.")
    assert LOOKED in dict(paragraphs(stopped, measured.findings))["When it stopped"]


def test_the_report_of_a_run_says_it_too(tmp_path, capsys):
    def printed(sequential):
        config = planted_config(tmp_path / f"run-{sequential}")
        config.rounds, config.final.tasks, config.gate.sequential = 0, 0, sequential
        root = run(config)
        capsys.readouterr()
        print_blocks(report(summarise(root), str(root)), Look(wide=True))
        return " ".join(capsys.readouterr().out.split())

    looked, fixed = printed(12), printed(0)
    assert LOOKED in looked and "round 0" in looked and LOOKED not in fixed


def test_slices_of_a_gate_by_covariate_say_that_they_are_fitted_by_another_estimator(tmp_path):
    config = planted_config(tmp_path / "run")
    config.gate.slices = ["colour"]
    world = WorldWithColours(tasks_per_split=TASKS | {"skill_validation": 240})
    used = {}
    for estimator in ("covariate", "paired_ols"):
        config.gate.estimator = estimator
        (tmp_path / estimator).mkdir()
        setup = bench(config, tmp_path / estimator, environment=world)
        setup.learner.save(tmp_path / estimator)
        source = replace(find_source(tmp_path / estimator), root=None)
        found = validate(setup, source, world.draft)
        rows = list(csv.DictReader((found.directory / "slices.csv").open()))
        used[estimator] = {row["estimator"] for row in rows if row["chunk"]}
        said = dict(paragraphs(found.validation, found.findings))["On slices of the tasks"]
        assert ("They are fitted by ancova" in said) == (estimator == "covariate")
        data = read_json(found.directory / "contributions.json")["slices"]
        assert {row["estimator"] for row in data if "chunk" in row} == used[estimator]
    assert used == {"covariate": {"ancova"}, "paired_ols": {"paired_ols"}}


def test_over_a_run_chunks_are_named_with_one_error_budget():
    rng, names = np.random.default_rng(1), "ABCDE"
    titles = {chunk_id: name for chunk_id, name in zip(ids(names), names, strict=True)}
    gates = []
    for number in range(6):
        shown_NJ = rng.random((150, 5)) < 0.5
        delta_N = 0.3 * shown_NJ[:, 0] + rng.normal(0.0, 0.4, 150)
        gates.append(MeasuredRound(number, fit(pairs_of(shown_NJ.tolist(), delta_N.tolist(), names)), ()))
    found = named_over_a_run(gates, titles, 0.05)
    assert found["gates"] == 6 and {row["title"] for row in found["helps"]} == {"A"} and len(found["helps"]) >= 4
    alone = [sides(gate.contributions, 0.05)["helps"] for gate in gates]
    assert sum(map(len, alone)) >= len(found["helps"])
    assert "at most 5 % error over the 6 gates of this run together: helping: A (round" in named_words(found)
    nothing = named_words({"gates": 1, "helps": [], "hurts": []})
    assert nothing.endswith("over the 1 gate of this run together: helping: none; hurting: none")


def test_a_run_of_useless_chunks_names_one_in_5_percent_of_runs():
    rng, names = np.random.default_rng(2), "ABCDE"
    wrong, runs = 0, 60
    for _ in range(runs):
        gates = []
        for number in range(5):
            shown_NJ = rng.random((60, 5)) < 0.5
            delta_N = rng.normal(0.0, 0.4, 60)
            gates.append(MeasuredRound(number, fit(pairs_of(shown_NJ.tolist(), delta_N.tolist(), names)), ()))
        found = named_over_a_run(gates, {}, 0.05)
        wrong += bool(found["helps"] or found["hurts"])
    assert wrong <= 0.05 * runs + 2 * (0.05 * 0.95 * runs) ** 0.5
