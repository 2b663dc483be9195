"""Faults that go with a chunk: seen in a planted world, rare without cause, and their worst cases by enumeration."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from method_records import chunk, ids, pairs_of
from scipy.stats import fisher_exact

from intraskill.method.gate.diagnostics.attrition import MaskedRun, attrition
from intraskill.method.gate.estimators import fit

NAMES = "ABC"


def world(rng: np.random.Generator, tasks: int, blame: float):
    """Draw a gate of useless chunks in which showing A makes failing runs fault with probability ``blame``."""
    shown_NJ = rng.random((tasks, len(NAMES))) < 0.5
    bare_N, reward_N = rng.random(tasks) < 0.5, rng.random(tasks) < 0.5
    faults_N = rng.random(tasks) < np.where(~reward_N & shown_NJ[:, 0], blame, 0.01)
    names = [f"task-{i:04d}" for i in range(tasks)]
    kept = np.flatnonzero(~faults_N)
    pairs = pairs_of(shown_NJ[kept].tolist(), (1.0 * reward_N - bare_N)[kept].tolist(), NAMES)
    pairs = replace(pairs, task_ids=tuple(names[n] for n in kept))
    sets = [frozenset(chunk(name).id for name, on in zip(NAMES, row, strict=True) if on) for row in shown_NJ]
    return pairs, [MaskedRun(names[n], 0, sets[n], bool(faults_N[n]), float(bare_N[n])) for n in range(tasks)]


def test_a_chunk_under_which_failing_runs_fault_seems_to_help_and_is_seen() -> None:
    rng = np.random.default_rng(3)
    seen, worth = 0, []
    for _ in range(30):
        pairs, runs = world(rng, 400, 0.3)
        found = attrition(pairs, runs)[ids("A")[0]]
        seen += found.alarm
        worth.append(fit(pairs).beta_J[0])
        assert found.low < worth[-1] < found.high
    assert np.mean(worth) > 0.03  # a useless chunk
    assert seen > 25


def test_faults_that_go_with_nothing_raise_an_alarm_in_5_percent_of_gates() -> None:
    rng = np.random.default_rng(4)
    alarms = [any(one.p < 0.05 for one in attrition(*world(rng, 150, 0.01)).values()) for _ in range(150)]
    assert np.mean(alarms) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 150)


def test_the_worst_cases_are_those_of_every_way_to_fill_the_gaps() -> None:
    pairs, runs = world(np.random.default_rng(8), 30, 0.3)
    again = MaskedRun(pairs.task_ids[0], 0, next(r.visible for r in runs if r.task_id == pairs.task_ids[0]), True, None)
    runs = [again if run.task_id == again.task_id else run for run in runs]  # it faulted first and then ended
    lost = [run for run in runs if run.faulted]
    assert 2 <= len(lost) <= 8
    found = attrition(pairs, runs)
    rows = [[name_id in run.visible for name_id in ids(NAMES)] for run in lost]
    design = np.concatenate([pairs.design_NJ[1:], np.array(rows, dtype=float)])
    ends = [(-1.0, 1.0) if run.bare is None else (-run.bare, 1.0 - run.bare) for run in lost]
    fits = [
        np.linalg.lstsq(design, np.concatenate([pairs.delta_N[1:], np.array(filled)]), rcond=None)[0]
        for filled in product(*ends)
    ]
    for j, one in enumerate(found.values()):
        assert (one.low, one.high) == pytest.approx((min(f[j] for f in fits), max(f[j] for f in fits)))


def test_the_counts_and_the_p_value_are_those_of_the_table() -> None:
    a, b = ids("AB")
    pairs = pairs_of([[True, False], [False, True], [True, True], [False, False]], [0.1, -0.2, 0.3, 0.0], "AB")
    kinds = [({a}, False)] * 3 + [({b}, False)] * 12 + [({a}, True)] * 9 + [({b}, True)]
    runs = [MaskedRun(f"t{i}", 0, frozenset(shown), faulted, 0.0) for i, (shown, faulted) in enumerate(kinds)]
    found = attrition(pairs, runs)
    assert (found[a].shown_faults, found[a].shown, found[a].hidden_faults, found[a].hidden) == (9, 12, 1, 13)
    assert found[a].p == pytest.approx(min(1.0, 2 * fisher_exact([[9, 3], [1, 12]]).pvalue))
    assert attrition(pairs, [run for run in runs if not run.faulted]) == {}
