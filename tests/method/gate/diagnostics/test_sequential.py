"""Sequential gates: what looking costs, with and without an always-valid boundary, on real fits and on paths."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from method_records import ids, pairs_of

from intraskill.method.errors import ConfigError, PairingError
from intraskill.method.gate.diagnostics.sequential import (
    Call,
    Look,
    SequentialRule,
    call_of,
    look,
    mixture_half_width,
    spending_bounds,
    spent,
)
from intraskill.method.gate.estimators import fit
from intraskill.method.gate.power import GateDesign, standard_errors
from intraskill.method.gate.regression import Contributions

NOMINAL = 0.05
LOOKS = 40
PATHS = 4000
GATES = 60
RULE = SequentialRule(planned_pairs=400, max_pairs=800, batch=100, tight_se=0.04, negligible=0.1)


def fitted(pairs: int, effects: Sequence[float], *, noise: float = 0.3, seed: int = 0) -> Contributions:
    """The gate's own fit of the first ``pairs`` rows of one stream."""
    rng = np.random.default_rng(seed)
    design_NJ = rng.random((2000, len(effects))) < 0.5
    delta_N = design_NJ @ np.array(effects) + rng.normal(size=2000) * noise
    return fit(pairs_of(design_NJ[:pairs].tolist(), delta_N[:pairs].tolist(), "abc"[: len(effects)]))


def test_the_boundary_is_robbins_normal_mixture() -> None:
    se, tight, error = 0.05, 0.04, 0.05
    strength = 2 * math.log(1 / error)
    g2 = (strength + math.log(1 + strength) + 1) / (1 / tight**2)
    information = 1 / se**2
    expected = se * math.sqrt((1 + 1 / (g2 * information)) * (math.log(1 + g2 * information) + strength))
    got = mixture_half_width(np.array([se]), tight_se=tight, error=error)[0]
    assert got == pytest.approx(expected)
    assert got != pytest.approx(1.96 * se, rel=0.2)


def test_the_boundary_is_narrowest_where_it_was_told_to_be() -> None:
    se_J = 0.04 * np.array([4.0, 2.0, 1.3, 1.0, 0.8, 0.5, 0.25])
    factor_J = mixture_half_width(se_J, tight_se=0.04, error=NOMINAL) / se_J
    assert int(factor_J.argmin()) == 3
    assert factor_J[3] == pytest.approx(3.03, abs=0.01)
    assert mixture_half_width(np.zeros(1), tight_se=0.04, error=NOMINAL) == pytest.approx(np.zeros(1))


def test_looking_at_every_batch_keeps_the_error_where_repeated_tests_do_not() -> None:
    rng = np.random.default_rng(1)
    information_L = np.arange(1, LOOKS + 1) / 0.08**2
    walk_PL = np.cumsum(rng.normal(size=(PATHS, LOOKS)) / 0.08, axis=1)
    value_PL, se_L = walk_PL / information_L, information_L**-0.5
    always = np.any(np.abs(value_PL) > mixture_half_width(se_L, tight_se=0.02, error=NOMINAL), axis=1).mean()
    repeated = np.any(np.abs(value_PL) > 1.96 * se_L, axis=1).mean()
    planned_L = np.array(spending_bounds(tuple(range(1, LOOKS + 1)), NOMINAL)) * se_L
    assert np.any(np.abs(value_PL) > planned_L, axis=1).mean() == pytest.approx(NOMINAL, abs=0.012)
    assert always <= NOMINAL
    assert repeated > 5 * NOMINAL
    once = np.mean(np.abs(value_PL[:, -1]) > 1.96 * se_L[-1])
    assert once == pytest.approx(NOMINAL, abs=0.012)


@pytest.mark.slow
def test_real_fits_of_growing_gates_keep_the_error_too() -> None:
    rule = SequentialRule(planned_pairs=300, max_pairs=300, batch=60, tight_se=0.05, first_look=60)
    wrong = naive = 0
    for seed in range(GATES):
        state, peeked = Look(), np.zeros(3, dtype=bool)
        for pairs in rule.looks():
            found = fitted(pairs, (0.0, 0.0, 0.0), seed=seed)
            state = look(state, found, rule)
            peeked |= (found.low_J > 0) | (found.high_J < 0)
        wrong, naive = wrong + len(state.calls), naive + int(peeked.sum())
    assert wrong <= NOMINAL * 3 * GATES
    assert naive > NOMINAL * 3 * GATES


def test_a_clear_gate_stops_early_and_says_what_it_saved() -> None:
    effects = (0.4, -0.4, 0.0)
    state = Look()
    for pairs in RULE.looks():
        state = look(state, fitted(pairs, effects), RULE)
        if state.stops(RULE):
            break
    a, b, c = ids("abc")
    assert state.calls == {a: Call.HELPS, b: Call.HARMS, c: Call.TOO_SMALL}
    assert state.pairs == state.decided_at[c] < RULE.max_pairs
    assert state.decided_at[a] == 100
    assert state.saved(RULE) == 400 - state.pairs
    assert state.words(RULE).endswith("3 chunks decided, every chunk decided")
    assert f"{state.pairs:,} pairs" in state.words(RULE)


