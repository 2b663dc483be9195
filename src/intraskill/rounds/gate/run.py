"""The gate of one round on skill-validation: bare, masked, fit, decide, then the committed skill whole (method §7).

Round 0 calls it with no edits; every later round with its candidates. Nothing else reads skill-validation rewards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.gate.designs import Masks
from intraskill.method.gate.diagnostics.sequential import Look, SequentialRule, look
from intraskill.method.gate.intervals import Interval, mean_interval
from intraskill.method.gate.pairs import Pairs, pair
from intraskill.method.randomness import child_seed, shuffled
from intraskill.method.rollouts import Episode, Rollout
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.skill import BARE, Skill
from intraskill.method.tasks import Task
from intraskill.rounds.arms import plan_arm, run_arm, run_scored_arm, score, task_means
from intraskill.rounds.gate.assess import Assessment, Validation, assess, contributions_json, estimate
from intraskill.rounds.gate.plan import GateFacts, check_power, gate_facts, outlook, with_slices, write_masks
from intraskill.rounds.run import Run
from intraskill.store.artifacts import (
    BARE_ARM,
    CONTRIBUTIONS,
    DECISION,
    FULL_ARM,
    MASKED_ARM,
    SEQUENTIAL,
    SKILL,
    Rows,
    batch_of,
)
from intraskill.store.contents import SequentialLooks
from intraskill.store.records import to_json
from intraskill.store.run_directory import write_json, write_jsonl


def bare_episodes(run: Run, facts: GateFacts, tasks: Sequence[Task]) -> list[Episode]:
    """Return the bare arm; its address holds the run's seed and the round alone, so that a later gate may reuse it."""
    address = ("bare", facts.round_index)
    return plan_arm(run.config.seed, tasks, facts.columns, BARE, address=address, repeats=facts.design.bare_replicates)


