"""Shrinkage against brute-force integration, and whether its probabilities mean what they say."""

from dataclasses import replace

import numpy as np
import pytest
from method_records import contributions
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from intraskill.method.errors import ConfigError
from intraskill.method.gate.power import GateDesign, promised_covariance
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.shrinkage import (
    COMMON_MEAN,
    Evidence,
    Shrinkage,
    carry_over,
    coefficient_covariance,
    shrink,
)

INTEGRATION = 0.005
"""48 grid points against adaptive quadrature."""
CALIBRATION = 0.04
"""Tolerated difference between a stated probability and the share that holds; its standard error is below 0.01."""
MOSTLY_HARMFUL = 0.1
"""A pool that mostly harms has few chunks above the threshold, and a mean that the prior shrinks towards 0."""
PUBLISHED = promised_covariance(GateDesign(12, 400, 0.44))
Matrix = NDArray[np.float64]


def measured(beta: dict[str, float], se: float = 0.04, covariance_JJ: Matrix | None = None) -> Contributions:
    return replace(contributions(beta), se_J=np.full(len(beta), se), covariance_JJ=covariance_JJ)


def drawn(alpha_RJ: Matrix, covariance_JJ: Matrix, seed: int = 0) -> Matrix:
    root_JJ = np.linalg.cholesky(covariance_JJ)
    return alpha_RJ + np.random.default_rng(seed).normal(size=alpha_RJ.shape) @ root_JJ.T


def test_the_grid_is_the_integral_of_the_stated_model() -> None:
    value_J = np.array([0.11, 0.02, -0.05])
    noise_JJ = np.array([[16.0, -4.0, 0.0], [-4.0, 16.0, 2.0], [0.0, 2.0, 9.0]]) * 1e-4
    typical = 3 / np.sum(1 / np.diag(noise_JJ))

    def at(kept: float) -> tuple[float, float]:
        prior_JJ = typical * (1 - kept) / kept * (np.eye(3) + COMMON_MEAN)
        total_JJ = prior_JJ + noise_JJ
        gain_JJ = prior_JJ @ np.linalg.inv(total_JJ)
        sd = np.sqrt((prior_JJ - gain_JJ @ prior_JJ)[0, 0])
        weight = multivariate_normal(np.zeros(3), total_JJ).pdf(value_J)
        return weight, weight * norm.cdf((gain_JJ @ value_J)[0] / sd)

    evidence, joint = (quad(lambda kept, i=i: at(kept)[i], 1e-6, 1 - 1e-6)[0] for i in (0, 1))
    got = Shrinkage(noise_JJ).posterior(value_J)
    assert got.probability_J[0] == pytest.approx(joint / evidence, abs=INTEGRATION)
    assert norm.cdf(0.11 / 0.04) != pytest.approx(joint / evidence, abs=INTEGRATION)


def test_many_gates_at_once_are_many_gates() -> None:
    value_RJ = drawn(np.full((5, 12), 0.02), PUBLISHED)
    shrinkage = Shrinkage(PUBLISHED)
    probability_RJ, mean_RJ = shrinkage.probabilities(value_RJ)
    singles = [shrinkage.posterior(value_J) for value_J in value_RJ]
    assert probability_RJ == pytest.approx(np.array([one.probability_J for one in singles]))
    assert mean_RJ == pytest.approx(np.array([one.mean_J for one in singles]))
    one_J = np.eye(12)[3]
    assert singles[0].probability_positive(one_J) == pytest.approx(singles[0].probability_J[3])
    assert singles[0].probability_positive(-one_J) == pytest.approx(1 - singles[0].probability_J[3])


