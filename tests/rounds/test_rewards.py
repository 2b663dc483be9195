"""What an environment says it pays holds through a run: ranges, thresholds, names of reward parts."""

from dataclasses import replace
from pathlib import Path

import pytest
from planted_runs import planted_config

from intraskill.cli import main
from intraskill.environments.planted import PlantedLearner, PlantedWorld
from intraskill.method.errors import ConfigError
from intraskill.method.rewards import Payment, is_range
from intraskill.method.skill.skill import Skill
from intraskill.report.summary import write_summary
from intraskill.rounds import setup
from intraskill.rounds.evaluate import evaluate
from intraskill.rounds.loop import run
from intraskill.store.metrics import Silence
from intraskill.store.run_directory import read_json, read_jsonl

TIMES = 8.0
"""A power of two: what is paid times it is exact, so every decision must be the same."""
OWN = ("train", "+exp=own", "env.name=sorting:Sorting", "env.preset=tiny")


def times(rollout, factor):
    if rollout.reward is None:
        return rollout
    parts = {name: value * factor for name, value in rollout.parts.items() if name != "r_success"}
    return replace(rollout, reward=rollout.reward * factor, parts=parts)


class DearLearner(PlantedLearner):
    def run(self, episodes):
        return tuple(times(rollout, TIMES) for rollout in super().run(episodes))

    def update(self, groups):
        cheap = [replace(g, rollouts=tuple(times(r, 1 / TIMES) for r in g.rollouts)) for g in groups]
        return super().update(cheap)


class DearWorld(PlantedWorld):
    """Pays 0 to 8 where its parent pays 0 to 1."""

    reward_range = (0.0, TIMES)

    def learner(self, config):
        return DearLearner(self)

    def propose(self, rollouts, skill):
        return super().propose([times(rollout, 1 / TIMES) for rollout in rollouts], skill)


class Heard(Silence):
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


def played(monkeypatch, root, world, **options):
    monkeypatch.setattr(setup, "built", lambda env: world(**env.options))
    config, heard = planted_config(root, **options), Heard()
    config.curriculum.saturation, config.gate.policy, config.gate.effect = 0.4, "probability", 0.2
    return run(config, heard), heard.lines


def test_a_run_that_is_paid_eight_times_as_much_decides_the_same(monkeypatch, tmp_path):
    cheap, _ = played(monkeypatch, tmp_path / "cheap", PlantedWorld, grades=4)
    dear, said = played(monkeypatch, tmp_path / "dear", DearWorld, grades=4)
    for round_index in (1, 2):
        directories = [root / f"round_{round_index:03d}" for root in (cheap, dear)]
        for name in ("skill.md", "edits.json", "curriculum.json"):
            assert len({(directory / name).read_text() for directory in directories}) == 1, (round_index, name)
        one, other = (read_json(directory / "frontier.json") for directory in directories)
        assert [row["task_id"] for row in one] == [row["task_id"] for row in other] and one
        betas = [read_json(directory / "contributions.json")["beta_J"] for directory in directories]
        assert betas[1] == pytest.approx([TIMES * beta for beta in betas[0]])
    rows = [write_summary(root) and read_json(root / "summary.json") for root in (cheap, dear)]
    assert [row["r_free"] * TIMES for row in rows[0]["rounds"]] == [row["r_free"] for row in rows[1]["rounds"]]
    assert not [line for line in said if "set aside" in line]


class Overpaying(PlantedLearner):
    """Pays 7.5 in place of every full success, with a part of −3."""

    def run(self, episodes):
        return tuple(
            replace(r, reward=7.5, parts={"r_strict": 7.5, "r_half": -3.0}) if r.reward == 1.0 else r
            for r in super().run(episodes)
        )


class OverpayingWorld(PlantedWorld):
    def learner(self, config):
        return Overpaying(self)


def test_what_is_paid_outside_the_range_is_a_fault_that_is_counted_and_never_trained_on(monkeypatch, tmp_path):
    root, said = played(monkeypatch, tmp_path / "run", OverpayingWorld, grades=4)
    rows = [row for row in read_jsonl(root / "round_001" / "train.jsonl")]
    rollouts = [rollout for row in rows for rollout in row["rollouts"]]
    broken = [rollout for rollout in rollouts if rollout["fault"]]
    assert broken and all("reward is 7.5, outside the range of 0 to 1" in one["fault"] for one in broken)
    assert all("parts['r_half'] is -3, outside" in one["fault"] and one["reward"] is None for one in broken)
    assert max(one["reward"] for one in rollouts if one["reward"] is not None) < 1.0
    assert not [row for row in rows if row["used"] and any(one["fault"] for one in row["rollouts"])]
    steps = [line for line in said if line.startswith("round 1, step")]
    assert sum(int(line.split(": ")[1].split(" of ")[0]) for line in steps) == len(broken)


