"""The gate of one round on skill-validation: bare, masked, fit, decide, then the committed skill whole (method §7).

Round 0 calls it with no edits; every later round with its candidates. Nothing else reads skill-validation rewards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.arms import plan_arm, run_scored_arm, score, task_means
from intraskill.assembly import Run
from intraskill.assessment import Assessment, assess, contributions_json
from intraskill.gate_arms import paired
from intraskill.gate_facts import GateFacts, gate_facts, with_slices, write_masks
from intraskill.gate_power import check_power
from intraskill.method.attribution import Contributions
from intraskill.method.edits import Edit
from intraskill.method.gate import Decision
from intraskill.method.intervals import Interval, mean_interval
from intraskill.method.paired_validation import Pairs, Scored
from intraskill.method.rollouts import Rollout
from intraskill.method.skill import ChunkId, Skill, Visible
from intraskill.method.tasks import Task
from intraskill.runtime.records import to_json
from intraskill.runtime.run_directory import write_json, write_text
from intraskill.sequential_gate import run_arms


@dataclass(frozen=True)
class Validation:
    """What one gate found.

    Attributes:
        facts: what it fixed before its first rollout.
        pairs: its audited pairs.
        assessment: contributions, posterior and decision.
        excluded: tasks that left both arms because some rollout of theirs only faulted.
        shown: chunks of the full arm: the committed skill, or the skill that a gate alone was asked about.
        full: scored rollouts that saw exactly these; empty when that arm did not run.
        r_free: mean skill-free reward.
        r_pair: mean reward with `shown`, whole; ``None`` when the arm is switched off.
        gap: R_pair − R_free over the same tasks (method §8.2).
        stopped: where a sequential gate stopped and what that saved, in words; empty when it was not sequential.
    """

    facts: GateFacts
    pairs: Pairs
    assessment: Assessment
    excluded: tuple[str, ...]
    shown: Visible
    full: tuple[Scored, ...]
    r_free: Interval
    r_pair: Interval | None
    gap: Interval | None
    stopped: str = ""

    @property
    def contributions(self) -> Contributions:
        """β̂ ± SE of every chunk of the pool."""
        return self.assessment.contributions

    @property
    def decision(self) -> Decision:
        """The skill that the round commits."""
        return self.assessment.decision


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
    masks = write_masks(directory / "masks.json", facts, tasks, run.learner, run.config.seed)
    arms = run_arms(run, directory, facts, tasks, masks)
    bare = arms.bare
    pairs, excluded = paired(run, facts, {task.id: masks[task.id] for task in arms.tasks}, bare, arms.masked)
    found = assess(facts, pairs, every_estimator=alone)
    if not alone:
        write_json(directory / "contributions.json", contributions_json(found, pairs, excluded))
        write_json(directory / "decision.json", to_json(found.decision) | {"kept": list(found.decision.kept)})
        write_text(directory / "skill.md", found.decision.skill.to_markdown())
    skill = facts.skill if alone else found.decision.skill
    full = _full_arm(run, directory, facts.round_index, skill, arms.tasks)
    r_pair, gap = _pair_arm(run, skill, task_means(bare), task_means(full))
    scored = score(full, run.learner.conditions, "skill_validation")
    free = mean_interval(list(task_means(bare).values()))
    shown = frozenset(skill.ids)
    return Validation(facts, pairs, found, tuple(excluded), shown, scored, free, r_pair, gap, arms.stopped)


def _full_arm(run: Run, directory: Path, round_index: int, skill: Skill, tasks: Sequence[Task]) -> tuple[Rollout, ...]:
    """Run the arm that shows a skill whole; an empty skill shows nothing."""
    if not (run.config.gate.full_arm and skill.chunks):
        return ()
    episodes = plan_arm(run, tasks, skill, frozenset(skill.ids), address=("full", round_index))
    return run_scored_arm(run, directory / "full.jsonl", round_index, episodes)


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


def chunk_rows(
    validation: Validation,
    everything: Skill,
    exposure: Mapping[ChunkId, float],
    visible: Mapping[ChunkId, float],
    round_index: int,
) -> list[dict[str, Any]]:
    """Return one row per chunk of the pool: β̂ ± SE with its interval, exposure, P(visible) and what became of it.

    Under the policy ``probability`` a row also holds the shrunk value and P(α > 0). A draft that the first gate drops
    was never active: it is refused, not retired.
    """
    decision, contributions = validation.decision, validation.contributions
    shrunk = validation.assessment.shrunk if validation.facts.policy == "probability" else {}
    titles = {chunk.id: chunk.title for chunk in everything.chunks}
    numbers = (contributions.beta_J, contributions.se_J, contributions.low_J, contributions.high_J)
    rows = []
    for chunk_id, beta, se, low, high in zip(contributions.chunk_ids, *numbers, strict=True):
        left = "retired" if chunk_id in decision.retired and round_index > 0 else "refused"
        status = "active" if chunk_id in exposure else left
        rows.append(
            {
                "id": chunk_id,
                "title": titles[chunk_id],
                "beta": float(beta),
                "se": float(se),
                "low": float(low),
                "high": float(high),
                **dict(zip(("shrunk", "shrunk_sd", "probability"), shrunk.get(chunk_id, ()), strict=False)),
                "exposure": exposure.get(chunk_id),
                "visible_probability": visible.get(chunk_id),
                "status": status,
                "reason": decision.reasons[chunk_id],
            }
        )
    return rows