def test_a_useless_pool_is_left_alone_where_a_plugged_in_prior_admits_it_on_a_coin() -> None:
    value_RJ = drawn(np.zeros((2000, 12)), PUBLISHED)
    assert np.mean(Shrinkage(PUBLISHED).probabilities(value_RJ)[0] >= 0.8) < 0.05
    mean_R = value_RJ.mean(axis=1, keepdims=True)
    spread_R = np.maximum(value_RJ.var(axis=1, ddof=1, keepdims=True) - PUBLISHED[0, 0] + PUBLISHED[0, 1], 0.0)
    kept_R = spread_R / (spread_R + PUBLISHED[0, 0])
    plugged_sd = np.sqrt(kept_R * PUBLISHED[0, 0]) + 1e-9
    plugged = norm.cdf((kept_R * value_RJ + (1 - kept_R) * mean_R) / plugged_sd)
    assert np.mean(plugged >= 0.8) > 0.25


@pytest.mark.parametrize(("mean", "spread"), [(0.0, 0.04), (0.03, 0.03), (0.05, 0.05), (-0.02, 0.03)])
def test_a_stated_probability_is_the_share_that_holds(mean: float, spread: float) -> None:
    alpha_RJ = np.random.default_rng(1).normal(mean, spread, (3000, 12))
    value_RJ = drawn(alpha_RJ, PUBLISHED, seed=2)
    probability_RJ, _ = Shrinkage(PUBLISHED).probabilities(value_RJ)
    unshrunk_RJ = norm.cdf(value_RJ / np.sqrt(PUBLISHED[0, 0]))

    def gaps(stated_RJ: Matrix) -> list[float]:
        bins = [(stated_RJ >= low) & (stated_RJ < low + 0.2) for low in (0.0, 0.2, 0.4, 0.6, 0.8)]
        return [abs(float(np.mean(alpha_RJ[one] > 0) - stated_RJ[one].mean())) for one in bins if one.sum() > 1000]

    assert max(gaps(unshrunk_RJ)) > CALIBRATION
    assert max(gaps(probability_RJ)) < max(gaps(unshrunk_RJ)) / 2
    admitted_RJ, sure_RJ = probability_RJ >= 0.8, unshrunk_RJ >= 0.8
    assert np.mean(alpha_RJ[admitted_RJ] > 0) > np.mean(probability_RJ[admitted_RJ]) - MOSTLY_HARMFUL
    if mean < 0.0:
        assert np.mean(alpha_RJ[sure_RJ] > 0) < np.mean(unshrunk_RJ[sure_RJ]) - 2 * MOSTLY_HARMFUL


def test_shrunk_values_are_nearer_to_the_truth_than_measured_ones() -> None:
    alpha_RJ = np.random.default_rng(4).normal(0.02, 0.03, (2000, 12))
    value_RJ = drawn(alpha_RJ, PUBLISHED, seed=5)
    _, mean_RJ = Shrinkage(PUBLISHED).probabilities(value_RJ)
    assert np.mean(np.square(mean_RJ - alpha_RJ)) < 0.5 * np.mean(np.square(value_RJ - alpha_RJ))


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_small_pools_are_shrunk_sanely(count: int) -> None:
    clear = shrink(measured({f"c{i}": 0.2 for i in range(count)}))
    assert np.all(clear.probability_J > 0.98)
    assert np.all((clear.mean_J > 0.1) & (clear.mean_J < 0.2))
    nothing = shrink(measured({f"c{i}": 0.0 for i in range(count)}))
    assert nothing.probability_J == pytest.approx(np.full(count, 0.5))


def test_a_chunk_without_noise_keeps_its_sign() -> None:
    got = shrink(measured({"a": 0.1, "b": -0.1}, se=0.0))
    assert got.probability_J == pytest.approx([1.0, 0.0], abs=1e-6)
    assert got.mean_J == pytest.approx([0.1, -0.1], rel=0.02)


