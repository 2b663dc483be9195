"""Pre-registered slices: what they fit, what they refuse, and how many intervals they make."""

import math
from dataclasses import replace

import numpy as np
import pytest
from method_records import ids, scored, skill, tasks
from scipy.stats import t as student_t

from intraskill.method.errors import ConfigError
from intraskill.method.gate.designs import Design, plan_masks
from intraskill.method.gate.diagnostics.slices import MIN_TASKS, fit_slices, register_slices
from intraskill.method.gate.estimators import fit
from intraskill.method.gate.pairs import Pairs, pair
from intraskill.method.tasks import Task

COLOURS = ("red", "green", "blue")


def sliced_tasks(number: int) -> list[Task]:
    """Half red, most of the rest green, ten blue; half of them have no size."""
    colour = [COLOURS[0] if i % 2 else COLOURS[1] for i in range(number - 10)] + [COLOURS[2]] * 10
    return [
        replace(task, features={"colour": colour[i]} | ({"size": "xl"} if i % 4 == 0 else {}))
        for i, task in enumerate(tasks(number))
    ]


def world(panel: list[Task], effect: dict[str, float]) -> Pairs:
    plan = plan_masks(skill("ab"), [], panel, Design(), seed=0, round_index=0)
    colour = {task.id: task.features["colour"] for task in panel}
    bare = [scored(t, math.sin(i)) for i, t in enumerate(plan)]
    masked = [
        scored(t, math.sin(i) + 0.1 * math.cos(5.0 * i) + effect[colour[t]] * (ids("a")[0] in plan[t][0]), plan[t][0])
        for i, t in enumerate(plan)
    ]
    return pair(bare, masked, plan, ids("ab"))


def test_a_slice_has_the_contributions_of_its_own_tasks() -> None:
    panel = sliced_tasks(160)
    pairs = world(panel, {"red": 0.5, "green": -0.5, "blue": 0.0})
    report = fit_slices(pairs, register_slices(panel, ["colour"]))
    found = {fit.value: fit for fit in report.fits}
    for value, effect in (("red", 0.5), ("green", -0.5)):
        contributions = found[value].contributions
        assert contributions is not None and abs(contributions.beta_J[0] - effect) < 4 * contributions.se_J[0]
        assert abs(contributions.beta_J[0] + effect) > 4 * contributions.se_J[0]
        own = [task.id for task in panel if task.features["colour"] == value]
        assert contributions.se_J.tolist() == fit(pairs.of_tasks(own)).se_J.tolist()
        assert contributions.num_pairs == found[value].num_tasks == 75


def test_a_slice_with_few_pairs_is_refused_by_count_and_one_that_cannot_be_fitted_by_its_reason() -> None:
    panel = sliced_tasks(160)
    pairs = world(panel, dict.fromkeys(COLOURS, 0.0))
    report = fit_slices(pairs, register_slices(panel, ["colour", "size"]))
    blue = next(fit for fit in report.fits if fit.value == "blue")
    assert blue.contributions is None
    assert blue.refused == f"10 paired tasks, {MIN_TASKS} needed for 2 chunks"
    assert next(fit for fit in report.fits if fit.feature == "size").num_tasks == 40
    flat = [scored(t.id, 0.0) for t in panel]
    plan = plan_masks(skill("ab"), [], panel, Design(), seed=0, round_index=0)
    same = pair(flat, [scored(t.id, 0.0, plan[t.id][0]) for t in panel], plan, ids("ab"))
    _, green, _ = fit_slices(same, register_slices(panel, ["colour"])).fits
    assert green.contributions is None and "differences R − B are 0" in green.refused


def test_the_number_of_intervals_is_named_and_simultaneous_ones_are_wider() -> None:
    panel = sliced_tasks(160)
    pairs = world(panel, dict.fromkeys(COLOURS, 0.0))
    report = fit_slices(pairs, register_slices(panel, ["colour", "size"]), "ancova")
    assert report.num_intervals == 6
    assert report.multiplicity.startswith("6 intervals of 95 %: about 0.3 miss by chance")
    found = report.fits[1].contributions
    assert found is not None and found.estimator == "ancova"
    low, high = report.simultaneous(found)
    assert (low < found.low_J).all() and (high > found.high_J).all()
    np.testing.assert_allclose(high - found.beta_J, student_t.ppf(1 - 0.025 / 6, found.degrees) * found.se_J, 1e-9)
    assert found.se_J.tolist() != fit(pairs, "ancova").se_J.tolist()


def test_registered_slices_have_a_hash_and_unknown_features_are_refused() -> None:
    panel = sliced_tasks(60)
    slices = register_slices(panel, ["colour"])
    assert slices.hash == register_slices(panel[::-1], ["colour"]).hash
    assert slices.hash != register_slices(panel[1:], ["colour"]).hash
    with pytest.raises(ConfigError, match="no task has these features, 1: taste; choose of colour, size"):
        register_slices(panel, ["taste"])
