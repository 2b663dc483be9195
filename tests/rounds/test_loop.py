"""The whole loop in a world whose true contributions are known."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from planted_runs import TASKS, content, planted_config

from intraskill.environments.planted import PlantedLearner, PlantedWorld
from intraskill.method.curriculum.contexts import Curriculum
from intraskill.method.curriculum.frontier import with_signal
from intraskill.method.errors import ArtifactError, ConfigError, EnvironmentFault, NothingToLearnError, SplitError
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Chunk, Skill, parse_skill
from intraskill.proposers.trace2skill import ProposalBatch
from intraskill.report.dry_run import plan_table
from intraskill.report.summary import summarise
from intraskill.rounds.final import compare_start_and_final
from intraskill.rounds.loop import last_state, run
from intraskill.rounds.review import adding_at_most
from intraskill.rounds.run import Run, panel
from intraskill.rounds.setup import assemble, bench
from intraskill.rounds.sizes import check_sizes, largest_pool
from intraskill.rounds.training import groups_run_per_step, plan_training, run_step
from intraskill.store.run_directory import read_json, read_jsonl, write_json


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(planted_config(tmp_path_factory.mktemp("planted") / "run"))


class LearnerWithFaults(PlantedLearner):
    """Breaks every rollout of the named tasks."""

    def __init__(self, world, broken):
        super().__init__(world)
        self.broken = broken

    def run(self, episodes):
        rollouts = super().run(episodes)
        return tuple(
            replace(r, reward=None, parts={}, fault="server gone") if r.task_id in self.broken else r for r in rollouts
        )


def breaking(broken):
    return lambda world: LearnerWithFaults(world, broken)


def planted_run(tmp_path, **options) -> Run:
    return bench(planted_config(tmp_path / "run", **options), tmp_path)


def test_a_round_leaves_every_artifact_and_done_names_each_of_them(finished):
    names = {path.name for path in (finished / "round_001").iterdir()}
    expected = {"plan.jsonl", "train.jsonl", "frontier.json", "reviews.json", "edits.json", "masks.json", "bare.jsonl"}
    expected |= {"masked.jsonl", "contributions.json", "decision.json", "skill.md", "curriculum.json", "ledger.json"}
    assert expected | {"round.json", "checkpoint", "DONE"} <= names
    assert not [name for name in names if name.startswith(".") or "partial" in name or name == "train_state"]
    assert set(read_json(finished / "round_001" / "DONE")) >= expected


def test_the_masks_stand_before_the_rollouts_and_the_rollouts_follow_them(finished):
    planned = read_json(finished / "round_001" / "masks.json")
    shown = {row["task_id"]: row["visible"] for row in read_jsonl(finished / "round_001" / "masked.jsonl")}
    assert planned["visible"] == shown and planned["estimator"] == "paired_ols"
    assert len(set(map(tuple, shown.values()))) > 4
    assert planned["checkpoint"] == read_jsonl(finished / "round_001" / "bare.jsonl")[0]["checkpoint"]


def test_each_role_reads_its_own_split(finished):
    splits = {"cold_start": "train", "plan": "train", "bare": "skill_validation", "masked": "skill_validation"}
    for name, split in splits.items():
        for path in finished.glob(f"round_*/{name}.jsonl"):
            ids = {row.get("task_id") or row["task"]["id"] for row in read_jsonl(path)}
            assert all(task_id.startswith(f"planted-{split}") for task_id in ids), path
    for path in (finished / "final").glob("*.jsonl"):
        assert all(row["task_id"].startswith("planted-test") for row in read_jsonl(path))


def test_the_gate_and_the_training_cannot_read_test_tasks(tmp_path):
    with pytest.raises(SplitError, match="final report only"):
        planted_run(tmp_path).tasks("test")


def test_training_raises_the_skill_free_reward_and_the_final_interval_says_so(finished):
    final = read_json(finished / "final" / "final.json")
    gain = final["comparisons"]["final_free - start_free"]
    assert gain["reward"]["low"] > 0.0 and gain["tasks"]["gained"] > gain["tasks"]["lost"]
    assert not final["comparisons"]["start_pair - start_free"]["reward"]["high"] < 0.0


def test_the_summary_has_the_documented_keys(finished):
    summary = summarise(finished)
    assert summary["finished"] and len(summary["rounds"]) == 3
    for number, row in enumerate(summary["rounds"]):
        assert row["round"] == number and {"r_free", "r_pair", "gap", "frontier", "edits", "chunks"} <= set(row)
        assert set(row["gap"]) == {"mean", "se", "low", "high", "n"}
        verdicts = {"groups", "model_deficit", "skill_deficit", "environment", "undecided"}
        assert verdicts <= set(row["frontier"]) and set(row["edits"]) == {"proposed", "taken", "refused"}
        for chunk in row["chunks"]:
            assert {"id", "title", "beta", "se", "exposure", "status"} <= set(chunk)
            shown = None if chunk["exposure"] is None else (1.0 - row["skill_free_prob"]) * chunk["exposure"]
            assert chunk["visible_probability"] == shown
            assert (chunk["exposure"] is not None) == (chunk["status"] == "active")
        hidden = math.prod(1.0 - chunk["exposure"] for chunk in row["chunks"] if chunk["exposure"] is not None)
        q = row["skill_free_prob"]
        assert row["bare_probability"] == pytest.approx(q + (1.0 - q) * hidden)
        assert row["bare_probability"] != pytest.approx(q)
        assert abs(row["r_pair"] - row["r_free"] - row["gap"]["mean"]) < 1e-12
    assert summary["tokens"]["rollouts"] > 400 and summary["timing"]["total_s"] > 0
    json.dumps(summary, allow_nan=False)


def test_the_committed_skill_is_what_the_gate_decided_and_all_of_it_has_an_exposure(finished):
    for directory in sorted(finished.glob("round_*")):
        skill = parse_skill((directory / "skill.md").read_text())
        assert list(skill.ids) == read_json(directory / "decision.json")["kept"]
        assert set(read_json(directory / "curriculum.json")["exposure"]) == set(skill.ids)


def test_the_first_gate_refuses_the_harmful_draft_and_keeps_a_useful_one(tmp_path):
    config = planted_config(tmp_path / "run", baseline=0.3)
    config.rounds, config.final.tasks = 0, 0
    config.env.options["tasks_per_split"] = {"train": 40, "skill_validation": 900}
    row = summarise(run(config))["rounds"][0]
    status = {chunk["title"]: chunk["status"] for chunk in row["chunks"]}
    assert status["Take the first result"] == "refused" and status["Read the whole request"] == "active"


def test_the_same_command_on_a_finished_run_changes_nothing(finished):
    before = content(finished)
    run(planted_config(finished))
    assert content(finished) == before


def test_a_changed_sealed_artifact_is_refused(tmp_path):
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks = 0, 0
    root = run(config)
    write_json(root / "round_000" / "curriculum.json", {"skill_free_prob": 0.5, "exposure": {}})
    with pytest.raises(ArtifactError, match=r"changed since they were sealed, 1: .*curriculum\.json"):
        run(config)


def test_another_plan_is_refused_and_the_run_stays_as_it_was(tmp_path):
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks = 0, 0
    before = content(run(config))
    config.grpo.lr = 0.5
    with pytest.raises(ArtifactError, match=r"grpo\.lr: 0\.0003 there, 0\.5 here"):
        run(config)
    assert content(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("fact", "value", "message"),
    [
        ("environment", "world-1", r"1: environment: 'world-1' there, '[^']+' here"),
        ("checkpoint", "weights-1", r"1: checkpoint: 'weights-1' there"),
        ("conditions", {"sampling": "planted", "prompt": "old"}, r"2: conditions\.environment: None .*\.prompt: 'old'"),
        ("packages", {"torch": "0.1"}, None),
        ("git", {"commit": "0"}, None),
    ],
)
def test_a_run_started_in_another_world_or_from_other_weights_is_not_resumed(tmp_path, fact, value, message):
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks = 0, 0
    root = run(config)
    recorded = read_json(root / "plan.json")
    write_json(root / "plan.json", recorded | {"about": recorded["about"] | {fact: value}})
    if message is None:
        assert run(config) == root
        return
    with pytest.raises(ArtifactError, match=message):
        run(config)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"skill_validation": 16},
            "tell 16 chunks apart, which takes 17 .*max_drafts=16, gate.top_k=10",
        ),
        ({"skill_validation": 1}, "17 skill-validation tasks or more, and has 1"),
        ({"test": 1}, "final.split=test has 1 tasks"),
        ({"train": 5}, "plans 6 groups on different train tasks, and there are 5"),
    ],
)
def test_a_run_that_its_tasks_cannot_carry_to_the_end_is_refused_before_it_starts(tmp_path, sizes, message):
    config = planted_config(tmp_path / "run", tasks_per_split=TASKS | sizes)
    with pytest.raises(ConfigError, match=message):
        assemble(config)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match=message):
        plan_table(config)


def test_the_sizes_just_enough_are_legal_and_a_run_without_proposals_needs_fewer():
    config = planted_config(Path("run"))
    enough = {"skill_validation": 17, "test": 2, "train": 6}
    check_sizes(config, enough, Skill(""))
    config.gate.tasks = 16
    with pytest.raises(ConfigError, match="and has 16"):
        check_sizes(config, enough, Skill(""))
    config.proposer.name = "none"
    check_sizes(config, enough, PlantedWorld().draft)
    assert largest_pool(config, PlantedWorld().draft) == 5
    check_sizes(config, {}, Skill(""))


def test_candidates_never_add_more_chunks_than_the_largest_pool_allows():
    chunks = [Chunk(f"Rule {number}", f"Do {number}.") for number in range(6)]
    add, split = Proposal("ADD", (), (chunks[0],), "why"), Proposal("SPLIT", ("a",), tuple(chunks[1:4]), "why")
    delete, late = Proposal("DELETE", ("b",), (), "why"), Proposal("ADD", (), (chunks[4],), "why")
    batch = ProposalBatch((add, split, delete, late), (), {"over_limit": 1}, "rules")
    assert adding_at_most(5, batch) == replace(batch, counts={"over_limit": 1, "too_large": 0})
    found = adding_at_most(3, batch)
    assert found.proposals == (add, delete, late) and found.counts["too_large"] == 1


def test_masks_of_another_gate_cannot_be_resumed(tmp_path):
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks = 0, 0
    root = run(config)
    (root / "round_000" / "DONE").unlink()
    masks = read_json(root / "round_000" / "masks.json")
    write_json(root / "round_000" / "masks.json", masks | {"inclusion": 0.9})
    with pytest.raises(ArtifactError, match="inclusion differ; a changed plan cannot resume a gate"):
        run(config)


def test_an_empty_skill_is_legal_and_its_pair_is_the_bare_policy(tmp_path):
    config = planted_config(tmp_path / "run")
    config.coldstart.tasks, config.proposer.name, config.rounds = 0, "none", 1
    rows = summarise(run(config))["rounds"]
    assert all(row["chunks"] == [] and row["r_pair"] == row["r_free"] and row["gap"]["mean"] == 0.0 for row in rows)
    assert not (tmp_path / "run" / "round_001" / "masked.jsonl").exists()


def test_plain_grpo_never_shows_a_chunk(tmp_path):
    config = planted_config(tmp_path / "run")
    config.curriculum.assisted, config.rounds, config.final.tasks = False, 1, 0
    root = run(config)
    plan = read_jsonl(root / "round_001" / "plan.jsonl")
    assert {row["kind"] for row in plan} == {"skill_free"} and not any(row["visible"] for row in plan)
    row = read_json(root / "round_000" / "round.json")
    active = [chunk for chunk in row["chunks"] if chunk["status"] == "active"]
    assert active and row["bare_probability"] == 1.0 and {chunk["visible_probability"] for chunk in active} == {0.0}


def test_the_gap_controller_moves_q_within_its_limits(tmp_path):
    config = planted_config(tmp_path / "run")
    config.curriculum.controller, config.final.tasks = "gap", 0
    qs = [row["skill_free_prob"] for row in summarise(run(config))["rounds"]]
    assert qs[0] == 0.20 and qs[1] != 0.20
    assert all(abs(b - a) <= config.curriculum.q_max_change + 1e-12 for a, b in zip(qs, qs[1:], strict=False))


def test_a_draft_file_is_where_the_run_starts(tmp_path):
    draft = tmp_path / "draft.md"
    draft.write_text(PlantedWorld().draft.to_markdown())
    config = planted_config(tmp_path / "run")
    config.coldstart.draft, config.coldstart.tasks, config.rounds, config.final.tasks = str(draft), 0, 0, 0
    assert (run(config) / "round_000" / "draft.md").read_text() == draft.read_text()
    config.coldstart.draft, config.run_dir = "absent.md", str(tmp_path / "other")
    with pytest.raises(ConfigError, match="no skill file absent.md"):
        run(config)


def test_groups_lost_to_a_fault_are_replaced_from_the_reserve(tmp_path):
    setup = planted_run(tmp_path)
    setup.config.grpo.reserve_groups = 2
    groups = plan_training(setup, tmp_path, 1, Curriculum(0.2))[: groups_run_per_step(setup.config.grpo) + 2]
    setup.learner = LearnerWithFaults(PlantedWorld(), {groups[0].task.id, groups[4].task.id})
    results = run_step(setup, groups, Skill(""))
    assert [result.group.slot for result in results] == [0, 1, 2, 3, 4, 5]
    assert all(result.group.slot not in (0, 4) for result in with_signal(results, 4))


def test_a_step_of_faults_only_says_so_and_trains_on_nothing(tmp_path):
    setup = planted_run(tmp_path)
    groups = plan_training(setup, tmp_path, 1, Curriculum(0.2))[:6]
    setup.learner = LearnerWithFaults(PlantedWorld(), {group.task.id for group in groups})
    with pytest.raises(NothingToLearnError, match="every one of 24 rollouts of r001/s0000 was a fault.*server gone"):
        run_step(setup, groups, Skill(""))


def test_oversampling_keeps_the_first_needed_groups_with_signal(tmp_path):
    setup = planted_run(tmp_path)
    setup.config.grpo.oversample = 2.0
    groups = plan_training(setup, tmp_path, 1, Curriculum(0.2))[: groups_run_per_step(setup.config.grpo) + 2]
    results = run_step(setup, groups, Skill(""))
    kept = with_signal(results, 4)
    assert len(results) == 8 and len(kept) <= 4
    assert all(len(set(result.rewards)) > 1 for result in kept)
    assert [r.group.slot for r in kept] == sorted(r.group.slot for r in kept)


def test_validation_tasks_that_only_fault_leave_both_arms_and_are_reported(tmp_path):
    config = planted_config(tmp_path / "run", fault_rate=0.25)
    config.rounds, config.final.tasks, config.rollout.attempts = 0, 0, 1
    found = read_json(run(config) / "round_000" / "contributions.json")
    assert 0 < len(found["excluded_tasks"]) < 48 and found["num_pairs"] == 48 - len(found["excluded_tasks"])
    config.run_dir, config.rollout.attempts = str(tmp_path / "again"), 10
    assert read_json(run(config) / "round_000" / "contributions.json")["excluded_tasks"] == []


@pytest.mark.parametrize("final", [False, True])
def test_an_arm_of_faults_only_names_its_file_and_can_be_run_again(tmp_path, monkeypatch, final):
    config = planted_config(tmp_path / "run")
    config.rounds, config.coldstart.tasks = 0, 0
    split = "test" if final else "skill_validation"
    broken = {task.id for task in PlantedWorld(tasks_per_split=TASKS).tasks(split)}
    with monkeypatch.context() as patch:
        patch.setattr("intraskill.environments.planted.PlantedLearner", breaking(broken))
        with pytest.raises(EnvironmentFault, match=r"every one of \d+ rollouts of .*\.jsonl was a fault.*server gone"):
            run(config)
    path = tmp_path / "run" / ("final/start_free.jsonl" if final else "round_000/bare.jsonl")
    path.unlink()
    assert (run(config) / "final" / "DONE").exists()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_panel_of_no_tasks_is_refused(limit):
    with pytest.raises(ConfigError, match=f"at most {limit} model_dev tasks"):
        panel(PlantedWorld(), "model_dev", limit, seed=1)


def test_a_panel_is_a_fixed_part_of_its_split(tmp_path):
    world = PlantedWorld()
    some, more = (panel(world, "model_dev", n, seed=1) for n in (5, 9))
    assert more[:5] == some and panel(world, "model_dev", None, seed=1) == world.tasks("model_dev")
    with pytest.raises(SplitError, match="no audit tasks"):
        panel(PlantedWorld(tasks_per_split={"train": 3}), "audit", None, seed=1)


def test_the_closing_comparison_ends_at_the_final_weights(finished):
    setup = bench(planted_config(finished), finished)
    state = last_state(setup)
    assert state is not None and state.round_index == 2
    compare_start_and_final(setup, state.round_index)
    assert (
        setup.learner.checkpoint == state.checkpoint == read_json(finished / "round_002" / "round.json")["checkpoint"]
    )
