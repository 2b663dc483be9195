"""Policies, estimators, designs, placebos, replicates and sequential gates inside whole runs."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from method_records import edit, pairs_of, skill
from planted_runs import TASKS, content, planted_config

from intraskill.config.config import Config
from intraskill.environments.planted import PlantedLearner
from intraskill.method.errors import ConfigError, EnvironmentFault, UnderpoweredError
from intraskill.method.gate.diagnostics.attrition import ChunkAttrition
from intraskill.method.gate.estimators import history
from intraskill.method.gate.power import (
    PUBLISHED_CORRELATION,
    PUBLISHED_SIGMA,
    GateDesign,
    tasks_for,
)
from intraskill.method.gate.shrinkage import carry_over
from intraskill.method.randomness import shuffled
from intraskill.method.skill.skill import Skill, parse_skill
from intraskill.report.summary import summarise
from intraskill.report.tables import chunks_table, remeasured_table
from intraskill.rounds.earlier_rounds import earlier_bare, earlier_contributions, last_noise, query_count
from intraskill.rounds.gate.assess import assess
from intraskill.rounds.gate.outlook import outlook
from intraskill.rounds.gate.plan import gate_facts
from intraskill.rounds.gate.sequential import sequential_rule
from intraskill.rounds.loop import cold_start, run
from intraskill.rounds.setup import assemble, bench
from intraskill.rounds.sizes import check_planned_power, check_sizes
from intraskill.store.run_directory import read_json, read_jsonl

EXACT = 1e-12
CAREFUL = {"policy": "probability", "design": "balanced", "estimator": "covariate", "placebos": 2, "replicates": 2}


class WithFaults(PlantedLearner):
    """Some tasks always fault."""

    def __init__(self, world, broken):
        super().__init__(world)
        self.broken = broken

    def run(self, episodes):
        return tuple(
            replace(rollout, reward=None, parts={}, fault="server gone") if rollout.task_id in self.broken else rollout
            for rollout in super().run(episodes)
        )


def configured(root, gate, **options):
    config = planted_config(root, **options)
    for name, value in gate.items():
        setattr(config.gate, name, value)
    return config


@pytest.fixture(scope="module")
def careful(tmp_path_factory):
    return run(configured(tmp_path_factory.mktemp("careful") / "run", CAREFUL))


@pytest.mark.parametrize(
    "gate",
    [{"policy": "fdr", "fdr": 0.2, "estimator": "ancova"}, {"policy": "probability", "estimator": "masked_ols"}],
)
def test_a_run_with_each_policy_ends_and_its_skill_is_what_the_policy_kept(tmp_path, gate):
    root = run(configured(tmp_path / "run", gate))
    for directory in sorted(root.glob("round_*")):
        kept = read_json(directory / "decision.json")["kept"]
        assert list(parse_skill((directory / "skill.md").read_text()).ids) == kept
        found = read_json(directory / "contributions.json")
        assert found["estimator"] == gate["estimator"] and found["beside"]["paired_ols"]["estimator"] == "paired_ols"
        assert read_json(directory / "masks.json")["policy"]["name"] == gate["policy"]


def test_the_default_gate_leaves_the_artifacts_that_it_always_left(tmp_path):
    root = run(planted_config(tmp_path / "run"))
    found = read_json(root / "round_001" / "contributions.json")
    assert found["estimator"] == "paired_ols" and not {"beside", "placebos", "chunks"} & set(found)
    assert not list(root.glob("round_*/sequential.json")) and not list(root.glob("round_*/pairs.parquet"))


def test_a_careful_run_killed_between_artifacts_ends_in_the_same_bytes(careful, tmp_path):
    expected = content(careful)
    for number, victim in enumerate(("round_002/masked.jsonl", "round_001/contributions.json", "round_002/masks.json")):
        root = tmp_path / str(number)
        shutil.copytree(careful, root)
        broken = root / victim
        shutil.rmtree(root / "final")
        later = [path for path in root.glob("round_*") if path.name > broken.parent.name]
        for directory in later:
            shutil.rmtree(directory)
        order = sorted(broken.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in order[[path.name for path in order].index(broken.name) :]:
            path.unlink() if path.is_file() else None
        run(configured(root, CAREFUL))
        found = content(root)
        assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == [], victim


def test_a_chunk_held_for_want_of_evidence_gets_the_lowest_exposure_whatever_its_contribution(careful):
    held = []
    for directory in sorted(careful.glob("round_*")):
        fates = read_json(directory / "decision.json")["fates"]
        beta = {chunk["id"]: chunk["beta"] for chunk in read_json(directory / "round.json")["chunks"]}
        for chunk_id, rho in read_json(directory / "curriculum.json")["exposure"].items():
            if fates[chunk_id] == "held_at_floor":
                held.append(beta[chunk_id])
                assert rho == 0.20
    assert max(held) > 0.01  # by its contribution alone it would be shown more often


def test_rows_show_intervals_and_under_this_policy_the_probability(careful):
    rounds = summarise(careful)["rounds"]
    for chunk in (chunk for row in rounds for chunk in row["chunks"]):
        assert chunk["low"] < chunk["beta"] < chunk["high"] and 0.0 <= chunk["probability"] <= 1.0
    headings = [column.name for column in chunks_table(rounds).columns]
    assert "P(>0)" in headings
    plain = [
        {**row, "chunks": [{k: v for k, v in c.items() if k != "probability"} for c in row["chunks"]]} for row in rounds
    ]
    assert "P(>0)" not in [column.name for column in chunks_table(plain).columns]


def test_balanced_replicates_and_placebos_are_in_the_plan_and_in_the_runs(careful):
    directory = careful / "round_001"
    plan, rows = read_json(directory / "masks.json"), read_jsonl(directory / "masked.jsonl")
    assert len(rows) == 96 and len(plan["placebos"]) == 2
    shown = {(row["task_id"], row["sample"]): row["visible"] for row in rows}
    assert all(shown[task, sample] == ids for task, sets in plan["visible"].items() for sample, ids in enumerate(sets))
    placebo = plan["placebos"][0]
    assert sum(placebo in row["visible"] for row in rows if row["sample"] == 0) == 24
    found = read_json(directory / "contributions.json")
    assert found["covariance"] == "CR3" and not set(plan["placebos"]) & set(found["chunk_ids"])
    assert found["placebos"]["chunk_ids"] == [c for c in plan["chunks"] if c in plan["placebos"]]


def test_a_gate_hears_the_rounds_before_it_and_no_other(careful):
    config = configured(careful, CAREFUL).gate
    arguments = {"seed": 0, "root": careful}
    first, third = (gate_facts(config, Skill(""), (), round_index=t, **arguments) for t in (0, 2))
    assert first.earlier == {} and first.history == {}
    assert third.earlier == carry_over(earlier_contributions(careful, 2), 0.5) and third.earlier
    assert third.history == history(earlier_bare(careful, 2)) and len(third.history) == 48
    assert third.history != history(earlier_bare(careful, 1))
    assert "earlier bare" in read_json(careful / "round_002" / "contributions.json")["nuisance"]
    assert "earlier bare" not in read_json(careful / "round_000" / "contributions.json")["nuisance"]
    deaf = gate_facts(Config().gate, Skill(""), (), round_index=2, **arguments)
    assert deaf.earlier == {} and deaf.history == {} and deaf.sigma == PUBLISHED_SIGMA


def test_power_is_planned_with_the_spread_of_the_last_gate(careful):
    config = configured(careful, CAREFUL | {"effect": 0.1}).gate
    measured = last_noise(careful, 2)
    assert measured is not None
    facts = gate_facts(config, Skill(""), (), round_index=2, seed=0, root=careful)
    assert facts.sigma == measured.sigma and 0.2 < facts.sigma < 1.0
    config.sigma = 0.3
    assert gate_facts(config, Skill(""), (), round_index=2, seed=0, root=careful).sigma == 0.3
    assert last_noise(careful, 0) is None


def test_the_summary_counts_queries_and_measures_incumbents_again(careful):
    summary = summarise(careful)
    assert summary["queries"]["decisions"] == 3 and summary["queries"]["most_per_task"] == 3
    assert summary["queries"]["rewards"] == 3 * 48 * 4 == query_count(careful).rewards
    rows = summary["remeasured"]["chunks"]
    assert rows and {"title", "at_selection", "shrunk", "remeasured"} <= set(rows[0])
    later = read_json(careful / f"round_00{rows[0]['selected_in'] + 1}" / "contributions.json")
    assert rows[0]["remeasured"] == later["beta_J"][later["chunk_ids"].index(rows[0]["chunk_id"])]
    assert rows[0]["remeasured"] != rows[0]["at_selection"]
    assert "measured again one round later" in summary["remeasured"]["words"]
    table, words = remeasured_table(summary["remeasured"])
    assert len(table.rows) == len(rows) and words.text == summary["remeasured"]["words"]


# --- sequential gates

STRONG = [{"title": f"Chunk {j}", "effect": effect} for j, effect in enumerate((0.45, -0.40))]
MANY = {"tasks_per_split": TASKS | {"skill_validation": 400}, "chunks": STRONG, "baseline": 0.5, "spread": 0.0}


@pytest.fixture(scope="module")
def sequential(tmp_path_factory):
    config = configured(tmp_path_factory.mktemp("sequential") / "run", {"sequential": 50}, **MANY)
    config.rounds, config.final.tasks = 1, 0
    return config, run(config)


def test_a_sequential_gate_stops_once_every_chunk_is_decided_and_says_what_it_saved(sequential):
    _, root = sequential
    directory = root / "round_000"
    found = read_json(directory / "sequential.json")
    pairs = read_json(directory / "contributions.json")["num_pairs"]
    assert found["last"]["pairs"] == pairs == len(found["tasks"]) < 400 and found["last"]["undecided"] == []
    assert f"{pairs} pairs ({400 - pairs} fewer than planned)" in found["words"]
    assert sorted(found["last"]["calls"].values()) == ["harms", "helps"]
    assert read_json(directory / "round.json")["stopped"] == found["words"]
    for arm in ("bare", "masked"):
        batches = [row for path in sorted(directory.glob(f"{arm}_*.jsonl")) for row in read_jsonl(path)]
        assert read_jsonl(directory / f"{arm}.jsonl") == batches and len(batches) == pairs
    assert {row["task_id"] for row in read_jsonl(directory / "full.jsonl")} == set(found["tasks"])
    assert query_count(root).by_task.keys() <= {row["task_id"] for row in read_jsonl(directory / "bare.jsonl")} | set(
        read_json(root / "round_001" / "sequential.json")["tasks"]
    )


def test_useless_chunks_are_measured_to_the_end(tmp_path):
    chunks = [{"title": f"Chunk {j}", "effect": 0.0} for j in range(3)]
    sizes = {"tasks_per_split": TASKS | {"skill_validation": 120}, "chunks": chunks}
    config = configured(tmp_path / "run", {"sequential": 20}, **sizes)
    config.rounds, config.final.tasks = 0, 0
    found = read_json(run(config) / "round_000" / "sequential.json")
    assert found["last"]["pairs"] == 120 and found["looks"] == [100, 120]


@pytest.mark.parametrize("victim", ["masked_000.jsonl", "bare_001.jsonl", "masked.jsonl", "sequential.json"])
def test_a_sequential_gate_killed_after_any_batch_ends_in_the_same_bytes(sequential, tmp_path, victim):
    config, whole = sequential
    root = tmp_path / "run"
    shutil.copytree(whole, root)
    shutil.rmtree(root / "round_001")
    order = sorted((root / "round_000").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    names = [path.name for path in order]
    for path in order[names.index(victim) :]:
        path.unlink() if path.is_file() else None
    again = configured(root, {"sequential": 50}, **MANY)
    again.rounds, again.final.tasks = 1, 0
    run(again)
    found, expected = content(root), content(whole)
    assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []
    assert config.run_dir == str(whole)


def test_the_looks_are_planned_in_rows_before_any_reward(sequential):
    config, root = sequential
    setup = bench(config, root)
    facts = gate_facts(config.gate, setup.environment.draft, (), round_index=0, seed=0, root=None)
    rule = sequential_rule(facts, 400)
    assert rule.looks() == (100, 150, 200, 250, 300, 350, 400) and rule.boundary == "spending"
    config.gate.replicates = 2
    doubled = gate_facts(config.gate, setup.environment.draft, (), round_index=0, seed=0, root=None)
    config.gate.replicates = 1
    assert sequential_rule(doubled, 400).looks() == tuple(2 * pairs for pairs in rule.looks())
    assert read_json(root / "round_000" / "masks.json")["sequential"] == 50


@pytest.mark.parametrize("replicates", [1, 2])
def test_a_sequential_gate_survives_a_last_batch_of_faults_and_no_arm_of_them(tmp_path, monkeypatch, replicates):
    chunks = [{"title": f"Chunk {j}", "effect": 0.0} for j in range(2)]
    sizes = {"tasks_per_split": TASKS | {"skill_validation": 130}, "chunks": chunks, "baseline": 0.5, "spread": 0.0}
    config = configured(tmp_path / "run", {"sequential": 50, "replicates": replicates}, **sizes)
    config.rounds, config.final.tasks, config.rollout.attempts = 0, 0, 1
    names = [task.id for task in bench(config, tmp_path).environment.tasks("skill_validation")]
    order, learner = shuffled(names, config.seed, "sequential", 0), "intraskill.environments.planted.PlantedLearner"
    with monkeypatch.context() as patch:
        patch.setattr(
            "intraskill.environments.planted.PlantedLearner", lambda world: WithFaults(world, set(order[100:]))
        )
        root = run(config)
    found = read_json(root / "round_000" / "sequential.json")
    assert found["looks"] == [100 * replicates, 130 * replicates] and found["last"]["pairs"] == 100 * replicates
    assert sorted(read_json(root / "round_000" / "contributions.json")["excluded_tasks"]) == sorted(order[100:])
    config.run_dir = str(tmp_path / "broken")
    with monkeypatch.context() as patch:
        patch.setattr(learner, lambda world: WithFaults(world, set(names)))
        with pytest.raises(EnvironmentFault, match="every one of 100 rollouts"):
            run(config)


# --- sizes


@pytest.mark.parametrize(
    ("gate", "needed"),
    [({}, 17), ({"estimator": "ancova"}, 19), ({"placebos": 3}, 20), ({"placebos": 3, "estimator": "covariate"}, 23)],
)
def test_placebos_and_nuisance_columns_cost_tasks(gate, needed, tmp_path):
    config = configured(tmp_path, gate)
    check_sizes(config, {"skill_validation": needed}, Skill(""))
    with pytest.raises(ConfigError, match=f"which takes {needed} skill-validation tasks"):
        check_sizes(config, {"skill_validation": needed - 1}, Skill(""))


def test_a_run_that_requires_power_is_refused_before_it_starts_and_never_half_way(tmp_path):
    config = configured(tmp_path / "run", {"effect": 0.1, "require_power": True})
    with pytest.raises(UnderpoweredError, match=r"with 48 tasks, 16 chunks and σ = 0\.44 .* asked for 0\.100"):
        run(config)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UnderpoweredError, match=r"48 tasks are too few for 16 chunks.* Use 160 tasks"):
        run(configured(tmp_path / "run", {"effect": 0.2, "sigma": 0.1, "require_power": True}))
    enough = {"tasks_per_split": TASKS | {"skill_validation": 160}}
    config = configured(tmp_path / "run", {"effect": 0.1, "sigma": 0.1, "require_power": True}, **enough)
    config.rounds, config.final.tasks = 0, 0
    said = []
    setup = assemble(config)
    setup.monitor.say = said.append
    cold_start(setup)
    assert (tmp_path / "run" / "round_000" / "DONE").exists() and not [line for line in said if "warning" in line]
    config = configured(tmp_path / "weak", {"effect": 0.1})
    config.rounds, config.final.tasks = 0, 0
    setup = assemble(config)
    setup.monitor.say = said.append
    cold_start(setup)
    assert [line for line in said if "warning: with 48 tasks, 5 chunks" in line]


@pytest.mark.parametrize(("estimator", "law"), [("masked_ols", "masked_ols"), ("covariate", "ancova")])
def test_an_unknown_correlation_is_the_published_one_and_not_the_most_convenient(tmp_path, estimator, law):
    gate = configured(tmp_path, {"estimator": estimator, "effect": 0.1, "require_power": True}).gate
    published = GateDesign(12, 400, PUBLISHED_SIGMA, estimator=law, correlation=PUBLISHED_CORRELATION)
    enough = tasks_for(published, 0.1)
    assert tasks_for(GateDesign(12, 400, PUBLISHED_SIGMA, estimator=law, correlation=0.0), 0.1) < enough - 1
    check_planned_power(gate, 12, enough)
    with pytest.raises(UnderpoweredError):
        check_planned_power(gate, 12, enough - 1)
    facts = gate_facts(gate, skill("abcdefghijkl"), (), round_index=0, seed=0, root=None)
    assert facts.correlation is None
    seen = {rho: outlook(facts, 400, PUBLISHED_SIGMA, rho).smallest_effect for rho in (None, 0.6, 0.0, -0.2)}
    assert seen[None] == seen[0.6] > seen[0.0] == seen[-0.2]


def test_the_contributions_of_a_gate_are_those_of_its_recorded_rollouts(careful):
    found = read_json(careful / "round_000" / "contributions.json")
    rows = {(r["task_id"], r["sample"]): r for r in read_jsonl(careful / "round_000" / "masked.jsonl")}
    bare = {row["task_id"]: row["reward"] for row in read_jsonl(careful / "round_000" / "bare.jsonl")}
    ids = read_json(careful / "round_000" / "masks.json")["chunks"]
    design = np.array([[chunk_id in row["visible"] for chunk_id in ids] for row in rows.values()], dtype=float)
    delta = np.array([row["reward"] - bare[task_id] for (task_id, _), row in rows.items()])
    beta = dict(zip(ids, np.linalg.lstsq(design, delta, rcond=None)[0], strict=True))
    paired = found["beside"]["paired_ols"]
    assert np.allclose(paired["beta_J"], [beta[chunk_id] for chunk_id in paired["chunk_ids"]], atol=1e3 * EXACT)
    assert not np.allclose(found["beta_J"], paired["beta_J"], atol=1e-3)


# --- faults that go with a chunk


class Blaming(PlantedLearner):
    """Failing runs fault where one chunk is shown."""

    def __init__(self, world, chunk_id):
        super().__init__(world)
        self.chunk_id = chunk_id

    def run(self, episodes):
        rollouts = super().run(episodes)
        return tuple(
            replace(rollout, reward=None, parts={}, fault="timed out")
            if self.chunk_id in episode.visible and not rollout.reward
            else rollout
            for rollout, episode in zip(rollouts, episodes, strict=True)
        )


def test_faults_are_counted_by_what_their_runs_showed_whether_or_not_they_ended(tmp_path, monkeypatch):
    sizes = {"tasks_per_split": TASKS | {"skill_validation": 160}}
    config = configured(tmp_path / "run", {}, **sizes)
    config.rounds, config.final.tasks = 0, 0
    root = run(config)
    plain = read_json(root / "round_000" / "contributions.json")
    assert "faults" not in plain
    blamed = plain["chunk_ids"][0]
    config.run_dir = str(tmp_path / "blamed")
    with monkeypatch.context() as patch:
        patch.setattr("intraskill.environments.planted.PlantedLearner", lambda world: Blaming(world, blamed))
        found = read_json(run(config) / "round_000" / "contributions.json")
    faults = found["faults"][blamed]
    # Failing runs are repeated until they end well: the bias is large, and the worst case is what the plain gate saw.
    assert found["beta_J"][0] > plain["beta_J"][0] + 0.2 and faults["low"] == pytest.approx(plain["beta_J"][0])
    assert faults["p"] < 1e-6 and faults["hidden_faults"] == 0 and faults["shown_faults"] > 10
    assert all(one["p"] > 0.05 for chunk_id, one in found["faults"].items() if chunk_id != blamed)


def test_a_candidate_whose_sign_its_faults_could_hide_waits(tmp_path):
    current, edits = skill("AB"), (edit("", "C"), edit("", "D"))
    facts = gate_facts(configured(tmp_path, {}).gate, current, edits, round_index=1, seed=0, root=None)
    rng = np.random.default_rng(0)
    shown_NJ = rng.random((200, 4)) < 0.5
    delta_N = 0.3 * shown_NJ.sum(axis=1) + rng.normal(0.0, 0.1, 200)
    pairs = pairs_of(shown_NJ.tolist(), delta_N.tolist(), "ABCD")
    suspect = ChunkAttrition(20, 100, 0, 100, 1e-5, -0.1, 0.4, 0.04)
    taken = assess(facts, pairs).decision
    assert {one.id for one in taken.taken} == {one.id for one in edits}
    held = assess(facts, pairs, faults={edits[0].added_ids[0]: suspect, current.ids[0]: suspect}).decision
    assert held.kept == tuple(chunk_id for chunk_id in taken.kept if chunk_id not in edits[0].added_ids)
    assert held.refused == (edits[0],) and held.fates[edits[0].id] == held.fates[edits[0].added_ids[0]] == "waiting"
    assert "20 of 100 runs faulted with it and 0 of 100 without it (p = 0.000)" in held.reasons[edits[0].added_ids[0]]
    harmless = replace(suspect, low=0.1)
    assert assess(facts, pairs, faults={edits[0].added_ids[0]: harmless}).decision.kept == taken.kept


def test_a_sequential_gate_may_use_the_boundary_that_holds_at_any_look(tmp_path):
    sizes = {"tasks_per_split": TASKS | {"skill_validation": 130}}
    found = {}
    for boundary in ("spending", "mixture"):
        config = configured(tmp_path / boundary, {"sequential": 50, "boundary": boundary}, **sizes)
        config.rounds, config.final.tasks = 0, 0
        found[boundary] = read_json(run(config) / "round_000" / "sequential.json")
        assert found[boundary]["rule"]["boundary"] == boundary
    assert found["mixture"]["last"] != found["spending"]["last"]
