"""When a training state is due: by steps where steps are short, by the clock where they are long."""

import time

from planted_runs import content, planted_config

from intraskill.rl.learner import SavePoints, save_state
from intraskill.rounds import training
from intraskill.rounds.loop import run


def test_short_steps_are_saved_by_their_number():
    points = SavePoints(10, 60.0)
    assert [done for done in range(1, 41) if points.due(done)] == [10, 20, 30, 40]


def test_long_steps_are_saved_by_the_clock_which_every_save_starts_again():
    points = SavePoints(1000, 0.1 / 60.0)
    assert not points.due(1)
    time.sleep(0.11)
    assert points.due(2) and not points.due(3)


def test_a_run_saved_by_the_clock_ends_in_the_same_bytes(tmp_path, monkeypatch):
    saved = []

    def watched(learner, folder, step, facts):
        saved.append(step)
        save_state(learner, folder, step, facts)

    monkeypatch.setattr(training, "save_state", watched)
    files = []
    for name, minutes in (("steps", 10.0), ("clock", 1e-9)):
        config = planted_config(tmp_path / name / "run")
        config.grpo.save_every_steps, config.grpo.save_every_minutes, config.rounds = 100, minutes, 1
        files.append(content(run(config)))
        for plan_bound in ("plan.json", "pair.json"):
            files[-1].pop(plan_bound)
    assert saved == [1, 2, 3]
    assert [name for name in {*files[0], *files[1]} if files[0].get(name) != files[1].get(name)] == []
