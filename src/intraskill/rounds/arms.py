"""Evaluation arms: episodes run in fixed batches, each saved when whole; a batch that was cut off is run again."""

import dataclasses
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from intraskill.method.answers import Answers, an_unreadable, answers_of, count
from intraskill.method.errors import EnvironmentFault, NothingToLearnError
from intraskill.method.gate.intervals import reward_note, standard_error
from intraskill.method.gate.pairs import Conditions, Scored
from intraskill.method.randomness import child_seed
from intraskill.method.rewards import success_of
from intraskill.method.rollouts import Episode, Rollout
from intraskill.method.skill.skill import Skill, Visible
from intraskill.method.tasks import Task
from intraskill.rounds.run import Run
from intraskill.store.records import from_json, lean, to_json
from intraskill.store.run_directory import PartialLog, read_jsonl


def plan_arm(
    seed: int,
    tasks: Iterable[Task],
    skill: Skill,
    visible: Visible,
    *,
    address: tuple[str | int, ...],
    repeats: int = 1,
) -> list[Episode]:
    """Return ``repeats`` episodes per task under one visible set; each draw depends on its own address only."""
    return [
        Episode(task, skill, visible, sample, child_seed(seed, *address, task.id, sample))
        for task in tasks
        for sample in range(repeats)
    ]


