"""The additivity gap and the interaction screen, on worlds whose interactions are known."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from method_records import CONDITIONS, ids, pairs_of, scored, skill, tasks

from intraskill.method.errors import ConfigError, PairingError, RankDeficientError, TooFewTasksError
from intraskill.method.gate.designs import Design, plan_masks
from intraskill.method.gate.diagnostics.additivity import additivity_gap
from intraskill.method.gate.diagnostics.interactions import PENALTY, screen_interactions
from intraskill.method.gate.pairs import Pairs, Scored, pair

NAMES = "abcde"
BETA = dict(zip(ids(NAMES), (0.2, 0.1, 0.0, 0.0, -0.1), strict=True))
ALARM, SCREENS, COVERED = 0.05, 200, 0.95
FOUR_SIGMA = 4.0
SHOWN = frozenset(ids(NAMES))


@cache
def plan_of(number: int, replicates: int) -> dict[str, tuple[frozenset[str], ...]]:
    """One plan for all worlds of a size: what is claimed holds given the masks."""
    return plan_masks(skill(NAMES), [], tasks(number), Design(masked_replicates=replicates), seed=0, round_index=0)


def world(
    seed: int, number: int = 200, *, together: float = 0.0, noise: float = 0.4, replicates: int = 1, full: int = 80
) -> tuple[Pairs, list[Scored]]:
    """Pairs and a full arm; chunks a and b add ``together`` when both are shown; the noise grows with the shown."""
    rng = np.random.default_rng(seed)
    plan = plan_of(number, replicates)
    both = set(ids("ab"))

    def reward(visible: frozenset[str], base: float) -> float:
        spread = noise * (0.5 + 0.25 * len(visible))
        gain = sum(BETA[c] for c in sorted(visible)) + together * (both <= visible)
        return float(base + gain + rng.normal(0, spread))

    bases = dict(zip(plan, rng.normal(0.4, 0.2 * (noise > 0), number), strict=True))
    bare = [scored(t, reward(frozenset(), bases[t])) for t in plan]
    masked = [scored(t, reward(v, bases[t]), v, sample=s) for t in plan for s, v in enumerate(plan[t])]
    whole = [scored(t, reward(SHOWN, bases[t]), SHOWN) for t in list(plan)[:full]]
    return pair(bare, masked, plan, ids(NAMES)), whole


def test_without_noise_and_interactions_the_gap_is_zero_and_with_them_it_is_known() -> None:
    got = additivity_gap(*world(1, noise=0.0), SHOWN)
    assert got.gap.mean == pytest.approx(0.0, abs=1e-9) and got.chunks == 5
    assert got.predicted.mean == pytest.approx(got.measured.mean) == pytest.approx(0.2)
    again = additivity_gap(*world(1, noise=0.0, together=-0.2), SHOWN)
    assert again.measured.mean == pytest.approx(0.0, abs=1e-9)
    assert again.gap.mean != pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("replicates", [1, 2])
def test_the_interval_of_the_gap_is_the_jackknife_over_tasks(replicates: int) -> None:
    pairs, full = world(2, 60, replicates=replicates, full=30)
    effect = {s.task_id: s.parts["r_strict"] for s in full}
    bare = dict(zip(pairs.task_ids, pairs.bare_N, strict=True))

    def gap(left_out: str = "") -> float:
        keep = [t != left_out for t in pairs.task_ids]
        beta = np.linalg.lstsq(pairs.design_NJ[keep], pairs.delta_N[keep], rcond=None)[0]
        return float(np.mean([effect[t] - bare[t] for t in effect if t != left_out]) - beta.sum())

    got = additivity_gap(pairs, full, SHOWN)
    se = math.sqrt(sum((gap() - gap(task)) ** 2 for task in set(pairs.task_ids)))
    assert got.gap.mean == pytest.approx(gap())
    assert got.gap.se == pytest.approx(se, rel=1e-9)
    assert got.gap.se != pytest.approx(math.hypot(got.predicted.se, got.measured.se), rel=1e-3)


def test_the_interval_of_the_gap_covers_and_sees_an_interaction() -> None:
    found = [additivity_gap(*world(seed, 100), SHOWN) for seed in range(150)]
    bound = FOUR_SIGMA * math.sqrt(COVERED * (1 - COVERED) / len(found))
    assert abs(np.mean([got.additive for got in found]) - COVERED) < bound
    seen = [additivity_gap(*world(seed, 100, together=1.0), SHOWN).additive for seed in range(40)]
    assert np.mean(seen) < COVERED - bound


def test_a_full_arm_that_does_not_belong_beside_the_pairs_is_refused_by_name() -> None:
    pairs, full = world(3, 40, full=10)
    other = replace(full[0], conditions=replace(CONDITIONS, checkpoint="weights-0"))
    with pytest.raises(PairingError, match=r"under another checkpoint than weights-1, 1: full task-0000#0 \(weights-0"):
        additivity_gap(pairs, [other, *full[1:]], SHOWN)
    with pytest.raises(PairingError, match="full rollouts of tasks without a pair, 1: task-9999#0; remove"):
        additivity_gap(pairs, [*full, scored("task-9999", 0.0, SHOWN)], SHOWN)
    with pytest.raises(PairingError, match="full rollouts saw another visible set than the 4 chunks of their arm, 10"):
        additivity_gap(pairs, full, frozenset(ids("abcd")))
    with pytest.raises(PairingError, match="full rollouts were completed more than once"):
        additivity_gap(pairs, [*full, full[0]], SHOWN)
    with pytest.raises(ConfigError, match="estimates no contribution of these chunks, 1: chunk-z"):
        additivity_gap(pairs, full, frozenset(ids("abz")))
    with pytest.raises(TooFewTasksError):
        additivity_gap(pairs, full[:1], SHOWN)


@pytest.mark.parametrize("replicates", [1, 2])
def test_the_screen_warns_at_its_stated_rate_when_no_chunks_interact(replicates: int) -> None:
    alarms = [
        bool(screen_interactions(world(seed, 100, replicates=replicates)[0], seed=seed).warnings)
        for seed in range(SCREENS)
    ]
    bound = FOUR_SIGMA * math.sqrt(ALARM * (1 - ALARM) / SCREENS)
    assert np.mean(alarms) < ALARM + bound
    eager = [screen_interactions(world(seed, 100)[0], seed=seed).p_K.min() <= 0.5 for seed in range(SCREENS // 4)]
    assert np.mean(eager) > ALARM + bound


def test_the_screen_names_the_pair_that_interacts_and_no_other() -> None:
    pairs, _ = world(5, 400, together=-0.6)
    got = screen_interactions(pairs, seed=0)
    assert got.warnings == (ids("ab"),)
    assert got.gamma_K[got.pairs.index(ids("ab"))] < -0.3
    assert got.p_K.tolist() == screen_interactions(pairs, seed=0).p_K.tolist()
    assert len(got.pairs) == 10 and got.not_screened == ()


def test_the_screen_is_the_ridge_regression_of_its_definition() -> None:
    pairs, _ = world(6, 120, together=0.3)
    got = screen_interactions(pairs, seed=0)
    column = dict(zip(pairs.chunk_ids, pairs.design_NJ.T, strict=True))
    design = np.column_stack([pairs.design_NJ, *(column[a] * column[b] for a, b in got.pairs)])
    want, other = (
        np.linalg.solve(design.T @ design + np.diag([0.0] * 5 + [penalty] * 10), design.T @ pairs.delta_N)[5:]
        for penalty in (PENALTY, 7.0)
    )
    np.testing.assert_allclose(got.gamma_K, want, 1e-9)
    assert not np.allclose(got.gamma_K, other, 1e-3)


def test_pairs_of_chunks_that_are_hardly_seen_together_are_not_screened_but_named() -> None:
    pairs, _ = world(7, 30)
    got = screen_interactions(pairs, seed=0)
    assert got.not_screened and set(got.not_screened).isdisjoint(got.pairs)
    assert len(got.pairs) + len(got.not_screened) == 10
    with pytest.raises(RankDeficientError, match="4 pairs cannot give 5 contributions"):
        screen_interactions(pairs.of_tasks(pairs.task_ids[:4]), seed=0)


def test_the_screen_keeps_its_rate_with_few_tasks_for_a_column() -> None:
    """32 tasks and 8 columns: a quarter of every row's freedom is spent on the contributions."""
    names, rng = "abcdefgh", np.random.default_rng(8)
    shown_NJ = (rng.random((32, len(names))) < 0.65).tolist()
    alarms = []
    for seed in range(SCREENS):
        pairs = pairs_of(shown_NJ, rng.normal(size=32).tolist(), names)
        got = screen_interactions(pairs, seed=seed)
        alarms.append(bool(got.warnings))
    assert np.mean(alarms) < ALARM + FOUR_SIGMA * math.sqrt(ALARM * (1 - ALARM) / SCREENS)
