"""The closing comparison on the reporting split: start and final pair, skill-free and with their skill (method §11)."""

from pathlib import Path
from typing import Any, cast

from intraskill.method.gate.bounded import Bounds, bounded_interval, mcnemar, paired_interval
from intraskill.method.gate.intervals import paired_counts
from intraskill.method.rewards import UNIT
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import BARE
from intraskill.method.tasks import Split, Task
from intraskill.rounds.arms import plan_arm, run_scored_arm, task_means, task_success
from intraskill.rounds.bound_pair import pair_of
from intraskill.rounds.run import Run, panel
from intraskill.store.artifacts import FINAL, PAIR, SKILL, arm
from intraskill.store.contents import FinalReport
from intraskill.store.lengthening import FINAL as FINAL_DIRECTORY
from intraskill.store.records import to_json
from intraskill.store.run_directory import is_sealed, seal, verify

# (before, after): what training gave, and what the skill adds at the end and at the start.
COMPARED = (("start_free", "final_free"), ("final_free", "final_pair"), ("start_free", "start_pair"))


def compare_start_and_final(run: Run, last_round: int) -> None:
    """Evaluate both checkpoints on the same tasks and write ``final/final.json``; the learner ends at the final one.

    ``pair.json`` binds the final pair, also when nothing is compared.
    """
    PAIR.write(run.root, pair_of(run.round_directory(last_round), run.environment.family))
    if run.config.final.tasks == 0:
        return
    directory = run.root / FINAL_DIRECTORY
    if is_sealed(directory):
        verify(directory)
        return
    directory.mkdir(exist_ok=True)
    settings = run.config.final
    tasks = panel(run.environment, cast(Split, settings.split), settings.tasks, run.config.seed)
    arms: dict[str, tuple[Rollout, ...]] = {}
    for name, round_index in (("start", 0), ("final", last_round)):
        source = run.round_directory(round_index)
        run.learner.load(source / "checkpoint")
        arms |= _both_modes(run, directory, name, round_index, tasks)
    report: FinalReport = {
        "split": settings.split,
        "tasks": len(tasks),
        "repeats": settings.repeats,
        "arms": {name: _interval(task_means(rollouts), run.bounds) for name, rollouts in arms.items()},
        "success": {name: _interval(task_success(rollouts), UNIT) for name, rollouts in arms.items()},
        "comparisons": {
            f"{after} - {before}": _compare(arms[before], arms[after], run.bounds) for before, after in COMPARED
        },
    }
    FINAL.write(directory, report)
    seal(directory)


def _both_modes(
    run: Run, directory: Path, name: str, round_index: int, tasks: tuple[Task, ...]
) -> dict[str, tuple[Rollout, ...]]:
    skill = SKILL.read(run.round_directory(round_index))
    repeats = run.config.final.repeats
    # One address for all arms: common random numbers, so that only the policy and the skill differ.
    episodes = plan_arm(run.config.seed, tasks, skill, BARE, address=("final",), repeats=repeats)
    free = run_scored_arm(run, arm(f"{name}_free").path(directory), round_index, episodes)
    paired = free
    if skill.chunks:
        episodes = plan_arm(run.config.seed, tasks, skill, frozenset(skill.ids), address=("final",), repeats=repeats)
        paired = run_scored_arm(run, arm(f"{name}_pair").path(directory), round_index, episodes)
    return {f"{name}_free": free, f"{name}_pair": paired}


def _interval(by_task: dict[str, float], bounds: Bounds) -> Any:
    return to_json(bounded_interval(list(by_task.values()), bounds))


def _compare(before: tuple[Rollout, ...], after: tuple[Rollout, ...], bounds: Bounds) -> dict[str, Any]:
    """Compare two arms task by task, by reward and by success, over the tasks scored in both."""
    result: dict[str, Any] = {}
    for name, measure, ends in (("reward", task_means, bounds), ("success", task_success, UNIT)):
        first, second = measure(before), measure(after)
        shared = sorted(set(first) & set(second))
        one, two = {task: first[task] for task in shared}, {task: second[task] for task in shared}
        result[name] = to_json(paired_interval(one, two, ends))
        counts = paired_counts(one, two)
        result["tasks"] = to_json(counts)
        result["mcnemar_p"] = mcnemar(counts.gained, counts.lost)
    return result
