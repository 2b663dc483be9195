"""The planted world: the loop's laws where every quantity is known."""

import dataclasses
import importlib.util
import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from intraskill.environments.planted import PlantedChunk, PlantedLearner, PlantedWorld
from intraskill.environments.protocol import Environment
from intraskill.method.curriculum.contexts import Curriculum, plan_groups
from intraskill.method.curriculum.frontier import FrontierRule, Review, TriageRule, Verdict, find_frontier, triage
from intraskill.method.errors import CheckpointError, ConfigError, SplitError
from intraskill.method.gate.decision import decide
from intraskill.method.gate.designs import plan_masks
from intraskill.method.gate.estimators import fit
from intraskill.method.gate.pairs import Conditions, Scored, pair
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.rules import GateRule
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode, GroupResult, Rollout
from intraskill.method.skill.edits import Edit, pool
from intraskill.method.skill.skill import BARE, Skill
from intraskill.rl.learner import Learner

WORLD = PlantedWorld()
USEFUL, HARMFUL = WORLD.chunks[0].chunk.id, WORLD.chunks[4].chunk.id
MISSING, REWRITE = WORLD.chunks[5].chunk.id, WORLD.chunks[6].chunk.id
FIVE_SIGMA = 5.0
SCRIPT = Path(__file__).parents[2] / "scripts" / "planted_coverage.py"


def score(rollouts: tuple[Rollout, ...], learner: PlantedLearner) -> list[Scored]:
    conditions = Conditions(learner.checkpoint, "skill_validation", **learner.conditions)
    return [Scored(r.task_id, r.sample, r.visible, r.reward, r.parts, conditions, r.fault) for r in rollouts]


def gate(learner: PlantedLearner, skill: Skill, edits: tuple[Edit, ...] = (), seed: int = 0) -> Contributions:
    tasks = learner.world.tasks("skill_validation")
    everything = pool(skill, edits)
    plan = plan_masks(everything, edits, tasks, seed=seed, round_index=learner.steps)
    masks = {task_id: visible for task_id, (visible,) in plan.items()}
    arms = [
        learner.run([Episode(t, everything, seen[t.id], 0, child_seed(seed, arm, learner.steps, t.id)) for t in tasks])
        for arm, seen in (("bare", dict.fromkeys(plan, BARE)), ("masked", masks))
    ]
    return fit(pair(score(arms[0], learner), score(arms[1], learner), plan, everything.ids))


def train(learner: PlantedLearner, skill: Skill, steps: int, seed: int = 0) -> list[GroupResult]:
    curriculum = Curriculum(0.2, dict.fromkeys(skill.ids, 0.7))
    groups = plan_groups(
        learner.world.tasks("train"), curriculum, seed=seed, round_index=0, steps=steps, groups_per_step=8
    )
    results = []
    for step in range(steps):
        for group in (g for g in groups if g.step == step):
            episodes = [Episode(group.task, skill, group.visible, i, child_seed(seed, group.id, i)) for i in range(8)]
            results.append(GroupResult(group, learner.run(episodes)))
        learner.update(results[-8:])
    return results


def candidates(skill: Skill) -> tuple[Edit, ...]:
    failure = PlantedLearner(WORLD).run([Episode(WORLD.tasks("train")[0], skill, BARE, i, i) for i in range(9)])
    return tuple(proposal.to_edit() for proposal in WORLD.propose(failure, skill))


def test_the_world_and_its_learner_fill_the_seams() -> None:
    environment: Environment = WORLD
    learner: Learner = PlantedLearner(WORLD)
    assert len(environment.tasks("test")) == 200
    assert learner.conditions["environment"] == environment.version
    with pytest.raises(SplitError, match="unknown split 'exam'"):
        environment.tasks("exam")  # type: ignore[arg-type]


def test_a_gate_recovers_the_planted_contributions() -> None:
    edits = candidates(WORLD.draft)
    got = gate(PlantedLearner(WORLD), WORLD.draft, edits)
    truth = np.array(WORLD.true_contributions(got.chunk_ids, WORLD.tasks("skill_validation"), {}))
    assert (np.abs(got.beta_J - truth) < FIVE_SIGMA * got.se_J).all()
    assert not (np.abs(got.beta_J + truth) < FIVE_SIGMA * got.se_J).all()


