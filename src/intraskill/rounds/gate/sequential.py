"""A sequential gate: both arms batch by batch, until every chunk is decided or the tasks end."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.gate.designs import Masks
from intraskill.method.gate.diagnostics.sequential import Boundary, Look, SequentialRule, look
from intraskill.method.randomness import shuffled
from intraskill.method.rollouts import Rollout
from intraskill.method.tasks import Task
from intraskill.rounds.arms import run_arm, run_scored_arm
from intraskill.rounds.gate.assess import estimate, paired
from intraskill.rounds.gate.outlook import outlook
from intraskill.rounds.gate.plan import GateFacts, bare_episodes, masked_episodes
from intraskill.rounds.run import Run
from intraskill.store.artifacts import (
    BARE_ARM,
    MASKED_ARM,
    SEQUENTIAL,
    Rows,
    batch_of,
)
from intraskill.store.contents import SequentialLooks
from intraskill.store.records import to_json
from intraskill.store.run_directory import write_jsonl

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
        boundary=cast(Boundary, facts.gate.boundary),
    )


def in_batches(run: Run, directory: Path, facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> GateRuns:
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
        masked += play(run, path, facts.round_index, masked_episodes(facts, fresh, masks))
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
