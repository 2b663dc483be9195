"""The verdict of a ranking: as rare by chance as it claims with few tasks, and silent about what nobody knows."""

import numpy as np
import pytest
from planted_runs import TASKS, planted_config
from rounds.gate.test_validate import alone, loose

from intraskill.method.gate.intervals import Interval
from intraskill.rounds.evaluate import find_source
from intraskill.rounds.gate.ranking import Ranking, _ranking, paired_interval, validate_ranking
from intraskill.rounds.loop import run
from intraskill.rounds.setup import bench

WORLDS, FOUR_SIGMA = 2000, 4.0
NOMINAL = 0.05


def verdict(rng, tasks, effect=0.0):
    arms = {"empty": (), "full": ("a", "b"), "top": ("a",), "bottom": ("b",), "random_0": ("a",)}
    means = {
        arm: {f"t{i}": float(np.clip(0.3 + 0.1 * rng.normal() + effect * (arm == "top"), 0, 1)) for i in range(tasks)}
        for arm in arms
    }
    return _ranking(arms, means, "nobody").verdict


@pytest.mark.parametrize("tasks", [4, 15])
def test_a_useless_ranking_gets_a_verdict_as_rarely_as_claimed_with_few_tasks(tasks):
    rng = np.random.default_rng(tasks)
    false = np.mean([verdict(rng, tasks) != "cannot be told apart from chance" for _ in range(WORLDS)])
    assert false < NOMINAL + FOUR_SIGMA * (NOMINAL * (1 - NOMINAL) / WORLDS) ** 0.5
    # Four graded tasks cannot exclude 0 at all: nothing in them bounds the tasks that were not drawn.
    assert (np.mean([verdict(rng, tasks, 0.4) == "holds" for _ in range(100)]) > 0.5) == (tasks > 4)


def test_a_few_equal_differences_do_not_make_a_verdict_and_many_do():
    made = {n: paired_interval({str(i): 0.0 for i in range(n)}, {str(i): 1.0 for i in range(n)}) for n in (4, 40)}
    assert made[4].se == made[40].se == 0.0
    one = Interval(0.0, -1.0, 1.0, 0.5, 4)
    names = ("top − random", "full − empty")
    for number, words in ((4, "cannot be told apart from chance"), (40, "holds")):
        differences = {"top − bottom": made[number], **dict.fromkeys(names, one)}
        assert Ranking((), 1, {}, {}, differences, number, "nobody").verdict == words


def test_a_ranking_of_loose_weights_says_that_nobody_knows_who_has_read_its_tasks(tmp_path):
    setup, source, found = loose(tmp_path, {"tasks_per_split": TASKS | {"audit": 20}})
    ranking, _ = validate_ranking(setup, source, found.validation)
    words = ranking.words()
    assert "who has read them is not known" in words and "no decision has read" not in words
    assert "earlier ranking" not in words and "this speaks of these sets only" in words
    second, directory = validate_ranking(setup, source, found.validation, size=1)
    assert "1 earlier ranking has read them" in second.words()
    (directory / "ranking.json").unlink()
    assert validate_ranking(setup, source, found.validation, size=1)[0].readers == second.readers


def test_a_ranking_of_a_run_says_that_no_gate_of_this_run_has_read_its_tasks(tmp_path):
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks = 0, 0
    root = run(config)
    found = alone(root, root / "validations")
    if len(found.validation.facts.skill.ids) < 2:
        pytest.skip("the planted start kept one chunk")
    ranking, _ = validate_ranking(bench(config, root / "validations"), find_source(root), found.validation)
    assert "no gate of this run has read them" in ranking.words() and "not known" not in ranking.words()
