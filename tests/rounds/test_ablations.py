"""What the ablations do in a run, in the planted world: whole rounds, from their own files."""

from collections import Counter
from statistics import fmean

import pytest
from planted_runs import planted_config

from intraskill.environments.planted import PlantedWorld
from intraskill.report.summary import summarise
from intraskill.rounds.loop import read_state, run
from intraskill.store.artifacts import REVIEW_FULL, REVIEWS, TRAINING


def rows(root, round_index):
    return TRAINING.read(root / f"round_{round_index:03d}")


def test_after_a_bare_failure_the_task_comes_again_with_help_and_no_rollout_is_added(tmp_path):
    config = planted_config(tmp_path / "run")
    config.curriculum.hint_on_failure = True
    config.grpo.groups_per_step = 5
    root = run(config)
    hinted = Counter()
    for round_index in (1, 2):
        for step in range(config.grpo.steps_per_round):
            results = [row.result for row in rows(root, round_index) if row.result.group.step == step]
            assert len(results) == 5
            bare, rest = results[:3], results[3:]
            assert all(result.group.kind == "skill_free" for result in bare)
            helped = [result for result in rest if result.group.visible]
            hinted[round_index] += len(helped)
            failed = {result.group.task.id for result in bare if fmean(result.rewards) <= 0.3}
            assert {result.group.task.id for result in helped} <= failed
            assert all(not result.group.visible for result in rest[len(helped) :])
            assert len({result.group.id for result in results}) == 5
    assert hinted[1] > 0


def test_without_re_runs_every_frontier_task_is_read(tmp_path):
    config = planted_config(tmp_path / "run")
    config.triage.reruns = 0
    root = run(config)
    directory = root / "round_001"
    judged = REVIEWS.read(directory)
    assert judged and {entry["verdict"] for entry in judged} == {"skill_deficit"}
    assert not REVIEW_FULL.read(directory)


@pytest.mark.parametrize("policy", ["keep", "positive_topk"])
def test_a_gate_that_keeps_lets_in_what_contributes_nothing(tmp_path, policy):
    draft = tmp_path / "draft.md"
    draft.write_text(PlantedWorld().draft.render(), encoding="utf-8")
    config = planted_config(tmp_path / "run")
    config.coldstart.draft, config.gate.policy = str(draft), policy
    first = summarise(run(config))["rounds"][0]["chunks"]
    assert min(chunk["beta"] for chunk in first) < 0.0
    assert all(chunk["status"] == "active" for chunk in first) is (policy == "keep")


def test_a_linear_q_moves_by_the_clock(tmp_path):
    config = planted_config(tmp_path / "run")
    config.curriculum.controller, config.curriculum.q_ceiling = "linear", 0.9
    root = run(config)
    got = [read_state(root / f"round_{number:03d}").curriculum.skill_free_prob for number in range(3)]
    assert got == pytest.approx([0.2, 0.9, 0.9])
