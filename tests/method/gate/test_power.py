"""The planner against the published table, exact moments, simulated regressions, and `decide` itself."""

from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
import pytest
from method_records import chunk, contributions, edit, pairs_of, skill, tasks
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError, UnderpoweredError
from intraskill.method.gate.decision import decide
from intraskill.method.gate.designs import Design, plan_masks
from intraskill.method.gate.estimators import Estimator, fit
from intraskill.method.gate.planning import (
    admission_rates,
    outcomes,
    plan_gate,
    require_power,
    verdict,
)
from intraskill.method.gate.power import (
    GateDesign,
    between_rows,
    information,
    promised_covariance,
    shown_probability,
    smallest_effect,
    standard_errors,
    tasks_for,
    visible,
)
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.rules import DecisionRule, FdrRule, GateRule, ProbabilityRule
from intraskill.method.skill.edits import Edit, pool
from intraskill.method.skill.skill import Skill

PRINTED = 0.02
"""Relative: the table of the design is rounded to two or three decimals and merges pools of 8 to 16 chunks."""
SIMULATED_POWER = 0.05
"""What a promise of 80 % may be wrong by: a share over 800 gates has a standard error of 0.014."""
SIMULATED = 0.05
"""Relative error of an SD over 1,200 simulated gates is 2 %; the planner leaves out terms of order J / n."""
DRAWN = 0.025
"""Standard error of a share over 3,000 drawn masks is below 0.01."""
PUBLISHED = GateDesign(chunks=12, tasks=400, sigma=0.44)


@pytest.mark.parametrize(
    ("sigma", "chunks", "row"),
    [
        (0.30, 12, (0.08, 0.057, 0.04, 0.029)),
        (0.44, 12, (0.118, 0.083, 0.059, 0.042)),
        (0.60, 16, (0.164, 0.115, 0.08, 0.058)),
    ],
)
def test_the_design_s_table_of_smallest_effects_comes_back(sigma: float, chunks: int, row: tuple[float, ...]) -> None:
    got = [smallest_effect(GateDesign(chunks, n, sigma)) for n in (400, 800, 1600, 3200)]
    # The table is of the first order; a finite gate loses P + 1 rows, t's wider tails and what HC3 errs by.
    degrees = [n - chunks for n in (400, 800, 1600, 3200)]
    first_order = [
        value * np.sqrt((df - 1) / (df + chunks)) / visible(GateDesign(chunks, df + chunks, sigma)) * 2.8016
        for value, df in zip(got, degrees, strict=True)
    ]
    assert first_order == pytest.approx(row, rel=PRINTED)
    assert all(1.0 < value / old < 1.06 for value, old in zip(got, first_order, strict=True))
    without_the_power = [value / 2.8 * 1.96 for value in got]
    assert without_the_power != pytest.approx(row, rel=PRINTED)


@pytest.mark.parametrize(("p", "chunks"), list(product((0.3, 0.5, 0.7), (1, 2, 12))))
def test_without_rival_texts_the_variance_has_the_closed_form(p: float, chunks: int) -> None:
    design = GateDesign(chunks, 400, 0.44, inclusion=p)
    expected = 0.44**2 / ((400 - chunks - 1) * p * (1 - p)) * (1 - p / (1 - p + p * chunks))
    assert np.square(standard_errors(design)) == pytest.approx(np.full(chunks, expected), rel=1e-12)
    assert standard_errors(design)[0] ** 2 != pytest.approx(0.44**2 / (400 * p * (1 - p)), rel=1e-3)


def test_the_moments_of_contested_slots_are_those_of_the_masks_that_are_drawn() -> None:
    current = skill("abcd")
    edits = (edit("a", "X"), edit("bc", "Y"))
    everything = pool(current, edits)
    planned = plan_masks(everything, edits, tasks(3000), Design(inclusion=0.4), seed=1, round_index=0)
    order = [chunk(name).id for name in "aXbcYd"]
    shown_NJ = np.array([[chunk_id in visible for chunk_id in order] for (visible,) in planned.values()], dtype=float)
    design = GateDesign(6, 3000, 0.4, inclusion=0.4, slots=((1, 1), (2, 1)))
    assert shown_NJ.mean(axis=0) == pytest.approx(shown_probability(design), abs=DRAWN)
    assert shown_NJ.T @ shown_NJ / 3000 == pytest.approx(information(design), abs=DRAWN)
    assert information(design)[0, 1] == 0.0
    assert information(replace(design, slots=())) != pytest.approx(information(design), abs=DRAWN)


