"""The training stage of a round: group-consistent masked-skill GRPO with dynamic oversampling (method §5).

Each step runs ``groups_per_step × oversample`` planned groups, replaces groups lost to a fault from the step's
reserve, and updates on the first ``groups_per_step`` that carry signal. The state is saved every few steps; a resume
goes back to the last saved one.
"""

import dataclasses
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from intraskill.config.config import FrontierConfig
from intraskill.config.learning import GrpoConfig
from intraskill.method.answers import an_unreadable, answers_of
from intraskill.method.curriculum.contexts import Curriculum, plan_groups
from intraskill.method.curriculum.frontier import FLAT, FrontierRule, in_frontier, with_signal
from intraskill.method.errors import NothingToLearnError
from intraskill.method.gate.intervals import reward_note, standard_error
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode, Group, GroupResult
from intraskill.method.skill.skill import BARE, Skill
from intraskill.rl.learner import SavePoints, load_newest, save_state
from intraskill.rounds.arms import rollout_row
from intraskill.rounds.run import Run
from intraskill.store.artifacts import TRAINING, TRAINING_PLAN
from intraskill.store.records import to_json
from intraskill.store.run_directory import PartialLog, directory_written_whole


def frontier_rule(frontier: FrontierConfig) -> FrontierRule:
    """Return the rule of the config."""
    return FrontierRule(frontier.max_mean, frontier.max_std, frontier.part)


def groups_run_per_step(grpo: GrpoConfig) -> int:
    """Return how many groups a step runs before any refill."""
    return math.ceil(grpo.groups_per_step * grpo.oversample)


def plan_training(run: Run, directory: Path, round_index: int, curriculum: Curriculum) -> tuple[Group, ...]:
    """Draw every context of the round before it starts and write ``plan.jsonl``."""
    if not TRAINING_PLAN.exists(directory):
        groups = plan_groups(
            run.tasks("train"),
            curriculum,
            seed=run.config.seed,
            round_index=round_index,
            steps=run.config.grpo.steps_per_round,
            groups_per_step=groups_run_per_step(run.config.grpo) + run.config.grpo.reserve_groups,
        )
        if not run.config.curriculum.assisted:
            groups = tuple(dataclasses.replace(group, kind="skill_free", visible=BARE) for group in groups)
        TRAINING_PLAN.write(directory, groups)
    return TRAINING_PLAN.read(directory)


def train(
    run: Run, directory: Path, round_index: int, groups: Sequence[Group], skill: Skill
) -> tuple[GroupResult, ...]:
    """Train the round's steps; leave ``checkpoint/`` and ``train.jsonl`` and return the results without tokens.

    Raises:
        NothingToLearnError: when every rollout of a step was a fault.
    """
    finished = TRAINING.exists(directory)
    if finished:
        run.learner.load(directory / "checkpoint")
    else:
        _train_steps(run, directory, round_index, groups, skill)
    # Here and not at the end of the training: a kill right after the commit must not leave it behind.
    shutil.rmtree(directory / "train_state", ignore_errors=True)
    rows = TRAINING.read(directory)
    if not finished and not any(row.used for row in rows):
        part = run.config.grpo.part or "reward"
        run.monitor.say(f"round {round_index}: the weights did not move: in no group did {part} differ")
    return tuple(row.result for row in rows)


def _train_steps(run: Run, directory: Path, round_index: int, groups: Sequence[Group], skill: Skill) -> None:
    log, states = PartialLog(TRAINING.path(directory)), directory / "train_state"
    first, lines = _resume(run, states, round_index)
    log.keep(lines)
    run.metrics.rewind(round_index, "train", first)
    steps = run.config.grpo.steps_per_round
    run.monitor.stage(round_index, "train", steps)
    by_step: dict[int, list[Group]] = {}
    for group in groups:
        by_step.setdefault(group.step, []).append(group)
    points = SavePoints(run.config.grpo.save_every_steps, run.config.grpo.save_every_minutes)
    for step in range(first, steps):
        began = time.perf_counter()
        results = run_step(run, by_step[step], skill)
        faults = [rollout.fault for result in results for rollout in result.rollouts]
        run.say_faults(f"round {round_index}, step {step}", faults)
        rollouts = [rollout for result in results for rollout in result.rollouts]
        if complaint := answers_of(rollouts).complaint(an_unreadable(rollouts)):
            run.monitor.say(f"warning: round {round_index}, step {step}: {complaint}")
        learned = [rescored(result, run.config.grpo.part) for result in results]
        chosen = with_signal(learned, run.config.grpo.groups_per_step)
        if run.config.grpo.mask_truncated:
            chosen = [result for result in chosen if not all(rollout.truncated for rollout in result.rollouts)]
        updates = run.learner.update(chosen) if chosen else {}
        if warning := updates.get("train/warning"):
            run.monitor.say(f"warning: {warning}")
        used = {result.group.id for result in chosen}
        rows = [_row(run, result, result.group.id in used) for result in results]
        log.append(rows)
        flat = sum(pstdev(result.rewards) <= FLAT for result in learned if not result.faulted)
        flat_bare = sum(
            pstdev(result.rewards) <= FLAT for result in learned if not result.faulted and not result.group.visible
        )
        values = _step_metrics(results, chosen) | {"train/groups_flat": flat, "train/groups_flat_bare": flat_bare}
        values |= updates | _timing(began, results)
        run.metrics.log(round_index, "train", step, values)
        note = reward_note([reward for result in results for reward in result.rewards])
        run.monitor.advance(step + 1, tokens=values["train/sampled_tokens"], note=note)
        if step + 1 < steps and points.due(step + 1):
            save_state(run.learner, states, step + 1, {"lines": log.count()})
    with directory_written_whole(directory / "checkpoint") as aside:
        run.learner.save(aside)
    log.commit()


