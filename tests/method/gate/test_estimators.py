"""Estimators and covariances against their definitions in plain loops, other implementations, and planted truth.

The HC3 fit is statsmodels' own, so its reference is the definition: normal equations, then a refit without each row.
CR3 is ours, so its references are statsmodels' cluster-crv3 and a refit without each task.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_records import ids, scored, skill, tasks
from numpy.typing import NDArray
from scipy.stats import t as student_t
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.sandwich_covariance import cov_cluster

from intraskill.method.errors import ConfigError, EditError, NoVariationError, RankDeficientError
from intraskill.method.gate.designs import Design, plan_masks
from intraskill.method.gate.estimators import ESTIMATORS, fit, history
from intraskill.method.gate.pairs import MaskedOnly, Pairs, pair
from intraskill.method.gate.regression import Contributions, factorize, least_squares, left_out_shifts
from intraskill.store.records import from_json, to_json

Vector = NDArray[np.float64]
RTOL = 1e-8
ATOL = 1e-11
REWARD = st.floats(-1, 1).map(lambda reward: round(reward, 6))  # 1e-179 would vanish in a sum
NAMES = "abcd"
FOUR_SIGMA = 4.0


def covariate(rows: Pairs | MaskedOnly, known: Mapping[str, Mapping[str, float]]) -> Contributions:
    return fit(rows, "covariate", known=known)


BY_NAME: Mapping[str, Callable[[Pairs], Contributions]] = {
    **{name: partial(fit, estimator=name) for name in ("paired_ols", "paired_ols_intercept", "ancova", "masked_ols")},
    "covariate": lambda pairs: covariate(pairs, {"ease": EASE}),
    "covariate without bare": lambda pairs: covariate(pairs.masked_only, {"ease": EASE}),
}
EASE = {f"task-{i:04d}": math.sin(i) for i in range(400)}


def world(
    seed: int, number: int = 80, *, replicates: int = 1, beta: tuple[float, ...] = (0.3, 0.1, 0.0, -0.2), noise=0.3
) -> Pairs:
    """Pairs whose R and B share a task effect; masks of each replicate of their own."""
    rng = np.random.default_rng(seed)
    names = NAMES[: len(beta)]
    plan = plan_masks(skill(names), [], tasks(number), Design(masked_replicates=replicates), seed=seed, round_index=0)
    worth = dict(zip(ids(names), beta, strict=True))
    bare, masked = [], []
    for task_id, sets in plan.items():
        base = 0.5 + 0.3 * EASE[task_id]
        draws = rng.normal(0.0, noise, size=1 + len(sets))
        bare.append(parted(task_id, base + draws[0]))
        for sample, visible in enumerate(sets):
            reward = base + sum(worth[c] for c in sorted(visible)) + draws[1 + sample]
            masked.append(parted(task_id, reward, visible, sample=sample))
    return pair(bare, masked, plan, ids(names))


def parted(task_id: str, reward: float, visible=frozenset(), sample: int = 0):
    parts = {"r_strict": reward, "r_square": reward * abs(reward)}
    return scored(task_id, reward, visible, sample=sample, parts=parts)


def model_of(name: str, pairs: Pairs, part: str = "r_strict") -> tuple[Vector, Vector]:
    """(X, y) of an estimator, written out by hand, chunks first."""
    one = np.ones((len(pairs.task_ids), 1))
    ease = np.array([[EASE[t]] for t in pairs.task_ids])
    bare, masked = pairs.bare_parts[part], pairs.masked_parts[part]
    nuisance = {
        "paired_ols": [],
        "paired_ols_intercept": [one],
        "ancova": [one, bare[:, None]],
        "masked_ols": [one],
        "covariate": [one, ease, bare[:, None]],
        "covariate without bare": [one, ease],
    }[name]
    return np.hstack([pairs.design_NJ, *nuisance]), masked - bare if name.startswith("paired") else masked


def normal_equations(design: Vector, outcome: Vector) -> Vector:
    """β̂ by the definition: Xᵀ X β = Xᵀ y."""
    return np.linalg.solve(design.T @ design, design.T @ outcome)


def jackknife(design: Vector, outcome: Vector, clusters: list[str]) -> Vector:
    """The covariance by its definition: Σ (β̂ − β̂₋g)(β̂ − β̂₋g)ᵀ over refits without each cluster."""
    total = np.zeros((design.shape[1],) * 2)
    for left_out in sorted(set(clusters)):
        keep = [c != left_out for c in clusters]
        moved = normal_equations(design, outcome) - normal_equations(design[keep], outcome[keep])
        total += np.outer(moved, moved)
    return total


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("part", ["r_strict", "r_square"])
def test_every_estimator_meets_its_definition_refitted_without_each_task(name: str, part: str) -> None:
    pairs = world(3)
    got = BY_NAME[name](pairs)
    design, outcome = model_of(name, pairs, part)
    want, covariance = normal_equations(design, outcome), jackknife(design, outcome, list(pairs.task_ids))
    want_se = np.sqrt(np.diag(covariance))
    beta, se = got.parts[part]
    np.testing.assert_allclose(beta, want[:4], RTOL, ATOL)
    np.testing.assert_allclose(se, want_se[:4], RTOL, ATOL)
    residual = outcome - design @ want
    freedom = 80 - design.shape[1]
    equal_variances = residual @ residual / freedom * np.linalg.inv(design.T @ design)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(se, np.sqrt(np.diag(equal_variances))[:4], RTOL, ATOL)
    if part == "r_strict":
        half = student_t.ppf(0.975, freedom) * want_se
        np.testing.assert_allclose([got.low_J, got.high_J], [(want - half)[:4], (want + half)[:4]], RTOL, ATOL)
        assert (got.rank, got.degrees, got.covariance) == (design.shape[1], freedom, "HC3")
        assert got.residual_sd == pytest.approx(math.sqrt(residual @ residual / freedom))
        assert got.condition_number == pytest.approx(np.linalg.cond(design - design.mean(0) * _centred(name, design)))
        np.testing.assert_allclose(got.covariance_JJ, covariance[:4, :4], RTOL, ATOL)


def _centred(name: str, design: Vector) -> Vector:
    """1 for the covariate's own column, which is centred; centring moves nothing but the intercept and this number."""
    return np.array([name.startswith("covariate") and column == 5 for column in range(design.shape[1])], dtype=float)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_estimator_clusters_replicates_by_task_like_statsmodels_and_like_the_definition(name: str) -> None:
    pairs = world(5, 50, replicates=3)
    got = BY_NAME[name](pairs)
    design, outcome = model_of(name, pairs)
    groups = np.unique(pairs.task_ids, return_inverse=True)[1]
    want = np.sqrt(np.diag(cov_cluster(OLS(outcome, design).fit(), groups, False, "cluster-crv3")))
    jackknife_se = np.sqrt(np.diag(jackknife(design, outcome, list(pairs.task_ids))))
    assert (got.covariance, got.num_pairs, got.num_tasks, got.degrees) == ("CR3", 150, 50, 50 - design.shape[1])
    np.testing.assert_allclose(got.se_J, want[:4], RTOL, ATOL)
    np.testing.assert_allclose(got.se_J, jackknife_se[:4], RTOL, ATOL)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(got.se_J, OLS(outcome, design).fit(cov_type="HC3").bse[:4], RTOL, ATOL)