def test_the_gate_admits_the_missing_chunk_and_refuses_the_harmful_one() -> None:
    edits = candidates(WORLD.draft)
    assert [edit.op for edit in edits] == ["ADD", "REWRITE"]
    got = decide(WORLD.draft, edits, gate(PlantedLearner(WORLD), WORLD.draft, edits), GateRule(10))
    assert {MISSING, USEFUL} <= set(got.kept)
    assert HARMFUL in got.retired


def test_a_chunk_that_the_model_absorbed_loses_its_contribution() -> None:
    world = dataclasses.replace(WORLD, learning_rate=0.2)
    learner = PlantedLearner(world)
    skill = Skill("", (WORLD.chunks[0].chunk, WORLD.chunks[1].chunk))
    before = gate(learner, skill)
    train(learner, skill, steps=40)
    after = gate(learner, skill)
    assert learner.absorbed[USEFUL] > 0.95
    assert before.beta_J[0] > 3 * before.se_J[0]
    assert (np.abs(after.beta_J) < 3 * after.se_J).all()
    assert world.true_contributions(skill.ids, world.tasks("test"), learner.absorbed)[0] < 0.02
    assert after.beta_J[0] < before.beta_J[0] / 2


def test_absorption_raises_the_skill_free_reward_by_what_the_chunk_loses() -> None:
    task, learner = WORLD.tasks("test")[0].id, PlantedLearner(WORLD)
    bare = WORLD.success_probability(task, BARE, learner.absorbed)
    learner.absorbed[USEFUL] = 0.5
    assert WORLD.success_probability(task, BARE, learner.absorbed) == pytest.approx(bare + 0.10)
    assert WORLD.success_probability(task, frozenset({USEFUL}), learner.absorbed) == pytest.approx(bare + 0.20)
    assert WORLD.true_contributions([USEFUL], WORLD.tasks("test"), learner.absorbed)[0] == pytest.approx(0.10)
    assert WORLD.true_contributions([USEFUL], WORLD.tasks("test"), {})[0] != pytest.approx(0.10)


def test_interactions_reach_broken_tasks_and_drift_enter_the_probability() -> None:
    one, other = WORLD.chunks[0], WORLD.chunks[2]
    both = frozenset({one.chunk.id, other.chunk.id})
    task = WORLD.tasks("test")[0].id
    plain = WORLD.success_probability(task, both, {})
    world = dataclasses.replace(WORLD, interactions=((one.title, other.title, -0.1),), drift=0.01)
    assert world.success_probability(task, both, {}, steps=3) == pytest.approx(plain - 0.1 + 0.03)
    assert world.success_probability(task, both, {}, steps=3) != pytest.approx(plain)
    assert not world.is_additive()
    broken = dataclasses.replace(WORLD, broken=0.5)
    payless = [t.id for t in broken.tasks("test") if not broken.solvable(t.id)]
    assert 60 < len(payless) < 140
    assert {broken.success_probability(task_id, both, {}) for task_id in payless} == {0.0}
    narrow = PlantedWorld(chunks=(PlantedChunk("Narrow", 0.4, reach=0.25),))
    share = fmean(narrow.effect(narrow.chunks[0].chunk.id, t.id) > 0 for t in narrow.tasks("skill_validation"))
    assert share == pytest.approx(0.25, abs=0.09)


def test_triage_finds_both_deficits_and_the_broken_tasks() -> None:
    world = PlantedWorld(
        baseline=0.0,
        spread=0.0,
        broken=0.1,
        chunks=(PlantedChunk("Known", 1.0, reach=0.5), PlantedChunk("Unknown", 1.0, reach=0.5, missing=True)),
    )
    learner = PlantedLearner(world)
    seen: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
    for group in find_frontier(train(learner, Skill(""), steps=5), FrontierRule(0.0, 0.0)):
        task = group.group.task
        runs = [
            learner.run([Episode(task, world.draft, v, i, i) for i in range(3)])
            for v in (frozenset(world.draft.ids), BARE)
        ]
        review = Review(task.id, *(tuple(r.reward for r in arm) for arm in runs), world.solvable(task.id))
        verdict = triage(review, TriageRule(solved=1.0, min_valid=2))
        seen[verdict] += 1
        helps = world.effect(world.draft.ids[0], task.id) > 0
        expected = Verdict.MODEL_DEFICIT if helps else Verdict.SKILL_DEFICIT
        assert verdict is (expected if world.solvable(task.id) else Verdict.ENVIRONMENT)
    assert min(seen[v] for v in (Verdict.MODEL_DEFICIT, Verdict.SKILL_DEFICIT, Verdict.ENVIRONMENT)) > 0