def test_neglecting_the_correlation_is_the_cautious_side() -> None:
    alpha_RJ = np.random.default_rng(6).normal(0.03, 0.03, (1000, 12))
    value_RJ = drawn(alpha_RJ, PUBLISHED, seed=7)
    joint_RJ, _ = Shrinkage(PUBLISHED).probabilities(value_RJ)
    apart_RJ, _ = Shrinkage(np.diag(np.diag(PUBLISHED))).probabilities(value_RJ)
    admitted = [float(np.mean(p >= 0.8)) for p in (joint_RJ, apart_RJ)]
    wrong = [float(np.mean(alpha_RJ[p >= 0.8] < 0)) for p in (joint_RJ, apart_RJ)]
    assert 0.0 < admitted[0] - admitted[1] < 0.25
    assert wrong[1] <= wrong[0]


def test_the_covariance_of_the_fit_is_used_when_the_record_has_it() -> None:
    beta = {"a": 0.05, "b": 0.02}
    joint_JJ = np.array([[16.0, -12.0], [-12.0, 16.0]]) * 1e-4
    assert coefficient_covariance(measured(beta))[1] is False
    covariance_JJ, known = coefficient_covariance(measured(beta, covariance_JJ=joint_JJ))
    assert known and covariance_JJ == pytest.approx(joint_JJ)
    difference_J = np.array([1.0, -1.0])
    apart, joint = (shrink(measured(beta, covariance_JJ=given)) for given in (None, joint_JJ))
    assert abs(joint.probability_positive(difference_J) - 0.5) < abs(apart.probability_positive(difference_J) - 0.5)


def test_earlier_rounds_count_less_the_older_they_are() -> None:
    rounds = [measured({"a": 0.10, "b": 0.0}), measured({"a": 0.04})]
    got = carry_over(rounds, 0.5)
    weight = 1 / 0.04**2
    older, newer = 0.25 * weight, 0.5 * weight
    assert got["a"].value == pytest.approx((older * 0.10 + newer * 0.04) / (older + newer))
    assert got["a"].se == pytest.approx((older + newer) ** -0.5)
    assert got["b"].se == pytest.approx(older**-0.5)
    assert got["a"].value != pytest.approx(0.07)
    assert carry_over(rounds, 0.0) == {}


def test_equal_evidence_halves_the_variance() -> None:
    now = measured({"a": 0.06, "b": 0.01})
    twice = shrink(now, {"a": Evidence(0.06, 0.04), "b": Evidence(0.01, 0.04), "gone": Evidence(1.0, 0.1)})
    sharper = shrink(measured({"a": 0.06, "b": 0.01}, se=0.04 / np.sqrt(2)))
    assert twice.mean_J == pytest.approx(sharper.mean_J)
    assert twice.probability_J == pytest.approx(sharper.probability_J)
    assert twice.probability_J[0] > shrink(now).probability_J[0]


def test_a_selected_chunk_s_carried_evidence_is_not_read_twice_as_luck() -> None:
    rng = np.random.default_rng(8)
    noise_JJ = PUBLISHED
    stated, held, naive = [], [], []
    for seed in range(150):
        alpha_J = rng.normal(0.0, 0.03, 12)
        first_J, second_J = drawn(np.array([alpha_J, alpha_J]), noise_JJ, seed=seed)
        names = [f"c{i}" for i in range(12)]
        earlier = carry_over([measured(dict(zip(names, first_J, strict=True)), noise_JJ[0, 0] ** 0.5)], 0.99)
        got = shrink(measured(dict(zip(names, second_J, strict=True)), covariance_JJ=noise_JJ), earlier)
        chosen = first_J > 0.0
        stated += got.probability_J[chosen].tolist()
        held += (alpha_J[chosen] > 0).tolist()
        naive += norm.cdf(first_J[chosen] / noise_JJ[0, 0] ** 0.5).tolist()
    assert np.mean(stated) == pytest.approx(np.mean(held), abs=CALIBRATION)
    assert np.mean(naive) != pytest.approx(np.mean(held), abs=CALIBRATION)


def test_impossible_discounts_and_evidence_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"must lie in \[0, 1\), got 1.0"):
        carry_over([], 1.0)
    with pytest.raises(ConfigError, match="without a positive standard error, 1: a"):
        shrink(measured({"a": 0.1}), {"a": Evidence(0.1, 0.0)})
