"""The gate of one round on skill-validation: bare, masked, fit, decide, then the committed skill whole (method §7).

Round 0 calls it with no edits; every later round with its candidates. Nothing else reads skill-validation rewards.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intraskill.method.gate.bounded import bounded_interval, paired_interval
from intraskill.method.gate.designs import Masks
from intraskill.method.gate.intervals import Interval
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.skill import Skill
from intraskill.method.tasks import Task
from intraskill.rounds.arms import plan_arm, run_scored_arm, score, task_means
from intraskill.rounds.gate.assess import Assessment, Validation, assess, contributions_json, faults_of, paired
from intraskill.rounds.gate.outlook import check_power
from intraskill.rounds.gate.plan import GateFacts, bare_episodes, gate_facts, masked_episodes, with_slices, write_masks
from intraskill.rounds.gate.sequential import GateRuns, in_batches
from intraskill.rounds.run import Run
from intraskill.store.artifacts import (
    BARE_ARM,
    CONTRIBUTIONS,
    DECISION,
    FULL_ARM,
    MASKED_ARM,
    SKILL,
)
from intraskill.store.run_directory import write_json


def _run_arms(run: Run, directory: Path, facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> GateRuns:
    """Run both arms, or what is left of them, into ``bare.jsonl`` and ``masked.jsonl``."""
    if facts.gate.sequential and facts.columns.chunks:
        return in_batches(run, directory, facts, tasks, masks)
    bare = run_scored_arm(run, BARE_ARM.path(directory), facts.round_index, bare_episodes(run, facts, tasks))
    masked = bare
    if facts.columns.chunks:
        episodes = masked_episodes(facts, tasks, masks)
        masked = run_scored_arm(run, MASKED_ARM.path(directory), facts.round_index, episodes)
    return GateRuns(tasks, bare, masked)


def round_facts(run: Run, round_index: int, skill: Skill, edits: Sequence[Edit]) -> GateFacts:
    """Return the facts of the gate that a round of this run holds."""
    seed, gate = run.config.seed, run.config.gate
    facts = gate_facts(gate, skill, edits, round_index=round_index, seed=seed, root=run.root)
    return with_slices(facts, run.tasks("skill_validation", gate.tasks), gate.slices)


def validate_skill(run: Run, directory: Path, facts: GateFacts, *, alone: bool = False) -> Validation:
    """Run the gate at the learner's present weights; every stage leaves its artifact in ``directory``.

    Args:
        run: the run.
        directory: where the artifacts go.
        facts: what the gate fixes before its first rollout.
        alone: a measurement that commits nothing: the full arm shows ``facts.skill`` instead of the skill that the
            gate decides on, every estimator is fitted; the power check and the tables are left to the caller.

    Raises:
        ArtifactError: when ``masks.json`` there belongs to another plan.
        PairingError: when the arms do not pair.
        RankDeficientError: when there are too few tasks for the pool.
    """
    tasks = run.tasks("skill_validation", run.config.gate.tasks)
    if not alone:
        check_power(run, facts, len(tasks), refuse=False)
    masks = write_masks(directory, facts, tasks, run.learner, run.config.seed)
    arms = _run_arms(run, directory, facts, tasks, masks)
    bare = arms.bare
    played = {task.id: masks[task.id] for task in arms.tasks}
    pairs, excluded = paired(run, facts, played, bare, arms.masked)
    faults = faults_of(pairs, played, bare, arms.masked, run.bounds)
    found = assess(facts, pairs, every_estimator=alone, faults=faults)
    if not alone:
        write_verdict(directory, found, contributions_json(found, pairs, excluded))
    skill = facts.skill if alone else found.decision.skill
    full = _full_arm(run, directory, facts.round_index, skill, arms.tasks)
    r_pair, gap = _pair_arm(run, skill, task_means(bare), task_means(full))
    scored = score(full, run.learner.conditions, "skill_validation")
    free = bounded_interval(list(task_means(bare).values()), run.bounds)
    shown = frozenset(skill.ids)
    return Validation(facts, pairs, found, tuple(excluded), shown, scored, free, r_pair, gap, arms.stopped)


def write_verdict(directory: Path, found: Assessment, contributions: Mapping[str, Any]) -> None:
    """Write what a gate measured, what follows for each chunk, and the skill that is left."""
    write_json(CONTRIBUTIONS.path(directory), contributions)
    DECISION.write(directory, found.decision, {"kept": found.decision.kept})
    SKILL.write(directory, found.decision.skill)


def _full_arm(run: Run, directory: Path, round_index: int, skill: Skill, tasks: Sequence[Task]) -> tuple[Rollout, ...]:
    """Run the arm that shows a skill whole; an empty skill shows nothing."""
    if not (run.config.gate.full_arm and skill.chunks):
        return ()
    episodes = plan_arm(run.config.seed, tasks, skill, frozenset(skill.ids), address=("full", round_index))
    return run_scored_arm(run, FULL_ARM.path(directory), round_index, episodes)


def _pair_arm(
    run: Run, skill: Skill, alone: Mapping[str, float], full: Mapping[str, float]
) -> tuple[Interval | None, Interval | None]:
    """Return R_pair and the gap; with an empty skill R_pair is R_free."""
    if not run.config.gate.full_arm:
        return None, None
    together = full if skill.chunks else alone
    shared = [task_id for task_id in alone if task_id in together]
    gap = paired_interval([alone[task_id] for task_id in shared], [together[task_id] for task_id in shared], run.bounds)
    return bounded_interval(list(together.values()), run.bounds), gap
