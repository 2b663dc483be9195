"""The two arms of a gate and their pairs: who plays what under which seed, and which tasks stay.

An episode's address holds nothing but seed, round, task and sample, so arms may be run whole, in batches, or reused.
"""

from collections.abc import Sequence

from intraskill.arms import bare_arm, score
from intraskill.assembly import Run
from intraskill.gate_facts import GateFacts
from intraskill.method.designs import Masks
from intraskill.method.paired_validation import Pairs, pair_replicates
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode, Rollout
from intraskill.method.skill import BARE
from intraskill.method.tasks import Task


def bare_episodes(run: Run, facts: GateFacts, tasks: Sequence[Task]) -> list[Episode]:
    """Return the bare arm; its address holds the run's seed and the round alone, so that a later gate may reuse it."""
    address = ("bare", facts.round_index)
    return bare_arm(run, tasks, facts.columns, address=address, repeats=facts.design.bare_replicates)


def masked_episodes(facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> list[Episode]:
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
    return pair_replicates(arms[0], arms[1], kept, facts.columns.ids, bare_replicates=number), faulted
