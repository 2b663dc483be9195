"""The tables on the gate are those of the result files, and the worlds behind them are what they say."""

import csv
import importlib
import re
from math import ceil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from intraskill.report.tables import LOOKED

ROOT = Path(__file__).parents[1]
EXACT = 1e-12
FOUR_SIGMA = 4.0


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


def script(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_every_table_of_the_document_is_the_one_that_its_results_make() -> None:
    tables = script("statistics_tables")
    texts = [path.read_text(encoding="utf-8") for path in tables.DOCUMENTS]
    named = [name for text in texts for name in re.findall(r"<!-- table: (.+?) -->", text)]
    assert sorted(named) == sorted(tables.TABLES)
    assert [tables.filled(text) for text in texts] == texts


def test_a_changed_cell_is_noticed() -> None:
    text = script("statistics_tables").DOCUMENTS[0].read_text(encoding="utf-8")
    digit = re.search(r"(?<=<!-- table: coverage -->\n)(?:.*\n){2}[^\d]*?(\d+\.\d)", text)
    assert digit is not None
    forged = text[: digit.start(1)] + "12.3" + text[digit.end(1) :]
    assert script("statistics_tables").filled(forged) == text


def test_the_answer_counts_no_world_twice_and_names_the_price_of_a_run_with_its_bare_arm() -> None:
    tables = script("statistics_tables")
    worth = {(r["world"], r["option"]): r for r in tables.read("gate_savings") if r["part"] == "equal SE"}
    for option in tables.KINDS["mirrored masks"]:  # no history in them, so the two worlds are one
        same, other, lower = (worth[world, option]["all_counted"] for world in tables.WORLDS[:3])
        assert same == other and (option != "mirrored, balanced" or lower != same)
    lines = tables.answer().splitlines()
    assert "Met in 4 of 4 worlds" in lines[0] and "Met in 3 of 4 worlds, missed in rare success" in lines[1]
    run = worth["published", "mirrored, balanced, paired_ols"]
    assert f"{float(run['all_counted']):.2f} [" in lines[2] and run["all_counted_goal"] != "met"
    assert "bare arm" in lines[2] and "Met in 0 of 4" in lines[2]


def test_every_result_of_a_script_says_how_many_gates_it_rests_on() -> None:
    tables = script("statistics_tables")
    assert {row["gates"] for row in tables.read("gate_coverage")} == {"1000"}
    assert min(int(row["gates"]) for name in ("gate_savings", "gate_losses") for row in tables.read(name)) >= 300


def test_additive_effects_mean_the_same_in_every_reading_and_interactions_do_not() -> None:
    worlds = script("gate_worlds")
    for reading in worlds.truths("additive").values():
        assert np.allclose(reading, worlds.EFFECTS, rtol=0, atol=EXACT)
    for kind in ("pairs", "ceiling", "text"):
        readings = worlds.truths(kind)
        assert np.abs(readings["alone"] - readings["marginal"]).max() > 0.01


def test_rewards_of_a_visible_set_average_to_what_the_world_says_it_is_worth() -> None:
    worlds, simulation = script("gate_worlds"), script("gate_simulation")
    world = worlds.World(kind="pairs")
    laboratory = simulation.Laboratory(world, worlds.Layout(20_000, rounds=1))
    (gates,) = laboratory.blocks(1, seed=3)
    value = gates.masked_GN - gates.bare_GN
    shown = gates.shown_GNJ[0]
    gives, takes = worlds.effects("pairs", 1.0)
    expected = (gives - takes)[shown.astype(int) @ laboratory.codes]
    difference = value[0] - expected
    noise = difference.std() / len(difference) ** 0.5
    assert abs(difference.mean()) < FOUR_SIGMA * noise
    assert abs(value[0].mean()) > FOUR_SIGMA * noise


@pytest.mark.parametrize("mirrored", [False, True])
def test_gates_in_blocks_are_fitted_as_the_package_fits_them(mirrored: bool) -> None:
    worlds, simulation = script("gate_worlds"), script("gate_simulation")
    layout = worlds.Layout(60, masked=2, mirrored=mirrored, rounds=2)
    laboratory = simulation.Laboratory(worlds.World(grades=4), layout, masked_history=True)
    (gates,) = laboratory.blocks(2, seed=1)
    models = [simulation.Model("paired_ols"), simulation.Model("ancova"), simulation.Model("masked_ols")]
    models += [
        simulation.Model("covariate", "bare", 2, bare=True),
        simulation.Model("covariate", "masked", separate=True),
    ]
    for model in models:
        found, exact = laboratory.fit(gates, model), laboratory.by_package(gates, model, 1)
        assert exact.covariance == "CR3"
        assert np.allclose(found.beta_GJ[1], exact.beta_J, rtol=1e-8, atol=1e-10)
        assert np.allclose(found.half_GJ[1], exact.high_J - exact.beta_J, rtol=1e-8, atol=1e-10)
        assert not np.allclose(found.beta_GJ[0], exact.beta_J, rtol=1e-3)


def test_mirrored_masks_show_every_chunk_once_in_every_task() -> None:
    worlds, simulation = script("gate_worlds"), script("gate_simulation")
    for balanced in (False, True):
        layout = worlds.Layout(30, masked=2, mirrored=True, balanced=balanced)
        (gates,) = simulation.Laboratory(worlds.World(), layout).blocks(1, seed=0)
        assert (gates.shown_GNJ.reshape(30, 2, -1).sum(axis=1) == 1).all()


def test_mirrored_masks_leave_no_task_in_the_estimate() -> None:
    worlds, simulation = script("gate_worlds"), script("gate_simulation")
    model = simulation.Model("masked_ols")
    for mirrored in (True, False):
        layout = worlds.Layout(40, masked=2, mirrored=mirrored)
        laboratory = simulation.Laboratory(worlds.World(), layout)
        (gates,) = laboratory.blocks(1, seed=5)
        before = simulation.fit_rows(*gates.regression(model), 2, 12).beta_GJ
        gates.masked_GN[:] += np.repeat(np.arange(40.0), 2)
        after = simulation.fit_rows(*gates.regression(model), 2, 12).beta_GJ
        assert np.allclose(before, after, atol=1e-9) == mirrored


def test_rollouts_for_a_loss_are_interpolated_and_never_extrapolated() -> None:
    losses = script("gate_losses")
    falling = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
    assert losses.tasks_for(falling, 0.3) == pytest.approx(losses.SIZES[2])
    assert losses.SIZES[1] < losses.tasks_for(falling, 0.35) < losses.SIZES[2]
    assert losses.tasks_for(falling, 0.6) == losses.SIZES[0]
    assert losses.tasks_for(falling, 0.05) == float("inf")


def test_what_is_said_of_intervals_after_a_look_is_what_was_simulated() -> None:
    with (ROOT / "docs" / "results" / "gate_sequential.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    covers = [100 * float(row["fixed_interval_covers_at_stop"]) for row in rows]
    called = [100 * float(row["fixed_interval_calls_useless_at_stop"]) for row in rows]
    ends = (int(min(covers)), int(max(covers)), int(min(called)), ceil(max(called)))
    said = re.search(r"(\d+) to (\d+) times in 100, and left out 0 for (\d+) to (\d+) in 100", LOOKED)
    assert said is not None and tuple(map(int, said.groups())) == ends