def run_arm(run: Run, path: Path, round_index: int | None, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
    """Run episodes into ``path`` at the learner's present weights, or read them when they are already there.

    A faulted episode is tried again with fresh seeds up to ``rollout.attempts`` times; what still fails stays a
    fault. Tokens are dropped once counted; the public turns stay, as evidence. An arm of no round (``None``), as of an
    evaluation with metrics of its own, counts there as round 0.
    """
    if not path.exists():
        _run_batches(run, path, round_index, episodes)
    rollouts = read_rollouts(path)
    _look_at_answers(run, path, round_index, rollouts)
    return rollouts


def _look_at_answers(run: Run, path: Path, round_index: int | None, rollouts: Sequence[Rollout]) -> None:
    """Say that most answers are no calls; before any training stop when nearly all are.

    Raises:
        NothingToLearnError: at the cold start, beyond ``rollout.max_invalid``.
    """
    answers = answers_of(rollouts)
    complaint = answers.complaint(an_unreadable(rollouts))
    if not complaint:
        return
    if round_index == 0 and answers.invalid_share > run.config.rollout.max_invalid:
        raise NothingToLearnError(
            f"{path}: {complaint}; nothing can be learned from them. Mend the form, or train a start that knows it, "
            "delete this file and run the same command again; rollout.max_invalid=1 goes on all the same"
        )
    run.monitor.say(f"warning: {path.stem}: {complaint}")


def run_scored_arm(run: Run, path: Path, round_index: int | None, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
    """Do the same for an arm whose mean is reported.

    Raises:
        EnvironmentFault: when every rollout was a fault; the arm can be run again once its file is deleted.
    """
    rollouts = run_arm(run, path, round_index, episodes)
    faults = [rollout.fault for rollout in rollouts if rollout.fault is not None]
    if rollouts and len(faults) == len(rollouts):
        raise EnvironmentFault(
            f"every one of {len(faults)} rollouts of {path} was a fault, first: {faults[0]}; mend the environment, "
            "delete this file and run the same command again"
        )
    return rollouts


def read_rollouts(path: Path) -> tuple[Rollout, ...]:
    """Read the rollouts of an arm.

    Raises:
        ArtifactError: when the file is corrupt.
    """
    return tuple(from_json(Rollout, row, path) for row in read_jsonl(path))


def _run_batches(run: Run, path: Path, round_index: int | None, episodes: Sequence[Episode]) -> None:
    log, batch, stage = PartialLog(path), run.config.rollout.batch, path.stem
    number = round_index or 0
    run.metrics.rewind(number, stage)
    lines = log.count()
    rows = log.keep(lines if lines == len(episodes) else lines // batch * batch)
    run.monitor.stage(round_index, stage, len(episodes))
    began = time.perf_counter()
    sampled_now = 0
    for start in range(len(rows), len(episodes), batch):
        rollouts = _attempt(run, episodes[start : start + batch])
        fresh = [rollout_row(rollout) for rollout in rollouts]
        log.append(fresh)
        rows += fresh
        tokens = sum(row["sampled_tokens"] for row in fresh)
        sampled_now += tokens
        run.monitor.advance(len(rows), tokens=tokens, note=reward_note([row["reward"] for row in rows]))
    run.say_faults(stage if round_index is None else f"round {round_index}, {stage}", [row["fault"] for row in rows])
    elapsed = time.perf_counter() - began
    run.metrics.log(number, stage, 0, _arm_metrics(rows) | _timing(elapsed, sampled_now))
    log.commit()


def _attempt(run: Run, episodes: Sequence[Episode]) -> list[Rollout]:
    rollouts = list(run.rollouts(episodes))
    for attempt in range(1, run.config.rollout.attempts):
        broken = [index for index, rollout in enumerate(rollouts) if rollout.fault is not None]
        if not broken:
            break
        again = [
            dataclasses.replace(episodes[index], seed=child_seed(episodes[index].seed, "attempt", attempt))
            for index in broken
        ]
        for index, rollout in zip(broken, run.rollouts(again), strict=True):
            rollouts[index] = dataclasses.replace(rollout, attempts=attempt + 1)
    return rollouts


def rollout_row(rollout: Rollout, *, keep_turns: bool = True) -> dict[str, Any]:
    """Return a rollout as an artifact's line: without tokens, with their number."""
    row: dict[str, Any] = to_json(lean(rollout, keep_turns=keep_turns))
    if rollout.attempts == 1:
        del row["attempts"]
    return row | {"sampled_tokens": sum(rollout.loss_mask), "prompt_tokens": len(rollout.prompt_ids)}


def _arm_metrics(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return reward ± SE, faults and token counts of rollout rows."""
    rewards = [row["reward"] for row in rows if row["reward"] is not None]
    scored = [row for row in rows if row["fault"] is None]
    answers = sum((count(row["truncated"], [turn["feedback"] for turn in row["turns"]]) for row in scored), Answers())
    return {
        "eval/rollouts": len(rows),
        "eval/faults": len(rows) - len(rewards),
        "eval/reward": fmean(rewards) if rewards else None,
        "eval/reward_se": standard_error(rewards),
        "eval/sampled_tokens": sum(row["sampled_tokens"] for row in rows),
        "eval/prompt_tokens": sum(row["prompt_tokens"] for row in rows),
        **answers.metrics("eval"),
    }


def _timing(seconds: float, tokens: int) -> dict[str, float]:
    return {"eval/time_s": round(seconds, 3), "eval/tokens_per_s": round(tokens / max(seconds, 1e-9), 1)}


def score(rollouts: Iterable[Rollout], conditions: dict[str, str], split: str) -> tuple[Scored, ...]:
    """Return rollouts as the gate sees them."""
    return tuple(
        Scored(
            rollout.task_id,
            rollout.sample,
            rollout.visible,
            rollout.reward,
            rollout.parts,
            Conditions(
                rollout.checkpoint, split, conditions["sampling"], conditions["prompt"], conditions["environment"]
            ),
            rollout.fault,
        )
        for rollout in rollouts
    )


def task_means(rollouts: Iterable[Rollout]) -> dict[str, float]:
    """Return each task's mean reward over its rollouts without a fault; a task of faults only is absent."""
    rewards: dict[str, list[float]] = {}
    for rollout in rollouts:
        if rollout.reward is not None:
            rewards.setdefault(rollout.task_id, []).append(rollout.reward)
    return {task_id: fmean(values) for task_id, values in rewards.items()}


def task_success(rollouts: Iterable[Rollout]) -> dict[str, float]:
    """Return each task's share of full successes."""
    solved: dict[str, list[float]] = {}
    for rollout in rollouts:
        if rollout.reward is not None:
            solved.setdefault(rollout.task_id, []).append(success_of(rollout.parts, rollout.reward))
    return {task_id: fmean(values) for task_id, values in solved.items()}