def test_a_third_version_of_a_slot_costs_every_version_precision() -> None:
    two, three = (GateDesign(6, 400, 0.4, slots=(sizes,)) for sizes in ((1, 1), (1, 1, 1)))
    assert shown_probability(three)[:4] == pytest.approx([0.25, 0.25, 0.25, 0.5])
    assert standard_errors(three)[0] > standard_errors(two)[0] > standard_errors(two)[-1]


def simulated_sd(design: GateDesign, correlation: float, gates: int, seed: int) -> NDArray[np.float64]:
    """SD of β̂ over gates, by drawing rewards and solving each regression with plain numpy."""
    rng = np.random.default_rng(seed)
    reward_sd = design.sigma / np.sqrt(2 * (1 - correlation))
    n, r, J = design.tasks, design.masked_replicates, design.chunks
    found = []
    for _ in range(gates):
        task_N = rng.normal(size=n) * reward_sd * np.sqrt(correlation)
        noise = reward_sd * np.sqrt(1 - correlation)
        bare_N = task_N + rng.normal(size=n) * noise / np.sqrt(design.bare_replicates)
        shown_NJ = (rng.random((n * r, J)) < design.inclusion).astype(float)
        if design.mirrored:
            shown_NJ[1::2] = 1.0 - shown_NJ[0::2]
        bare_R = np.repeat(bare_N, r)
        masked_R = np.repeat(task_N, r) + rng.normal(size=n * r) * noise + shown_NJ @ np.linspace(-0.1, 0.1, J)
        ones = np.ones((n * r, 1))
        columns, outcome = {
            "paired_ols": ([shown_NJ], masked_R - bare_R),
            "paired_ols_intercept": ([shown_NJ, ones], masked_R - bare_R),
            "ancova": ([shown_NJ, ones, bare_R[:, None]], masked_R),
            "covariate": ([shown_NJ, ones, bare_R[:, None]], masked_R),
            "masked_ols": ([shown_NJ, ones], masked_R),
        }[design.estimator]
        found.append(np.linalg.lstsq(np.hstack(columns), outcome, rcond=None)[0][:J])
    sd: NDArray[np.float64] = np.std(found, axis=0, ddof=1)
    return sd


@pytest.mark.parametrize(("estimator", "replicates"), list(product(get_args(Estimator), ((1, 1), (3, 2)))))
def test_the_promised_standard_errors_are_those_of_simulated_gates(
    estimator: Estimator, replicates: tuple[int, int]
) -> None:
    masked, bare = replicates
    design = GateDesign(
        5, 150, 0.44, 0.4, estimator=estimator, correlation=0.6, masked_replicates=masked, bare_replicates=bare
    )
    simulated = float(np.sqrt(np.mean(np.square(simulated_sd(design, 0.6, gates=300, seed=masked)))))
    promised = float(np.sqrt(np.mean(np.square(standard_errors(design)))))
    assert simulated == pytest.approx(promised, rel=SIMULATED)
    assert simulated != pytest.approx(promised * 1.12, rel=SIMULATED)


@pytest.mark.parametrize("estimator", get_args(Estimator))
@pytest.mark.parametrize("masked", [2, 4])
def test_the_promise_of_mirrored_masks_is_kept_by_simulated_gates(estimator: Estimator, masked: int) -> None:
    design = GateDesign(
        5, 150, 0.44, estimator=estimator, correlation=0.6, masked_replicates=masked, bare_replicates=2, mirrored=True
    )
    simulated = float(np.sqrt(np.mean(np.square(simulated_sd(design, 0.6, gates=300, seed=masked)))))
    promised, plain = (
        float(np.sqrt(np.mean(np.square(standard_errors(replace(design, mirrored=kind)))))) for kind in (True, False)
    )
    assert simulated == pytest.approx(promised, rel=SIMULATED)
    assert simulated != pytest.approx(plain, rel=SIMULATED) and promised < plain