def test_with_one_row_per_task_what_leaving_out_each_task_changes_makes_hc3() -> None:
    pairs = world(2)
    basis = factorize(pairs.design_NJ, pairs.chunk_ids, pairs.task_ids)
    found = least_squares(basis, pairs.delta_N)
    shift_GP = left_out_shifts(basis, found.residual_N)
    assert basis.covariance == "HC3"
    np.testing.assert_allclose(shift_GP.T @ shift_GP, found.covariance_PP, RTOL, ATOL)
    repeated = world(2, replicates=2)
    rows = [f"row {n}" for n in range(len(repeated.task_ids))]
    apart = least_squares(factorize(repeated.design_NJ, repeated.chunk_ids, rows), repeated.delta_N)
    assert not np.allclose(apart.se_P, fit(repeated).se_J, RTOL)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 500), st.tuples(*[REWARD] * 4).filter(any), st.sampled_from(sorted(BY_NAME)))
def test_planted_contributions_come_back_exactly_without_noise(seed: int, beta: tuple[float, ...], name: str) -> None:
    pairs = world(seed, beta=beta, noise=0.0)
    if name == "covariate":
        with pytest.raises(RankDeficientError, match="cannot separate"):
            BY_NAME[name](pairs)
        return
    got = BY_NAME[name](pairs)
    exact = np.allclose(got.beta_J, beta, atol=1e-8)
    assert exact == (name != "masked_ols")
    assert not np.allclose(got.beta_J, np.array(beta) + 1e-5, atol=1e-8)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 500), st.floats(0.01, 100), st.permutations(range(4)), st.sampled_from(sorted(BY_NAME)))