@pytest.mark.parametrize("option", ["grpo.part", "frontier.part"])
def test_a_reward_part_that_is_not_there_is_refused_before_anything_runs(capsys, monkeypatch, tmp_path, option):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    place = f"run_dir={tmp_path / 'run'}"
    for words in ((*OWN, "--dry-run"), OWN):
        assert main([*words, place, f"{option}=r_vowels"]) == 2
        error = capsys.readouterr().err
        assert f"{option}=r_vowels is no reward part of env.name=sorting:Sorting" in error and error.count("\n") == 1
        assert "There are: r_strict, points_for_place, r_success" in error and not (tmp_path / "run").exists()
    assert main([*OWN, "--dry-run", place, f"{option}=points_for_place"]) == 0
    assert main(["train", "+exp=quickstart", "--dry-run", place, f"{option}=r_sucess"]) == 2
    assert "did you mean 'r_success'?" in capsys.readouterr().err


def test_eval_and_validate_refuse_it_too(capsys, monkeypatch, tmp_path):
    root, _ = played(monkeypatch, tmp_path / "run", PlantedWorld)
    for verb in ("eval", "validate"):
        assert main([verb, "--ckpt", str(root), "grpo.part=r_none"]) == 2
        assert "grpo.part=r_none is no reward part" in capsys.readouterr().err


def test_a_proposer_that_reads_rewards_from_0_to_1_is_refused_at_start(monkeypatch, tmp_path):
    monkeypatch.setattr(setup, "built", lambda env: DearWorld(**env.options))
    config = planted_config(tmp_path / "run")
    config.proposer.name = "skill_alpha"
    with pytest.raises(ConfigError, match="reads rewards from 0 to 1, and env.name=planted pays from 0 to 8"):
        setup.bench(config, tmp_path)


def test_an_evaluation_counts_the_highest_reward_as_success(monkeypatch, tmp_path):
    results = []
    for world in (PlantedWorld, DearWorld):
        root, _ = played(monkeypatch, tmp_path / world.__name__, world)
        bench = setup.bench(planted_config(root), tmp_path / f"{world.__name__}-evals")
        bench.root.mkdir()
        checkpoint = root / "round_001" / "checkpoint"
        panel = {"mode": "skill-free", "split": "model_dev", "repeats": 2, "tasks": None}
        results.append(evaluate(bench, checkpoint, skill=Skill(""), **panel)[0])
    assert 0 < results[0].success.mean < 1 and results[0].success.mean == results[1].success.mean


@pytest.mark.parametrize(
    ("value", "fits"),
    [((0, 1), True), ((-3, 7.5), True), ([0, 10], True), ((1, 2), False), ((1, 0), False), ((0, 0), False)]
    + [((0, float("inf")), False), ((0, True), False), ("01", False), (None, False), ((0, 1, 2), False)],
)
def test_a_range_holds_zero_which_a_limit_pays(value, fits):
    assert is_range(value) is fits


def test_sums_may_be_off_by_what_floating_point_costs_and_no_more():
    payment = Payment(("r_strict", "r_sum"))
    assert payment.sound(1.0, {"r_strict": 1.0, "r_sum": 0.1 + 0.2 + 0.7 + 2e-16}) == (
        1.0,
        {"r_strict": 1.0, "r_sum": 1.0},
    )
    with pytest.raises(ValueError, match="carries no r_sum; the reward is 0.5, its r_strict is 0.4"):
        payment.sound(0.5, {"r_strict": 0.4})
    with pytest.raises(ValueError, match=r"parts\['r_sum'\] is 1.001, outside the range of 0 to 1"):
        payment.sound(1.0, {"r_strict": 1.0, "r_sum": 1.001})
    dear = Payment(("r_strict",), (-1.0, 5.0))
    assert dear.sound(5, {"r_strict": 5})[1]["r_success"] == 1.0 > dear.sound(4.9, {"r_strict": 4.9})[1]["r_success"]