def _resume(run: Run, states: Path, round_index: int) -> tuple[int, int]:
    """Load the newest saved state of this round, or the last round's checkpoint; return the next step and lines."""
    facts = load_newest(run.learner, states)
    if facts is None:
        run.learner.load(run.round_directory(round_index - 1) / "checkpoint")
        return 0, 0
    return int(facts["step"]), int(facts["lines"])


def run_step(run: Run, groups: Sequence[Group], skill: Skill) -> list[GroupResult]:
    """Run the step's first groups, then one reserve group for each that was lost to a fault, in plan order.

    Raises:
        NothingToLearnError: when no rollout at all was scored.
    """
    first = groups_run_per_step(run.config.grpo)
    if run.config.curriculum.hint_on_failure:
        results = _run_with_hints(run, groups[:first], skill)
    else:
        results = _run_groups(run, groups[:first], skill)
    reserve = list(groups[first:])
    lost = sum(result.faulted for result in results)
    while lost and reserve:
        refill = _run_groups(run, reserve[:lost], skill)
        reserve = reserve[lost:]
        results += refill
        lost = sum(result.faulted for result in refill)
    if not any(result.rewards for result in results):
        faults = [rollout.fault for result in results for rollout in result.rollouts]
        raise NothingToLearnError(
            f"every one of {len(faults)} rollouts of {groups[0].id[:10]} was a fault, first: {faults[0]}; "
            "mend the environment and run the same command again"
        )
    return results


def _run_with_hints(run: Run, groups: Sequence[Group], skill: Skill) -> list[GroupResult]:
    """Run half of the groups bare, the failed ones of them again in their planned context, and further bare ones.

    As many groups run as without hints: each that comes again takes the place of one at the end of the step.
    """
    half = math.ceil(len(groups) / 2)
    bare = [_bare(group) for group in groups]
    results = _run_groups(run, bare[:half], skill)
    rule = frontier_rule(run.config.frontier)
    failed = {result.group.task.id for result in results if in_frontier(result, rule)}
    again = [group for group in groups[:half] if group.task.id in failed and group.visible][: len(groups) - half]
    return results + _run_groups(run, again + bare[half : len(groups) - len(again)], skill)


def _bare(group: Group) -> Group:
    """Return the group without any chunk; as an attempt of its own it has an address of its own."""
    return dataclasses.replace(group, id=f"{group.id}/bare", kind="skill_free", visible=BARE)


def _run_groups(run: Run, groups: Sequence[Group], skill: Skill) -> list[GroupResult]:
    """Run G rollouts of each group in one context (method §5.1)."""
    size = run.config.grpo.group_size
    episodes = [
        Episode(group.task, skill, group.visible, sample, child_seed(run.config.seed, "train", group.id, sample))
        for group in groups
        for sample in range(size)
    ]
    rollouts = run.rollouts(episodes)
    return [GroupResult(group, tuple(rollouts[i * size : (i + 1) * size])) for i, group in enumerate(groups)]


def rescored(result: GroupResult, part: str) -> GroupResult:
    """Return a group as the policy gradient reads it: with one reward component for reward, if ``part`` names one."""
    if not part:
        return result
    rollouts = (r if r.reward is None else dataclasses.replace(r, reward=r.parts[part]) for r in result.rollouts)
    return GroupResult(result.group, tuple(rollouts))


def _row(run: Run, result: GroupResult, used: bool) -> dict[str, Any]:
    keep = in_frontier(result, frontier_rule(run.config.frontier))
    return {
        "group": to_json(result.group),
        "used": used,
        "rollouts": [rollout_row(rollout, keep_turns=keep) for rollout in result.rollouts],
    }


def _step_metrics(results: Sequence[GroupResult], chosen: Sequence[GroupResult]) -> dict[str, Any]:
    sound = [result for result in results if not result.faulted]
    means = [fmean(result.rewards) for result in sound]
    bare = [fmean(result.rewards) for result in sound if not result.group.visible]
    rollouts = [rollout for result in results for rollout in result.rollouts]
    return {
        "train/reward": fmean(means) if means else None,
        "train/reward_se": standard_error(means),
        "train/reward_bare": fmean(bare) if bare else None,
        "train/reward_bare_se": standard_error(bare),
        "train/groups_run": len(results),
        "train/groups_faulted": len(results) - len(sound),
        "train/groups_used": len(chosen),
        "train/rollouts_run": len(rollouts),
        "train/groups_bare": len(bare),
        "train/truncated_share": fmean(rollout.truncated for rollout in rollouts),
        **answers_of(rollouts).metrics("train"),
        "train/sampled_tokens": sum(sum(rollout.loss_mask) for rollout in rollouts),
        "train/prompt_tokens": sum(len(rollout.prompt_ids) for rollout in rollouts),
    }


def _timing(began: float, results: Sequence[GroupResult]) -> dict[str, float]:
    seconds = time.perf_counter() - began
    tokens = sum(sum(rollout.loss_mask) for result in results for rollout in result.rollouts)
    return {"train/step_time_s": round(seconds, 3), "train/tokens_per_s": round(tokens / max(seconds, 1e-9), 1)}