def test_the_mirrored_states_of_contested_slots_are_those_that_are_drawn() -> None:
    current = skill("abcd")
    edits = (edit("a", "X"), edit("bc", "Y"))
    everything = pool(current, edits)
    drawn = plan_masks(everything, edits, tasks(3000), Design("mirrored", masked_replicates=2), seed=1, round_index=0)
    order = [chunk(name).id for name in "aXbcYd"]
    first, second = (
        np.array([[chunk_id in pair[k] for chunk_id in order] for pair in drawn.values()], dtype=float) for k in (0, 1)
    )
    design = GateDesign(6, 3000, 0.4, slots=((1, 1), (2, 1)), masked_replicates=2, mirrored=True)
    assert first.T @ second / 3000 == pytest.approx(between_rows(design), abs=DRAWN)
    assert between_rows(replace(design, mirrored=False)) != pytest.approx(between_rows(design), abs=DRAWN)


def power(design: GateDesign, effect: float, gates: int) -> float:
    """Share of simulated gates whose own 95 % interval of a chunk worth ``effect`` excludes 0."""
    rng, names = np.random.default_rng(design.tasks), "ABCDEFGHIJKLMNOP"[: design.chunks]
    seen = 0
    for _ in range(gates):
        shown_NJ = rng.random((design.tasks, design.chunks)) < design.inclusion
        delta_N = effect * shown_NJ[:, 0] + rng.normal(0.0, design.sigma, design.tasks)
        measured = fit(pairs_of(shown_NJ.tolist(), delta_N.tolist(), names), design.estimator)
        seen += bool(measured.low_J[0] > 0.0 or measured.high_J[0] < 0.0)
    return seen / gates


@pytest.mark.parametrize("estimator", ["paired_ols", "paired_ols_intercept"])
@pytest.mark.parametrize(("chunks", "tasks"), [(4, 20), (12, 60), (12, 80)])
def test_small_gates_have_the_power_that_is_promised(chunks: int, tasks: int, estimator: Estimator) -> None:
    design = GateDesign(chunks, tasks, 0.44, estimator=estimator)
    assert power(design, smallest_effect(design), 800) == pytest.approx(0.8, abs=SIMULATED_POWER)
    first_order = 2.8016 * 0.44 * np.sqrt(4 / tasks * (1 - 0.5 / (0.5 + 0.5 * chunks)))
    assert power(design, float(first_order), 400) < 0.8 - 2 * SIMULATED_POWER


def test_a_gate_with_few_tasks_per_chunk_is_called_too_small() -> None:
    small = plan_gate(GateDesign(9, 45, 0.44), effect=5.0, rules=[GateRule(9)])
    assert "45 tasks are too few for 9 chunks: below 10 tasks per chunk, 90 here" in verdict(small)
    with pytest.raises(UnderpoweredError, match="too few for 9 chunks"):
        require_power(small)
    assert "too few" not in verdict(plan_gate(GateDesign(9, 90, 0.44), effect=5.0, rules=[GateRule(9)]))
    with pytest.raises(ConfigError, match="10 tasks cannot measure 9 chunks"):
        GateDesign(9, 10, 0.44)


def test_an_effect_of_the_smallest_visible_size_is_seen_four_times_in_five() -> None:
    se = standard_errors(PUBLISHED)[0]
    draws = np.random.default_rng(0).normal(visible(replace(PUBLISHED, tasks=10**6)) * se, se, 40_000)
    assert np.mean(np.abs(draws) > 1.96 * se) == pytest.approx(0.8, abs=0.01)
    assert np.mean(np.abs(draws - 0.2 * se) > 1.96 * se) != pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("effect", [0.03, 0.05, 0.118, 0.3])
def test_the_tasks_needed_are_the_fewest_that_see_the_effect(effect: float) -> None:
    needed = tasks_for(PUBLISHED, effect)
    assert smallest_effect(replace(PUBLISHED, tasks=needed)) <= effect
    assert smallest_effect(replace(PUBLISHED, tasks=needed - 1)) > effect


def test_the_published_gate_admits_half_of_its_useless_chunks() -> None:
    plan = plan_gate(GateDesign(16, 400, 0.44), effect=0.05, rules=[GateRule(16)])
    assert plan.outlooks[0].useless_admitted == 8.0
    capped = plan_gate(GateDesign(16, 400, 0.44), effect=0.05, rules=[GateRule(4)]).outlooks[0]
    assert capped.useless_admitted == pytest.approx(4.0, abs=0.1)


