"""Benjamini–Hochberg against its definition, another implementation, and the rate that it promises."""

import numpy as np
import pytest
from scipy.stats import t
from statsmodels.stats.multitest import multipletests

from intraskill.method.gate.judges import discoveries, one_sided_p
from intraskill.method.gate.power import GateDesign, promised_covariance, standard_errors


def test_the_rejections_are_those_of_statsmodels() -> None:
    rng = np.random.default_rng(0)
    for rate in (0.05, 0.1, 0.3):
        p_RJ = rng.beta(0.4, 1.0, size=(40, 12))
        expected = [multipletests(p_J, rate, method="fdr_bh")[0] for p_J in p_RJ]
        assert np.array_equal(discoveries(p_RJ, rate), expected)
        assert not np.array_equal(p_RJ <= rate, expected)
    assert discoveries(np.zeros(0), 0.1).shape == (0,)


def test_one_sided_p_values_are_student_s() -> None:
    value_J, se_J = np.array([0.1, 0.0, -0.1]), np.array([0.05, 0.05, 0.05])
    assert one_sided_p(value_J, se_J, 17) == pytest.approx(t.sf(value_J / se_J, 17))
    assert one_sided_p(np.array([0.1, -0.1, 0.0]), np.zeros(3), 5).tolist() == [0.0, 1.0, 1.0]


def test_the_rate_holds_with_the_correlations_that_masks_make() -> None:
    design = GateDesign(12, 400, 0.44, slots=((1, 1), (1, 1)))
    alpha_J = np.array([0.0, 0.0, 0.1, 0.0, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, -0.05])
    root_JJ = np.linalg.cholesky(promised_covariance(design))
    value_RJ = alpha_J + np.random.default_rng(1).normal(size=(6000, 12)) @ root_JJ.T
    p_RJ = one_sided_p(value_RJ, standard_errors(design), 388)

    def false_share(found_RJ: np.ndarray) -> float:
        return float(np.mean((found_RJ & (alpha_J <= 0)).sum(axis=1) / np.maximum(found_RJ.sum(axis=1), 1)))

    assert false_share(discoveries(p_RJ, 0.1)) <= 0.1
    assert false_share(p_RJ <= 0.1) > 0.1