def test_an_undecided_gate_ends_with_its_budget() -> None:
    rule = SequentialRule(planned_pairs=150, max_pairs=225, batch=50, tight_se=0.04)
    assert rule.looks() == (100, 150, 200, 225)
    state = Look()
    for pairs in rule.looks():
        assert not state.stops(rule)
        state = look(state, fitted(pairs, (0.01, 0.0, 0.0)), rule)
    assert state.stops(rule) and len(state.undecided) == 3
    assert state.saved(rule) == -75
    assert "75 more than planned" in state.words(rule)


def test_a_call_stands_even_if_later_intervals_would_not_make_it() -> None:
    clear, faint = fitted(200, (0.4, 0.0, 0.0)), fitted(400, (0.0, 0.0, 0.0), seed=2)
    state = look(look(Look(), clear, RULE), faint, RULE)
    assert state.calls[ids("a")[0]] is Call.HELPS
    half = RULE.half_width(faint.se_J, 2)[0]
    assert call_of(faint.beta_J[0] - half, faint.beta_J[0] + half, RULE.negligible) is not Call.HELPS


@pytest.mark.parametrize(
    ("low", "high", "call"),
    [
        (0.01, 0.3, Call.HELPS),
        (-0.3, -0.01, Call.HARMS),
        (-0.05, 0.05, Call.TOO_SMALL),
        (-0.4, 0.05, Call.TOO_SMALL),
        (-0.05, 0.2, None),
    ],
)
def test_an_interval_decides_when_it_leaves_no_choice(low: float, high: float, call: Call | None) -> None:
    assert call_of(low, high, 0.1) is call
    assert call_of(-0.05, 0.05, None) is None


def test_looks_at_other_pairs_or_another_pool_are_refused() -> None:
    first = look(Look(), fitted(200, (0.1, 0.0)), RULE)
    with pytest.raises(PairingError, match="more pairs than the 200 of the look before, got 200"):
        look(first, fitted(200, (0.1, 0.0)), RULE)
    with pytest.raises(PairingError, match="the pool changed"):
        look(first, fitted(300, (0.1, 0.0, 0.0)), RULE)


@pytest.mark.parametrize(
    "change",
    [{"batch": 0}, {"tight_se": 0.0}, {"negligible": -0.1}, {"error": 0.0}, {"max_pairs": 0}, {"boundary": "peek"}],
)
def test_impossible_rules_are_refused(change: dict[str, object]) -> None:
    valid: dict[str, object] = {"planned_pairs": 400, "max_pairs": 800, "batch": 100, "tight_se": 0.04}
    with pytest.raises(ConfigError, match=r"sequential gate|positive rewards|unknown boundary"):
        SequentialRule(**{**valid, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pairs", "batch", "expected"),
    [(101, 50, (101,)), (124, 50, (124,)), (125, 50, (100, 125)), (170, 50, (100, 170)), (202, 100, (100, 202))],
)
def test_a_remainder_below_half_a_batch_belongs_to_the_last_look(
    pairs: int, batch: int, expected: tuple[int, ...]
) -> None:
    rule = SequentialRule(planned_pairs=pairs, max_pairs=pairs, batch=batch, tight_se=0.04, boundary="spending")
    assert rule.looks() == expected


def test_the_planner_s_standard_error_is_a_sensible_scale() -> None:
    half_way = float(standard_errors(GateDesign(12, 400, 0.44))[0])
    width = mixture_half_width(np.array([half_way]), tight_se=half_way, error=NOMINAL)[0]
    assert (
        width / half_way < mixture_half_width(np.array([half_way]), tight_se=half_way / 5, error=NOMINAL)[0] / half_way
    )


def test_the_spending_bounds_are_the_tabulated_ones() -> None:
    """Five equal looks at a two-sided 5 %: the O'Brien–Fleming-type bounds that every table of them prints."""
    expected = (4.8769, 3.3569, 2.6803, 2.2898, 2.0310)
    assert spending_bounds((20, 40, 60, 80, 100), NOMINAL) == pytest.approx(expected, abs=2e-4)
    assert spending_bounds((20, 40, 60, 80, 100), 0.04) != pytest.approx(expected, abs=2e-2)
    assert spending_bounds((400,), NOMINAL) == pytest.approx((1.95996,), abs=1e-4)
    assert spent(1.0, NOMINAL) == pytest.approx(NOMINAL)


def test_planned_looks_decide_with_narrower_intervals_at_the_end_and_only_when_planned() -> None:
    rule = replace(RULE, boundary="spending", max_pairs=200)
    assert rule.looks() == (100, 200)
    one_J = np.array([0.03])
    assert 1.96 * 0.03 < rule.half_width(one_J, 2)[0] < RULE.half_width(one_J, 2)[0]
    assert rule.half_width(one_J, 1)[0] > 1.3 * rule.half_width(one_J, 2)[0]
    state = look(look(Look(), fitted(100, (0.15, 0.0)), rule), fitted(200, (0.15, 0.0)), rule)
    assert state.calls[ids("a")[0]] is Call.HELPS and state.number == 2
    with pytest.raises(ConfigError, match="look 3 of 2 planned ones"):
        look(state, fitted(300, (0.15, 0.0)), rule)


@pytest.mark.parametrize("looks", [(), (0, 5), (10, 10), (20, 10)])
def test_looks_that_do_not_grow_are_refused(looks: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="planned looks must grow"):
        spending_bounds(looks, NOMINAL)
    with pytest.raises(ConfigError, match="strictly between 0 and 1"):
        spending_bounds((10,), 1.0)