def test_estimators_are_equivariant_to_scale_and_permutation(
    seed: int, scale: float, order: list[int], name: str
) -> None:
    rng = np.random.default_rng(seed)
    plan = plan_masks(skill(NAMES), [], tasks(60), Design(), seed=seed, round_index=0)
    rewards = {task: rng.normal(size=2) for task in plan}

    def fitted(factor: float, names: str, turn: int = 1) -> Contributions:
        bare = [scored(t, float(b * factor)) for t, (b, _) in rewards.items()][::turn]
        masked = [scored(t, float(r * factor), plan[t][0]) for t, (_, r) in rewards.items()]
        return BY_NAME[name](pair(bare, masked, plan, ids(names)))

    straight, scaled = fitted(1.0, NAMES), fitted(scale, NAMES)
    permuted = fitted(1.0, "".join(NAMES[j] for j in order), turn=-1)
    np.testing.assert_allclose([scaled.beta_J, scaled.se_J], [straight.beta_J * scale, straight.se_J * scale], 1e-6)
    np.testing.assert_allclose(permuted.beta_J, straight.beta_J[order], 1e-6, 1e-10)
    np.testing.assert_allclose(permuted.se_J, straight.se_J[order], 1e-6, 1e-10)
    assert not np.allclose(scaled.beta_J, straight.beta_J * scale * 1.001, 1e-6)


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_rollouts_does_not_matter(shuffler) -> None:
    plan = plan_masks(skill(NAMES), [], tasks(40), Design(masked_replicates=2), seed=1, round_index=0)
    bare = [scored(t, EASE[t]) for t in plan]
    masked = [scored(t, math.cos(7.0 * i + s), v, sample=s) for i, t in enumerate(plan) for s, v in enumerate(plan[t])]
    straight = pair(bare, masked, plan, ids(NAMES))
    shuffler.shuffle(bare)
    shuffler.shuffle(masked)
    again = pair(bare, masked, plan, ids(NAMES))
    for name, estimate in BY_NAME.items():
        if name != "covariate":
            assert estimate(again).se_J.tolist() == estimate(straight).se_J.tolist()


GATES = 200
COVERED = 0.95


def coverage(*, clustered: bool, tasks_: int, replicates: int, seed: int) -> float:
    """Share of 95 % intervals that hold the truth when rows of one task share an effect that chunks modulate.

    Unless they are clustered by task, every row counts as a task of its own.
    """
    rng = np.random.default_rng(seed)
    beta = np.array([0.3, 0.0, -0.1])
    names = [f"t{i:03d}" if clustered else f"t{i:03d} {s}" for i in range(tasks_) for s in range(replicates)]
    hits = []
    for _ in range(GATES):
        design = (rng.random((tasks_ * replicates, 3)) < 0.5).astype(float)
        own = np.repeat(beta + rng.normal(0, 0.5, (tasks_, 3)), replicates, axis=0)
        shared = np.repeat(rng.normal(0, 0.5, tasks_), replicates)
        outcome = (design * own).sum(axis=1) + shared + rng.normal(0, 0.2, len(names))
        found = least_squares(factorize(design, list("abc"), names), outcome)
        hits.append(np.abs(found.beta_P - beta) <= found.half_P)
    return float(np.mean(hits))


def test_clustered_intervals_cover_and_independent_ones_do_not() -> None:
    # Three coefficients share a gate, so the bound takes the gates as the sample: conservative.
    bound = FOUR_SIGMA * math.sqrt(COVERED * (1 - COVERED) / GATES)
    assert abs(coverage(clustered=True, tasks_=50, replicates=8, seed=1) - COVERED) < bound
    assert coverage(clustered=False, tasks_=50, replicates=8, seed=1) < COVERED - bound
    assert abs(coverage(clustered=False, tasks_=200, replicates=1, seed=2) - COVERED) < bound


@pytest.fixture(scope="module")
def gates() -> list[Pairs]:
    return [world(1000 + seed, 80) for seed in range(120)]


