"""What a gate alone shares with other gates is said, and a reward that two gates read is counted once."""

import pytest
from planted_runs import planted_config
from rounds.gate.test_validate import alone

from intraskill.rounds.earlier_rounds import query_count
from intraskill.rounds.loop import run
from intraskill.store.run_directory import read_json, read_jsonl

TASKS = 48


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    config = planted_config(tmp_path_factory.mktemp("independence") / "run")
    config.rounds, config.final.tasks = 1, 0
    return run(config)


def rewards(directory):
    arms = ("bare", "masked", "full")
    return {arm: read_jsonl(directory / f"{arm}.jsonl") for arm in arms if (directory / f"{arm}.jsonl").exists()}


def test_a_gate_alone_says_that_it_shares_the_bare_runs_of_its_round(finished, tmp_path):
    found = alone(finished, tmp_path)
    assert "Not independent of round_001: same bare runs" in found.dependence
    assert "needs another seed" in found.dependence and "--refit" in found.dependence
    assert found.dependence in found.remarks
    assert read_json(found.directory / "gate.json")["dependence"] == found.dependence


def test_a_second_policy_of_the_same_gate_alone_is_said_to_share_its_masked_runs(finished, tmp_path):
    first, second = alone(finished, tmp_path), alone(finished, tmp_path, policy="fdr")
    assert first.directory != second.directory
    assert (first.directory / "masked.jsonl").read_bytes() == (second.directory / "masked.jsonl").read_bytes()
    assert f"not independent of {first.directory.name}: same seeds of masks and masked runs" in second.dependence
    assert "masked runs" not in first.dependence


def test_rewards_are_counted_once_full_arms_too(finished):
    before = query_count(finished)
    rounds = sum(len(rows) for path in finished.glob("round_*") for rows in rewards(path).values())
    assert before.rewards == rounds > 2 * 2 * TASKS
    first = alone(finished, finished / "validations")
    shared = {"bare", "full"}  # the same skill, seed and round as the full arm of the round
    assert rewards(first.directory).keys() > shared
    after = query_count(finished)
    assert (after.rewards, after.decisions) == (before.rewards + TASKS, before.decisions + 1)
    alone(finished, finished / "validations", policy="fdr")
    again = query_count(finished)
    assert (again.rewards, again.decisions) == (after.rewards, after.decisions + 1)