def _masked_episodes(facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> list[Episode]:
    """Return the masked arm: one episode per task and replicate under its planned visible set."""
    columns = facts.columns
    return [
        Episode(task, columns, visible, sample, child_seed(facts.seed, "masked", facts.round_index, task.id, sample))
        for task in tasks
        for sample, visible in enumerate(masks[task.id])
    ]


def paired(
    run: Run, facts: GateFacts, masks: Masks, bare: Sequence[Rollout], masked: Sequence[Rollout]
) -> tuple[Pairs, list[str]]:
    """Pair the arms; tasks with a rollout whose every attempt faulted leave both arms and are reported."""
    faulted = sorted({rollout.task_id for rollout in (*bare, *masked) if rollout.fault is not None})
    number, conditions = facts.design.bare_replicates, run.learner.conditions
    if not facts.columns.chunks:  # the bare run is its own masked run
        masks = dict.fromkeys(masks, (BARE,) * number)
    kept = {task_id: visible for task_id, visible in masks.items() if task_id not in faulted}
    arms = [
        score((rollout for rollout in arm if rollout.task_id in kept), conditions, "skill_validation")
        for arm in (bare, masked)
    ]
    return pair(arms[0], arms[1], kept, facts.columns.ids, bare_replicates=number), faulted


_TYPICAL_SE = 0.04
"""Where the planner has nothing to say; only the mixture boundary reads it."""


@dataclass(frozen=True, slots=True)
class GateRuns:
    """What both arms of a gate played.

    Attributes:
        tasks: those with a masked run.
        bare: bare rollouts, at least those of ``tasks``.
        masked: masked rollouts; the bare ones when there is no chunk to show.
        stopped: where a sequential gate stopped, in words; empty otherwise.
    """

    tasks: Sequence[Task]
    bare: Sequence[Rollout]
    masked: Sequence[Rollout]
    stopped: str = ""


def _run_arms(run: Run, directory: Path, facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> GateRuns:
    """Run both arms, or what is left of them, into ``bare.jsonl`` and ``masked.jsonl``."""
    if facts.gate.sequential and facts.columns.chunks:
        return _in_batches(run, directory, facts, tasks, masks)
    bare = run_scored_arm(run, BARE_ARM.path(directory), facts.round_index, bare_episodes(run, facts, tasks))
    masked = bare
    if facts.columns.chunks:
        episodes = _masked_episodes(facts, tasks, masks)
        masked = run_scored_arm(run, MASKED_ARM.path(directory), facts.round_index, episodes)
    return GateRuns(tasks, bare, masked)


def sequential_rule(facts: GateFacts, tasks: int) -> SequentialRule:
    """Return the looks of a gate over at most so many tasks; a pair is one masked replicate."""
    rows = facts.design.masked_replicates
    plan = outlook(facts, tasks, facts.sigma, facts.correlation)
    return SequentialRule(
        planned_pairs=tasks * rows,
        max_pairs=tasks * rows,
        batch=facts.gate.sequential * rows,
        tight_se=float(plan.se_J.max()) if plan else _TYPICAL_SE,
        negligible=facts.gate.effect or None,
        first_look=min(100, tasks) * rows,
        boundary="spending",
    )


def _in_batches(run: Run, directory: Path, facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> GateRuns:
    """Add batches of tasks, in an order drawn before any reward, until every chunk is decided or the tasks end."""
    rule, by_id = sequential_rule(facts, len(tasks)), {task.id: task for task in tasks}
    order = [by_id[task_id] for task_id in shuffled(by_id, facts.seed, "sequential", facts.round_index)]
    given = BARE_ARM.exists(directory) and not batch_of(BARE_ARM, 0).exists(directory)
    whole = BARE_ARM.read(directory) if given else None
    bare: list[Rollout] = []
    masked: list[Rollout] = []
    state, done, number = Look(), 0, 0
    for number, pairs in enumerate(rule.looks()):
        fresh, done = order[done : pairs // facts.design.masked_replicates], pairs // facts.design.masked_replicates
        play = run_arm if number else run_scored_arm  # a small batch may fault as a whole, an arm may not
        if whole is None:
            path = batch_of(BARE_ARM, number).path(directory)
            bare += play(run, path, facts.round_index, bare_episodes(run, facts, fresh))
        path = batch_of(MASKED_ARM, number).path(directory)
        masked += play(run, path, facts.round_index, _masked_episodes(facts, fresh, masks))
        state = _look(run, facts, state, rule, (whole or bare, masked, {t.id: masks[t.id] for t in order[:done]}))
        if state.stops(rule):
            break
    if whole is None:
        _join(directory, BARE_ARM, number + 1)
    _join(directory, MASKED_ARM, number + 1)
    words = f"Sequential: {state.words(rule)}."
    played = tuple(task.id for task in order[:done])
    SEQUENTIAL.write(directory, SequentialLooks(to_json(rule), tuple(rule.looks()), to_json(state), words, played))
    run.monitor.say(words)
    return GateRuns(order[:done], whole or tuple(bare), tuple(masked), words)


def _look(
    run: Run,
    facts: GateFacts,
    state: Look,
    rule: SequentialRule,
    played: tuple[Sequence[Rollout], Sequence[Rollout], Masks],
) -> Look:
    """Look at every pair so far; pairs that cannot be fitted yet, or a batch of faults alone, decide nothing."""
    bare, masked, masks = played
    pairs, _ = paired(run, facts, masks, [rollout for rollout in bare if rollout.task_id in masks], masked)
    try:
        found = estimate(facts, pairs, facts.gate.estimator).without(facts.placebo_ids)
    except (RankDeficientError, NoVariationError):
        return state
    return look(state, found, rule) if found.num_pairs > state.pairs else state


def _join(directory: Path, arm: Rows[Rollout], batches: int) -> None:
    """Write the arm as one file, as every other gate leaves it."""
    rows = [row for number in range(batches) for row in batch_of(arm, number).data(directory)]
    write_jsonl(arm.path(directory), rows)


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
        NoVariationError: when all rewards are the same.
    """
    tasks = run.tasks("skill_validation", run.config.gate.tasks)
    if not alone:
        check_power(run, facts, len(tasks), refuse=False)
    masks = write_masks(directory, facts, tasks, run.learner, run.config.seed)
    arms = _run_arms(run, directory, facts, tasks, masks)
    bare = arms.bare
    pairs, excluded = paired(run, facts, {task.id: masks[task.id] for task in arms.tasks}, bare, arms.masked)
    found = assess(facts, pairs, every_estimator=alone)
    if not alone:
        write_verdict(directory, found, contributions_json(found, pairs, excluded))
    skill = facts.skill if alone else found.decision.skill
    full = _full_arm(run, directory, facts.round_index, skill, arms.tasks)
    r_pair, gap = _pair_arm(run, skill, task_means(bare), task_means(full))
    scored = score(full, run.learner.conditions, "skill_validation")
    free = mean_interval(list(task_means(bare).values()))
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
    gap = mean_interval([together[task_id] - alone[task_id] for task_id in shared])
    return mean_interval(list(together.values())), gap