def test_the_verdict_says_what_the_gate_cannot_see() -> None:
    plan = plan_gate(PUBLISHED, effect=0.05, rules=[GateRule(12)])
    assert verdict(plan).startswith(
        "with 400 tasks, 12 chunks and σ = 0.44 the gate can only see effects of 0.122 or more; a useless chunk passes "
        "with probability 50 %; 1,600 tasks would see 0.060; an effect of 0.050 would need 2,268 tasks"
    )


def test_an_underpowered_gate_is_refused_with_the_number_of_tasks_that_would_do() -> None:
    with pytest.raises(UnderpoweredError, match="asked for 0.050. Use 2,268 tasks"):
        require_power(plan_gate(PUBLISHED, effect=0.05, rules=[]))
    require_power(plan_gate(replace(PUBLISHED, tasks=2268), effect=0.05, rules=[]))


RULES: tuple[DecisionRule, ...] = (
    GateRule(3),
    GateRule(9),
    ProbabilityRule(3, discount=0.0),
    ProbabilityRule(9, discount=0.0),
    FdrRule(2, rate=0.3),
    FdrRule(9, rate=0.3),
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_simulated_policies_are_the_ones_that_decide(rule: DecisionRule) -> None:
    names = "abcdef"
    design = GateDesign(6, 200, 0.44)
    covariance_JJ = promised_covariance(design)
    value_RJ = np.random.default_rng(3).normal(0.02, 0.08, (60, 6))
    candidate_RJ, incumbent_RJ = outcomes(value_RJ, covariance_JJ, rule, degrees=194)
    adds = tuple(edit("", name) for name in names)
    for value_J, candidate_J, incumbent_J in zip(value_RJ, candidate_RJ, incumbent_RJ, strict=True):
        entered = _kept(skill(""), adds, value_J, covariance_JJ, rule)
        stayed = _kept(skill(names), (), value_J, covariance_JJ, rule)
        assert entered == candidate_J.tolist()
        assert stayed == incumbent_J.tolist()


def _kept(
    current: Skill,
    edits: tuple[Edit, ...],
    value_J: NDArray[np.float64],
    covariance_JJ: NDArray[np.float64],
    rule: DecisionRule,
) -> list[bool]:
    chunk_ids = pool(current, edits).ids
    found: Contributions = replace(
        contributions(dict(zip(chunk_ids, value_J.tolist(), strict=True))),
        se_J=np.sqrt(np.diag(covariance_JJ)),
        covariance_JJ=covariance_JJ,
        num_pairs=200,
        degrees=194,
    )
    kept = decide(current, edits, found, rule).kept
    return [chunk_id in kept for chunk_id in chunk_ids]


def test_careful_policies_let_fewer_useless_chunks_in_than_the_published_one() -> None:
    covariance_JJ = promised_covariance(PUBLISHED)
    rates = [
        float(admission_rates(np.zeros(12), covariance_JJ, rule, degrees=388)[0].mean())
        for rule in (GateRule(12), ProbabilityRule(12), FdrRule(12))
    ]
    assert rates[0] == pytest.approx(0.5, abs=0.01)
    assert rates[1] < 0.05
    assert rates[2] < 0.02


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunks": 0}, "chunks must be 1 or more, got 0"),
        ({"tasks": 12}, "12 tasks cannot measure 12 chunks"),
        ({"sigma": 0.0}, "sigma must be a positive reward"),
        ({"inclusion": 1.0}, "inclusion must lie strictly between 0 and 1"),
        ({"slots": ((9, 9),)}, "the slots hold 18 chunks, the pool 12"),
        ({"slots": ((1,),)}, "at least two versions"),
        ({"estimator": "ols"}, "unknown estimator 'ols'"),
        ({"estimator": "ancova"}, "needs corr"),
        ({"correlation": 1.0}, "correlation must lie in"),
        ({"masked_replicates": 0}, "replicates must be 1 or more"),
    ],
)
def test_gates_that_cannot_be_run_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(PUBLISHED, **change)  # type: ignore[arg-type]


def test_an_effect_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be a positive reward, got 0"):
        tasks_for(PUBLISHED, 0.0)
