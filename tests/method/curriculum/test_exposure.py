"""Law 10 and the q controllers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from method_records import contributions, ids, skill

from intraskill.method.curriculum.exposure import ExposureRule, allocate_exposure, fixed_q, gap_q, linear_q
from intraskill.method.errors import ConfigError, EditError

RULE = ExposureRule(floor=0.2, ceiling=0.9, saturation=0.1)
BETA = st.floats(-1.0, 1.0)
SHARE = st.floats(0.0, 1.0)


def allocated(beta: dict[str, float]) -> dict[str, float]:
    by_id = {ids(name)[0]: value for name, value in beta.items()}
    return allocate_exposure(skill("".join(beta)), contributions(by_id), RULE)


@given(BETA, BETA, BETA)
def test_exposure_depends_on_a_chunk_s_own_contribution_only(own: float, one: float, other: float) -> None:
    assert allocated({"a": own, "b": one})[ids("a")[0]] == allocated({"a": own, "b": other})[ids("a")[0]]


@given(BETA, BETA)
def test_exposure_is_monotone_and_stays_between_floor_and_ceiling(low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert RULE.floor <= RULE.exposure(low) <= RULE.exposure(high) <= RULE.ceiling


def test_exposure_is_linear_up_to_saturation() -> None:
    assert RULE.exposure(-0.3) == RULE.exposure(0.0) == 0.2
    assert RULE.exposure(0.05) == pytest.approx(0.55)
    assert RULE.exposure(0.05) != pytest.approx(0.56)
    assert RULE.exposure(0.1) == RULE.exposure(7.0) == 0.9


def test_the_last_useless_chunk_goes_to_the_floor() -> None:
    assert allocated({"a": 0.0})[ids("a")[0]] == 0.2


def test_an_empty_skill_has_no_exposure() -> None:
    assert allocated({}) == {}


def test_an_unmeasured_chunk_is_refused() -> None:
    with pytest.raises(EditError, match="chunks without a contribution, 1: chunk-b"):
        allocate_exposure(skill("ab"), contributions({ids("a")[0]: 0.1}), RULE)


@pytest.mark.parametrize(("floor", "ceiling"), [(0.0, 0.9), (0.2, 1.0), (0.9, 0.2)])
def test_exposure_bounds_outside_the_open_interval_are_refused(floor: float, ceiling: float) -> None:
    with pytest.raises(ConfigError, match="0 < floor ≤ ceiling < 1"):
        ExposureRule(floor, ceiling, 0.1)
    with pytest.raises(ConfigError, match="0 < floor ≤ ceiling < 1"):
        gap_q(0.2, 0.5, 0.1, floor=floor, ceiling=ceiling, max_change=0.1)


def test_other_bad_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="saturation must be a positive reward"):
        ExposureRule(0.2, 0.9, 0.0)
    with pytest.raises(ConfigError, match="max_change must be positive"):
        gap_q(0.2, 0.5, 0.1, floor=0.1, ceiling=0.5, max_change=0.0)
    with pytest.raises(ConfigError, match="strictly between 0 and 1, got 0"):
        fixed_q(0.0)
    assert fixed_q(0.2) == 0.2


@given(SHARE, SHARE, st.floats(-1.0, 1.0), st.floats(0.01, 1.0))
def test_q_is_never_zero_stays_in_bounds_and_moves_slowly(
    previous: float, r_free: float, gap: float, max_change: float
) -> None:
    q = gap_q(previous, r_free, gap, floor=0.1, ceiling=0.6, max_change=max_change)
    assert 0.1 <= q <= 0.6
    if 0.1 <= previous <= 0.6:
        assert abs(q - previous) <= max_change + 1e-12


@given(st.floats(0.1, 0.6), SHARE, SHARE, st.floats(0.0, 1.0))
def test_q_rises_with_the_skill_free_reward_and_falls_with_the_gap(
    previous: float, one: float, other: float, gap: float
) -> None:
    low, high = sorted((one, other))
    bounds = {"floor": 0.1, "ceiling": 0.6, "max_change": 1.0}
    assert gap_q(previous, low, gap, **bounds) <= gap_q(previous, high, gap, **bounds) + 1e-12
    assert gap_q(previous, gap, high, **bounds) <= gap_q(previous, gap, low, **bounds) + 1e-12


def test_q_follows_the_share_that_the_model_earns_alone() -> None:
    bounds = {"floor": 0.1, "ceiling": 0.5, "max_change": 1.0}
    assert gap_q(0.2, 0.6, 0.2, **bounds) == pytest.approx(0.1 + 0.4 * 0.75)
    assert gap_q(0.2, 0.0, 0.4, **bounds) == pytest.approx(0.1)
    assert gap_q(0.2, 0.6, -0.1, **bounds) == pytest.approx(0.5)
    assert gap_q(0.2, 0.6, 0.2, floor=0.1, ceiling=0.5, max_change=0.05) == pytest.approx(0.25)
    assert gap_q(0.2, 0.6, 0.2, **bounds) != pytest.approx(0.25)


def test_a_linear_q_goes_from_its_start_in_round_1_to_its_ceiling_in_the_last() -> None:
    """The gate of round t sets q of round t + 1; after the last round q stays."""
    planned = [linear_q(0.2, 0.8, round_index=t, rounds=4) for t in range(5)]
    assert planned == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])
    assert linear_q(0.2, 0.8, round_index=1, rounds=1) == 0.8
    with pytest.raises(ConfigError, match="0 < start ≤ ceiling < 1"):
        linear_q(0.8, 0.2, round_index=1, rounds=4)