def test_a_planted_world_offers_the_draft_to_an_empty_skill_and_nothing_without_a_failure() -> None:
    assert {edit.added_ids[0] for edit in candidates(Skill(""))} == set(WORLD.draft.ids)
    assert WORLD.propose((), WORLD.draft) == ()
    complete = Skill("", tuple(planted.chunk for planted in WORLD.chunks))
    assert candidates(complete) == ()
    without_target = Skill("", WORLD.draft.chunks[:1])
    assert [edit.op for edit in candidates(without_target)] == ["ADD", "ADD"]


def test_a_learner_comes_back_exactly_from_its_file(tmp_path: Path) -> None:
    learner, again = PlantedLearner(WORLD), PlantedLearner(WORLD)
    train(learner, WORLD.draft, steps=3)
    assert again.checkpoint != learner.checkpoint
    learner.save(tmp_path)
    again.load(tmp_path)
    assert (again.checkpoint, again.absorbed, again.steps) == (learner.checkpoint, learner.absorbed, learner.steps)


def test_a_missing_corrupt_or_foreign_state_is_refused(tmp_path: Path) -> None:
    learner = PlantedLearner(WORLD)
    with pytest.raises(CheckpointError, match="does not hold a planted state"):
        learner.load(tmp_path)
    learner.save(tmp_path)
    path = tmp_path / "planted_state.json"
    with pytest.raises(CheckpointError, match="use its own world"):
        PlantedLearner(PlantedWorld(seed=9)).load(tmp_path)
    path.write_text(json.dumps({"world": WORLD.version}))
    with pytest.raises(CheckpointError, match="absorbed"):
        learner.load(tmp_path)


def test_an_episode_depends_on_its_own_seed_only() -> None:
    learner = PlantedLearner(dataclasses.replace(WORLD, grades=4, fault_rate=0.2))
    episodes = [Episode(t, WORLD.draft, BARE, 0, child_seed(1, t.id)) for t in WORLD.tasks("test")]
    forward, backward = learner.run(episodes), learner.run(episodes[::-1])
    assert forward == backward[::-1]
    assert {r.reward for r in forward} == {None, 0.0, 0.25, 0.5, 0.75, 1.0}
    assert all((r.fault is None) == (r.reward is not None) for r in forward)


def test_settings_from_a_config_file_build_the_same_world() -> None:
    plain = json.loads(json.dumps(dataclasses.asdict(WORLD)["chunks"]))
    built = PlantedWorld(chunks=plain, interactions=[["Greet the catalogue", "Prefer round prices", 0]])  # type: ignore[arg-type]
    assert built.chunks == WORLD.chunks
    assert built.interactions == (("Greet the catalogue", "Prefer round prices", 0.0),)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks_per_split": {"exam": 3}}, "unknown splits, 1: exam"),
        ({"grades": 0}, "grades must be 1 or more"),
        ({"interactions": (("Nobody", "Nowhere", 0.1),)}, "these must exist, 2: Nobody, Nowhere"),
        ({"chunks": (PlantedChunk("A", 0.1), PlantedChunk("A", 0.2))}, "titles must be unique"),
    ],
)
def test_impossible_worlds_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PlantedWorld(**settings)  # type: ignore[arg-type]


def test_a_session_pays_what_its_action_says() -> None:
    session = WORLD.open()
    session.reset("planted-test-0000")
    assert session.step("everything").feedback == "unavailable_action"
    outcome = session.step("0.5")
    assert (outcome.done, outcome.reward, outcome.parts) == (True, 0.5, {"r_strict": 0.5, "r_half": 0.25})
    with pytest.raises(RuntimeError, match="not running"):
        session.step("0.5")
    assert WORLD.open().terminate("action_limit").reward == 0.0


def measured_coverage(gates: int) -> float:
    spec = importlib.util.spec_from_file_location("planted_coverage", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return float(module.measure(gates, seed=0)[-1]["coverage"])


def test_intervals_cover_the_truth_in_a_few_gates() -> None:
    assert 0.90 <= measured_coverage(20) < 1.0


@pytest.mark.slow
def test_intervals_cover_the_truth_in_93_to_97_percent_of_500_gates() -> None:
    assert 0.93 <= measured_coverage(500) <= 0.97
