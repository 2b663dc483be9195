"""The winner's curse: from the published numbers, from simulated rounds, and by hand."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from method_records import contributions

from intraskill.method.errors import EditError
from intraskill.method.gate.diagnostics.remeasure import MeasuredRound, remeasurements, winners_curse
from intraskill.method.gate.regression import Contributions

PUBLISHED_FALL = 0.006
"""The published mean of 20 re-measured incumbents has a standard error of about 0.035 / √20 = 0.008."""

SE, OVERLAP, REPEATS, FOUR_SIGMA = 0.035, 0.1, 400, 4.0


def measured(beta: dict[str, float], se: float = 0.035) -> Contributions:
    return replace(contributions(beta), se_J=np.full(len(beta), se))


def test_shrinkage_predicts_the_published_fall_of_selected_chunks() -> None:
    """52 coefficients of mean 0.002 and SD 0.034 with errors as large; the 20 best came back at +0.003."""
    z = np.array([NormalDist().inv_cdf((rank + 0.5) / 52) for rank in range(52)])
    value_J = 0.002 + 0.034 * z / z.std(ddof=1)
    beta = {f"c{i:02d}": float(value) for i, value in enumerate(value_J)}
    best = tuple(sorted(beta, key=lambda chunk_id: -beta[chunk_id])[1:21])
    again = measured(dict.fromkeys(best, 0.003))
    rows = remeasurements([MeasuredRound(0, measured(beta), best), MeasuredRound(1, again, ())])
    found = winners_curse(rows)
    assert found is not None and found.count == 20
    assert found.at_selection[0] == pytest.approx(0.031, abs=0.003)
    assert found.remeasured[0] == pytest.approx(0.003)
    assert found.shrunk[0] == pytest.approx(0.003, abs=PUBLISHED_FALL)
    assert found.at_selection[0] != pytest.approx(0.003, abs=2 * PUBLISHED_FALL)
    fall, surprise = (found.remeasured[0] - mean for mean, _ in (found.at_selection, found.shrunk))
    assert abs(surprise) < PUBLISHED_FALL < abs(fall)
    assert found.words().startswith("20 incumbents measured again one round later: +0.03")


def test_the_fall_of_useless_chunks_is_predicted_and_real_ones_do_not_surprise() -> None:
    for spread in (0.0, 0.05):
        rng = np.random.default_rng(1)
        rows = []
        for number in range(60):
            alpha_J = rng.normal(0.0, spread, 12) if spread else np.zeros(12)
            first, second = (
                measured({f"c{j}": float(v) for j, v in enumerate(alpha_J + rng.normal(0, 0.035, 12))})
                for _ in range(2)
            )
            kept = tuple(chunk_id for chunk_id, value in first.by_chunk.items() if value > 0)
            rows += remeasurements([MeasuredRound(number, first, kept), MeasuredRound(number + 1, second, ())])
        found = winners_curse(rows)
        assert found is not None
        fall, surprise = (found.remeasured[0] - mean for mean, _ in (found.at_selection, found.shrunk))
        assert abs(surprise) < abs(fall) / 2
        assert fall < -0.009
        assert abs(fall) > 3 * np.hypot(found.remeasured[1], found.at_selection[1])


def test_a_row_pairs_a_chunk_s_two_measurements_and_skips_what_was_not_measured_again() -> None:
    before = measured({"a": 0.05, "b": 0.02, "c": -0.01}, se=0.02)
    after = measured({"b": 0.01, "a": 0.03, "d": 0.2}, se=0.04)
    rows = remeasurements([MeasuredRound(4, before, ("a", "b")), MeasuredRound(5, after, ("d",))])
    assert [(row.chunk_id, row.selected_in, row.at_selection, row.remeasured) for row in rows] == [
        ("a", 4, 0.05, 0.03),
        ("b", 4, 0.02, 0.01),
    ]
    assert (rows[0].se_at_selection, rows[0].se_remeasured) == (0.02, 0.04)
    assert 0.0 < rows[0].shrunk < 0.05
    found = winners_curse(rows)
    assert found is not None
    assert found.at_selection == (pytest.approx(0.035), pytest.approx(0.02 * 2**-0.5))
    assert found.remeasured == (pytest.approx(0.02), pytest.approx(0.04 * 2**-0.5))
    gone = measured({"d": 0.2})
    assert remeasurements([MeasuredRound(4, before, ("a",)), MeasuredRound(5, gone, ("d",))]) == ()


def test_one_round_has_nothing_to_compare() -> None:
    assert remeasurements([MeasuredRound(0, measured({"a": 0.1}), ("a",))]) == ()
    assert winners_curse([]) is None


def test_a_kept_chunk_that_was_not_measured_is_refused() -> None:
    rounds = [MeasuredRound(0, measured({"a": 0.1}), ("a", "x")), MeasuredRound(1, measured({"a": 0.1}), ())]
    with pytest.raises(EditError, match="round 0 kept chunks that it had not measured, 1: x"):
        remeasurements(rounds)


def test_the_errors_of_one_gate_are_not_independent_and_their_standard_errors_say_so() -> None:
    """Simulated: 6 useless chunks measured in 4 gates with negatively correlated errors, all kept every time."""
    names = [f"c{j}" for j in range(6)]
    joint_JJ = SE**2 * ((1.0 + OVERLAP) * np.eye(6) - OVERLAP)
    assert np.linalg.eigvalsh(joint_JJ).min() > 0.0
    rng = np.random.default_rng(3)
    thens, nows, found, independent = [], [], None, None
    for _ in range(REPEATS):
        noise_RJ = rng.multivariate_normal(np.zeros(6), joint_JJ, 4)
        gates = [
            MeasuredRound(
                t, replace(measured(dict(zip(names, row, strict=True)), SE), covariance_JJ=joint_JJ), tuple(names)
            )
            for t, row in enumerate(noise_RJ.tolist())
        ]
        rows = remeasurements(gates)
        found, independent = winners_curse(rows, gates), winners_curse(rows)
        assert found is not None and independent is not None
        thens.append(found.at_selection[0])
        nows.append(found.remeasured[0])
    assert found is not None and independent is not None
    for values, pair, wrong in (
        (thens, found.at_selection, independent.at_selection),
        (nows, found.remeasured, independent.remeasured),
    ):
        assert np.std(values) == pytest.approx(pair[1], rel=FOUR_SIGMA / (2 * REPEATS) ** 0.5)
        assert wrong[1] > 1.3 * pair[1]
    assert found.shrunk[1] < independent.shrunk[1]
