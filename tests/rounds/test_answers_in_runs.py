"""Answers that are no calls: counted in every stage, said, and at a cold start the end of the run."""

from dataclasses import replace
from io import StringIO

import pytest
from planted_runs import planted_config
from rich.console import Console

from intraskill.environments.planted import PlantedLearner
from intraskill.method.errors import NothingToLearnError
from intraskill.method.rollouts import Turn
from intraskill.report.summary import summarise
from intraskill.report.tables import report
from intraskill.rounds.loop import run
from intraskill.store.metrics import Metrics


class Babbling(PlantedLearner):
    """Answers in a form that nobody can read."""

    def run(self, episodes):
        turn = Turn("home", "<function=click><parameter=target>Buy</parameter></function>", "", "", "invalid_format")
        return tuple(replace(rollout, turns=(turn, turn)) for rollout in super().run(episodes))


def test_a_cold_start_of_unreadable_answers_stops_and_says_so(tmp_path, monkeypatch):
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks = 1, 0
    name = "intraskill.environments.planted.PlantedLearner"
    with monkeypatch.context() as patch:
        patch.setattr(name, Babbling)
        with pytest.raises(NothingToLearnError, match=r"100\.0 % of 24 answers are no call .* '<function=click>"):
            run(config)
        with pytest.raises(NothingToLearnError, match="delete this file and run the same command again"):
            run(config)
    (tmp_path / "run" / "round_000" / "cold_start.jsonl").unlink()
    root = run(config)
    assert (root / "round_001" / "DONE").exists()


def test_a_run_that_goes_on_all_the_same_is_warned_and_counts_them(tmp_path, monkeypatch):
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks, config.rollout.max_invalid = 1, 0, 1.0
    said = []
    monkeypatch.setattr("intraskill.environments.planted.PlantedLearner", Babbling)
    monkeypatch.setattr("intraskill.store.metrics.Silence.say", lambda self, message: said.append(message))
    root = run(config)
    assert any(line.startswith("warning: round 1, step 0: 100.0 % of") for line in said)
    summary = summarise(root)
    assert set(summary["answers"]) >= {"train", "bare", "masked"}
    for counts in summary["answers"].values():
        assert counts["invalid"] == counts["actions"] == 2 * counts["rollouts"] > 0
    step = next(row for row in Metrics(root / "metrics.jsonl").rows() if row["stage"] == "train")
    assert step["train/invalid"] == step["train/actions"] > 0
    assert step["train/groups_flat_bare"] <= step["train/groups_bare"]
    assert "100.0 % of" in str_of(summary) and "Answers by stage" in str_of(summary)


def str_of(summary):
    console = Console(width=200, record=True, file=StringIO())
    console.print(report(summary, "run"))
    return console.export_text()