@pytest.mark.parametrize("name", BY_NAME)
def test_intervals_of_every_estimator_cover_planted_contributions(name: str, gates: list[Pairs]) -> None:
    truth = np.array([0.3, 0.1, 0.0, -0.2])
    found = [BY_NAME[name](pairs) for pairs in gates]
    share = float(np.mean([(got.low_J <= truth) & (truth <= got.high_J) for got in found]))
    bound = FOUR_SIGMA * math.sqrt(COVERED * (1 - COVERED) / len(gates))
    assert abs(share - COVERED) < bound
    shifted = float(np.mean([(got.low_J <= truth + 0.3) & (truth + 0.3 <= got.high_J) for got in found]))
    assert shifted < COVERED - bound


def test_a_large_gate_is_fitted_in_well_under_a_second() -> None:
    rng = np.random.default_rng(0)
    design = (rng.random((10_000, 64)) < 0.5).astype(float)
    names, rows = [f"c{j}" for j in range(64)], [f"t{i}" for i in range(10_000)]
    start = time.process_time()
    least_squares(factorize(design, names, rows), rng.normal(size=10_000))
    assert time.process_time() - start < 2.0  # about 0.3 s alone; the bound leaves room for a busy machine


def test_masked_ols_never_reads_a_bare_reward() -> None:
    pairs = world(4)
    assert fit(pairs.masked_only, "masked_ols").beta_J.tolist() == fit(pairs, "masked_ols").beta_J.tolist()
    assert not hasattr(pairs.masked_only, "bare_N")
    with pytest.raises(ConfigError, match="ancova needs bare runs, and these rows have none; use masked_ols"):
        fit(pairs.masked_only, "ancova")


def test_fit_finds_every_estimator_by_name_and_refuses_others() -> None:
    pairs = world(4)
    for name in ESTIMATORS:
        known = {"ease": EASE} if name == "covariate" else None
        assert fit(pairs, name, known=known).estimator == name
    assert fit(pairs).estimator == "paired_ols"
    with pytest.raises(ConfigError, match="unknown estimator 'lasso'; choose one of paired_ols, "):
        fit(pairs, "lasso")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="go with covariate, and only with it, got ancova"):
        fit(pairs, "ancova", known={"ease": EASE})
    with pytest.raises(ConfigError, match="go with covariate, and only with it, got covariate"):
        fit(pairs, "covariate")


def test_history_is_the_mean_over_earlier_rounds_each_less_its_own_mean() -> None:
    found = history([{"a": 0.0, "b": 1.0}, {}, {"a": 0.5, "b": 0.7, "c": 0.9}])
    assert found == pytest.approx({"a": (-0.5 - 0.2) / 2, "b": (0.5 + 0.0) / 2, "c": 0.2})
    assert history([]) == {}


def test_a_task_without_history_gets_the_mean_of_the_others_and_is_named() -> None:
    pairs = world(6)
    partial = {task: value for task, value in EASE.items() if task not in ("task-0003", "task-0004")}
    got = covariate(pairs, {"history": partial})
    assert got.notes == ("history is unknown for tasks 2: task-0003, task-0004; the mean of the others stands in",)
    assert got.nuisance == ("intercept", "history", "bare")
    here = [value for task, value in partial.items() if task in pairs.task_ids]
    filled = {**partial, "task-0003": float(np.mean(here)), "task-0004": float(np.mean(here))}
    np.testing.assert_allclose(got.se_J, covariate(pairs, {"history": filled}).se_J, RTOL)
    assert not np.allclose(got.se_J, covariate(pairs, {"history": EASE}).se_J, RTOL)


def test_a_column_that_says_nothing_is_left_out_and_named() -> None:
    pairs = world(6)
    got = covariate(pairs.masked_only, {"history": {}, "family": dict.fromkeys(EASE, 2.0)})
    assert got.notes == ("history is known for no task and left out", "family is constant and left out")
    np.testing.assert_allclose(got.se_J, fit(pairs.masked_only, "masked_ols").se_J, RTOL)


def test_columns_that_cannot_be_used_are_refused_by_name() -> None:
    pairs = world(6)
    with pytest.raises(ConfigError, match="history is not finite for tasks 1: task-0002; leave these tasks out"):
        covariate(pairs, {"history": {**EASE, "task-0002": math.nan}})
    with pytest.raises(ConfigError, match="columns with a name of the design, 1: bare; rename"):
        covariate(pairs, {"bare": EASE})
    with pytest.raises(RankDeficientError, match="cannot separate these chunks, 2: ease, hardness"):
        covariate(pairs, {"ease": EASE, "hardness": {task: -value for task, value in EASE.items()}})


