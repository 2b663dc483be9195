"""The gate of one round on skill-validation: bare, masked, fit, decide, then the committed skill whole (method §7).

Round 0 calls it with no edits; every later round with its candidates. Nothing else reads skill-validation rewards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.arms import bare_arm, plan_arm, run_scored_arm, score, task_means
from intraskill.assembly import Run
from intraskill.method.attribution import Contributions, fit_contributions
from intraskill.method.edits import Edit, pool
from intraskill.method.errors import ArtifactError
from intraskill.method.gate import Decision, GateRule, decide
from intraskill.method.intervals import Interval, mean_interval
from intraskill.method.paired_validation import Pairs, pair, plan_visible
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode, Rollout
from intraskill.method.skill import ChunkId, Skill, Visible
from intraskill.method.tasks import Task
from intraskill.runtime.records import from_json, to_json
from intraskill.runtime.run_directory import read_json, write_json, write_text

ESTIMATOR = "paired_ols"


@dataclass(frozen=True)
class Validation:
    """What one gate found.

    Attributes:
        contributions: β̂ ± SE of every chunk of the pool.
        decision: the skill that the round commits.
        r_free: mean skill-free reward.
        r_pair: mean reward under the committed skill, whole; ``None`` when the arm is switched off.
        gap: R_pair − R_free over the same tasks (method §8.2).
    """

    contributions: Contributions
    decision: Decision
    r_free: Interval
    r_pair: Interval | None
    gap: Interval | None


def validate_skill(run: Run, directory: Path, round_index: int, skill: Skill, edits: Sequence[Edit]) -> Validation:
    """Run the gate at the learner's present weights; every stage leaves its artifact in ``directory``.

    Raises:
        ArtifactError: when ``masks.json`` there belongs to another plan.
        PairingError: when the arms do not pair.
        RankDeficientError: when there are too few tasks for the pool.
    """
    everything = pool(skill, edits)
    tasks = run.tasks("skill_validation", run.config.gate.tasks)
    planned = _plan_masks(run, directory, round_index, everything, edits, tasks)
    bare = run_scored_arm(
        run, directory / "bare.jsonl", round_index, bare_arm(run, tasks, everything, address=("bare", round_index))
    )
    pairs, excluded = _paired(run, directory, round_index, everything, tasks, planned, bare)
    contributions = _fit(directory, pairs, excluded)
    decision = decide(skill, edits, contributions, GateRule(run.config.gate.top_k))
    write_json(directory / "decision.json", to_json(decision) | {"kept": list(decision.kept)})
    write_text(directory / "skill.md", decision.skill.to_markdown())
    r_free = mean_interval(list(task_means(bare).values()))
    r_pair, gap = _pair_arm(run, directory, round_index, decision.skill, tasks, bare)
    return Validation(contributions, decision, r_free, r_pair, gap)


def _plan_masks(
    run: Run, directory: Path, round_index: int, everything: Skill, edits: Sequence[Edit], tasks: Sequence[Task]
) -> dict[str, Visible]:
    """Write visible sets, conditions and estimator before the first rollout; refuse a file of another plan."""
    gate = run.config.gate
    planned = plan_visible(
        everything, edits, tasks, seed=run.config.seed, round_index=round_index, inclusion=gate.inclusion
    )
    plan = {
        "round": round_index,
        "estimator": ESTIMATOR,
        "inclusion": gate.inclusion,
        "checkpoint": run.learner.checkpoint,
        "conditions": dict(run.learner.conditions),
        "chunks": list(everything.ids),
        "edits": [edit.id for edit in edits],
        "visible": to_json(planned),
    }
    path = directory / "masks.json"
    if not path.exists():
        write_json(path, plan)
    elif differing := [key for key, value in read_json(path).items() if plan.get(key) != value]:
        raise ArtifactError(
            f"{path} was written for another plan: {', '.join(differing)} differ; a changed plan cannot resume a gate. "
            f"Delete {directory} and run the same command again"
        )
    return planned


def _paired(
    run: Run,
    directory: Path,
    round_index: int,
    everything: Skill,
    tasks: Sequence[Task],
    planned: dict[str, Visible],
    bare: Sequence[Rollout],
) -> tuple[Pairs, list[str]]:
    """Run the masked arm and pair it; tasks whose every attempt faulted leave both arms and are reported."""
    masked = bare
    if everything.chunks:
        episodes = [
            Episode(
                task, everything, planned[task.id], 0, child_seed(run.config.seed, "masked", round_index, task.id, 0)
            )
            for task in tasks
        ]
        masked = run_scored_arm(run, directory / "masked.jsonl", round_index, episodes)
    faulted = sorted({rollout.task_id for rollout in (*bare, *masked) if rollout.fault is not None})
    kept = {task_id: visible for task_id, visible in planned.items() if task_id not in faulted}
    conditions = run.learner.conditions
    arms = [
        score((rollout for rollout in arm if rollout.task_id in kept), conditions, "skill_validation")
        for arm in (bare, masked)
    ]
    return pair(arms[0], arms[1], kept, everything.ids), faulted


def _fit(directory: Path, pairs: Pairs, excluded: list[str]) -> Contributions:
    path = directory / "contributions.json"
    if not path.exists():
        data = to_json(fit_contributions(pairs))
        write_json(path, data | {"correlation": pairs.correlation, "excluded_tasks": excluded})
    return from_json(Contributions, read_json(path), path)


def _pair_arm(
    run: Run, directory: Path, round_index: int, skill: Skill, tasks: Sequence[Task], bare: Sequence[Rollout]
) -> tuple[Interval | None, Interval | None]:
    """Measure R_pair with the committed skill shown whole; an empty skill shows nothing, so R_pair is R_free."""
    if not run.config.gate.full_arm:
        return None, None
    full = bare
    if skill.chunks:
        address = ("full", round_index)
        episodes = plan_arm(run, tasks, skill, frozenset(skill.ids), address=address)
        full = run_scored_arm(run, directory / "full.jsonl", round_index, episodes)
    alone, together = task_means(bare), task_means(full)
    shared = [task_id for task_id in alone if task_id in together]
    gap = mean_interval([together[task_id] - alone[task_id] for task_id in shared])
    return mean_interval(list(together.values())), gap


def chunk_rows(
    validation: Validation,
    everything: Skill,
    exposure: Mapping[ChunkId, float],
    visible: Mapping[ChunkId, float],
    round_index: int,
) -> list[dict[str, Any]]:
    """Return one row per chunk of the pool: β̂ ± SE, exposure, P(visible) and what became of it.

    A draft that the first gate drops was never active: it is refused, not retired.
    """
    decision, contributions = validation.decision, validation.contributions
    titles = {chunk.id: chunk.title for chunk in everything.chunks}
    columns = zip(contributions.chunk_ids, contributions.beta_J, contributions.se_J, strict=True)
    rows = []
    for chunk_id, beta, se in columns:
        left = "retired" if chunk_id in decision.retired and round_index > 0 else "refused"
        status = "active" if chunk_id in exposure else left
        rows.append(
            {
                "id": chunk_id,
                "title": titles[chunk_id],
                "beta": float(beta),
                "se": float(se),
                "exposure": exposure.get(chunk_id),
                "visible_probability": visible.get(chunk_id),
                "status": status,
                "reason": decision.reasons[chunk_id],
            }
        )
    return rows
