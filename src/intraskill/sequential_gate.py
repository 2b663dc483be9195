"""Both arms of a gate, whole or batch by batch: a sequential gate looks after every batch and stops once it knows.

The looks are planned before the first rollout and spend one error rate between them, so looking does not inflate it.
Every batch leaves artifacts of its own, and a resumed gate takes every look again from these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from intraskill.arms import read_rollouts, run_arm, run_scored_arm
from intraskill.assembly import Run
from intraskill.assessment import estimate
from intraskill.gate_arms import bare_episodes, masked_episodes, paired
from intraskill.gate_facts import GateFacts
from intraskill.gate_power import outlook
from intraskill.method.designs import Masks
from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.randomness import shuffled
from intraskill.method.rollouts import Rollout
from intraskill.method.sequential import Look, SequentialRule, look
from intraskill.method.tasks import Task
from intraskill.runtime.records import to_json
from intraskill.runtime.run_directory import read_jsonl, write_json, write_jsonl

TYPICAL_SE = 0.04
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


def run_arms(run: Run, directory: Path, facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> GateRuns:
    """Run both arms, or what is left of them, into ``bare.jsonl`` and ``masked.jsonl``."""
    if facts.sequential and facts.columns.chunks:
        return _in_batches(run, directory, facts, tasks, masks)
    bare = run_scored_arm(run, directory / "bare.jsonl", facts.round_index, bare_episodes(run, facts, tasks))
    masked = bare
    if facts.columns.chunks:
        episodes = masked_episodes(facts, tasks, masks)
        masked = run_scored_arm(run, directory / "masked.jsonl", facts.round_index, episodes)
    return GateRuns(tasks, bare, masked)


def sequential_rule(facts: GateFacts, tasks: int) -> SequentialRule:
    """Return the looks of a gate over at most so many tasks; a pair is one masked replicate."""
    rows = facts.design.masked_replicates
    plan = outlook(facts, tasks, facts.sigma, facts.correlation)
    return SequentialRule(
        planned_pairs=tasks * rows,
        max_pairs=tasks * rows,
        batch=facts.sequential * rows,
        tight_se=float(plan.se_J.max()) if plan else TYPICAL_SE,
        negligible=facts.effect or None,
        first_look=min(100, tasks) * rows,
        boundary="spending",
    )


def _in_batches(run: Run, directory: Path, facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> GateRuns:
    """Add batches of tasks, in an order drawn before any reward, until every chunk is decided or the tasks end."""
    rule, by_id = sequential_rule(facts, len(tasks)), {task.id: task for task in tasks}
    order = [by_id[task_id] for task_id in shuffled(by_id, facts.seed, "sequential", facts.round_index)]
    given = directory / "bare.jsonl"
    whole = read_rollouts(given) if given.exists() and not (directory / "bare_000.jsonl").exists() else None
    bare: list[Rollout] = []
    masked: list[Rollout] = []
    state, done, number = Look(), 0, 0
    for number, pairs in enumerate(rule.looks()):
        fresh, done = order[done : pairs // facts.design.masked_replicates], pairs // facts.design.masked_replicates
        play = run_arm if number else run_scored_arm  # a small batch may fault as a whole, an arm may not
        if whole is None:
            path = directory / f"bare_{number:03d}.jsonl"
            bare += play(run, path, facts.round_index, bare_episodes(run, facts, fresh))
        path = directory / f"masked_{number:03d}.jsonl"
        masked += play(run, path, facts.round_index, masked_episodes(facts, fresh, masks))
        state = _look(run, facts, state, rule, (whole or bare, masked, {t.id: masks[t.id] for t in order[:done]}))
        if state.stops(rule):
            break
    if whole is None:
        _join(directory, "bare", number + 1)
    _join(directory, "masked", number + 1)
    words = f"Sequential: {state.words(rule)}."
    looks = {"rule": to_json(rule), "looks": list(rule.looks()), "last": to_json(state), "words": words}
    write_json(directory / "sequential.json", looks | {"tasks": [task.id for task in order[:done]]})
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
        found = estimate(facts, pairs, facts.estimator).without(facts.placebo_ids)
    except (RankDeficientError, NoVariationError):
        return state
    return look(state, found, rule) if found.num_pairs > state.pairs else state


def _join(directory: Path, arm: str, batches: int) -> None:
    """Write the arm as one file, as every other gate leaves it."""
    rows = [row for number in range(batches) for row in read_jsonl(directory / f"{arm}_{number:03d}.jsonl")]
    write_jsonl(directory / f"{arm}.jsonl", rows)