def constant(bare: float | None, masked: float | None) -> Pairs:
    plan = plan_masks(skill("ab"), [], tasks(30), Design(), seed=0, round_index=0)
    b = [scored(t, math.sin(i) if bare is None else bare) for i, t in enumerate(plan)]
    m = [scored(t, math.cos(i) if masked is None else masked, plan[t][0]) for i, t in enumerate(plan)]
    return pair(b, m, plan, ids("ab"))


def test_equal_rewards_are_refused_by_name() -> None:
    same = constant(None, None)
    same = replace(same, masked_parts=same.bare_parts, masked_N=same.bare_N, delta_N=0.0 * same.delta_N)
    with pytest.raises(NoVariationError, match="all 30 differences R − B are 0"):
        fit(same, "ancova")
    with pytest.raises(NoVariationError, match="all 30 differences R − B are 0: every masked run earned what"):
        fit(constant(0.5, 0.5))
    with pytest.raises(NoVariationError, match="all 30 outcomes equal 0.5, so nothing says how uncertain"):
        fit(constant(None, 0.5).masked_only, "masked_ols")
    with pytest.raises(NoVariationError, match="all 30 outcomes equal 0.5"):
        fit(constant(0.0, 0.5), "paired_ols_intercept")
    assert fit(constant(0.0, 0.5)).residual_sd > 0
    unadjusted, masked = fit(constant(0.0, None), "ancova"), fit(constant(0.0, None), "masked_ols")
    assert unadjusted.beta_J.tolist() == masked.beta_J.tolist() and unadjusted.se_J.tolist() == masked.se_J.tolist()
    assert unadjusted.notes == ("bare is constant and left out for 2: r_half, r_strict",)
    assert covariate(constant(0.0, None), {"ease": EASE}).notes == (
        "bare is constant and left out for 2: r_half, r_strict",
    )


def test_what_rows_cannot_separate_is_refused_by_name() -> None:
    shown = {t.id: (frozenset(ids("ab") if i % 2 else ()),) for i, t in enumerate(tasks(20))}
    every = {t.id: (frozenset(ids("a" if i % 2 else "ab")),) for i, t in enumerate(tasks(20))}
    for plan, estimator, names in (
        (shown, "paired_ols", ids("ab")),
        (every, "paired_ols_intercept", (ids("a")[0], "intercept")),
    ):
        bare, masked = [scored(t, 0.0) for t in plan], [scored(t, EASE[t], plan[t][0]) for t in plan]
        rows = pair(bare, masked, plan, ids("ab"))
        with pytest.raises(RankDeficientError, match=f"cannot separate these chunks, 2: {names[0]}, {names[1]};"):
            fit(rows, estimator)
    with pytest.raises(RankDeficientError, match="16 rows of 4 tasks cannot give 4 contributions a standard error"):
        fit(world(0, 4, replicates=4))


def test_entries_can_be_taken_out_of_contributions_without_another_fit() -> None:
    full = fit(world(1))
    less = full.without(ids("bd"))
    assert less.chunk_ids == ids("ac") and less.se_J.tolist() == full.se_J[[0, 2]].tolist()
    assert less.covariance_JJ is not None and full.covariance_JJ is not None
    assert less.covariance_JJ.tolist() == full.covariance_JJ[np.ix_([0, 2], [0, 2])].tolist()
    assert less.parts["r_square"][0].tolist() == full.parts["r_square"][0][[0, 2]].tolist()
    assert less.rank == full.rank
    with pytest.raises(EditError, match="no contribution of these chunks was estimated, 1: nothing"):
        full.without(["nothing"])


def test_contributions_of_every_estimator_survive_their_file() -> None:
    for estimate in BY_NAME.values():
        got = estimate(world(1))
        again = from_json(Contributions, json.loads(json.dumps(to_json(got))))
        assert again.covariance_JJ is not None and got.covariance_JJ is not None
        assert again.covariance_JJ.tolist() == got.covariance_JJ.tolist()
        assert (again.estimator, again.nuisance, again.degrees) == (got.estimator, got.nuisance, got.degrees)
    old = {key: value for key, value in to_json(fit(world(1))).items() if key not in ("estimator", "degrees")}
    assert from_json(Contributions, {**old, "covariance_JJ": None}).estimator == "paired_ols"
