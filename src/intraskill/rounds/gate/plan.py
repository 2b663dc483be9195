"""What one gate fixes before its first rollout: pool, masks, estimator, policy, and what it can see at its size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from intraskill.config.config import GateConfig
from intraskill.method.errors import ArtifactError
from intraskill.method.gate.designs import Design, Masks, plan_masks
from intraskill.method.gate.diagnostics.placebo import placebo_chunks, with_placebos
from intraskill.method.gate.diagnostics.slices import Slices, register_slices
from intraskill.method.gate.estimators import history
from intraskill.method.gate.power import PUBLISHED_SIGMA
from intraskill.method.gate.regression import audit_masks
from intraskill.method.gate.rules import DecisionRule, FdrRule, GateRule, KeepRule, ProbabilityRule
from intraskill.method.gate.shrinkage import Evidence, carry_over
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode
from intraskill.method.skill.edits import Edit, pool
from intraskill.method.skill.skill import BARE, Chunk, ChunkId, Skill
from intraskill.method.tasks import Task
from intraskill.rl.learner import Learner
from intraskill.rounds.arms import plan_arm
from intraskill.rounds.earlier_rounds import earlier_bare, earlier_contributions, last_noise
from intraskill.rounds.run import Run
from intraskill.store.artifacts import MASKS
from intraskill.store.contents import GateMasks
from intraskill.store.records import from_json, to_json


@dataclass(frozen=True, slots=True)
class GateFacts:
    """One gate before its first rollout.

    Attributes:
        gate: the section ``gate``: how masks are drawn, which estimator and policy decide.
        round_index: t; it addresses the bare rollouts, the masks and the masked rollouts.
        seed: of the masks and of the masked rollouts.
        skill: S_t.
        edits: this round's candidates.
        sigma: SD of R − B, one rollout in each arm, that its power is planned with.
        correlation: corr(R, B) that its power is planned with.
        slices: tasks by the values of public features, fixed before any reward; ``None`` when none are asked for.
        placebos: neutral chunks beside the pool.
        earlier: what earlier rounds said about chunks; only the policy ``probability`` listens.
        history: H by task, from earlier rounds' bare rewards; only the estimator ``covariate`` listens.
    """

    gate: GateConfig
    round_index: int
    seed: int
    skill: Skill
    edits: tuple[Edit, ...]
    sigma: float = PUBLISHED_SIGMA
    correlation: float | None = None
    slices: Slices | None = None
    placebos: tuple[Chunk, ...] = ()
    earlier: Mapping[ChunkId, Evidence] = field(default_factory=dict)
    history: Mapping[str, float] = field(default_factory=dict)

    @property
    def design(self) -> Design:
        """How the masks are drawn, and the replicates."""
        return design_of(self.gate)

    @property
    def pool(self) -> Skill:
        """S̃_t, active chunks ∪ candidates: what the gate decides on."""
        return pool(self.skill, self.edits, alternatives=True)

    @property
    def columns(self) -> Skill:
        """The pool and the placebos: what masked runs may show."""
        return with_placebos(self.pool, self.placebos)

    @property
    def placebo_ids(self) -> frozenset[ChunkId]:
        """Never eligible for admission."""
        return frozenset(chunk.id for chunk in self.placebos)

    @property
    def rule(self) -> DecisionRule:
        """The decision rule."""
        gate = self.gate
        if gate.policy == "probability":
            return ProbabilityRule(gate.top_k, gate.admit, gate.retire, gate.carry_over)
        if gate.policy == "fdr":
            return FdrRule(gate.top_k, gate.fdr)
        return KeepRule(gate.top_k) if gate.policy == "keep" else GateRule(gate.top_k)


RECORDED = {
    **{name: name for name in ("estimator", "policy", "top_k", "admit", "retire")},
    **{"carry_over": "discount", "fdr": "rate", "effect": "effect"},
}
"""Options that the facts of a gate keep in its files beside its `Design`, and the name of each there."""


def facts_json(facts: GateFacts) -> dict[str, Any]:
    """Return the facts of a gate as its files keep them; equal facts give equal bytes, so the order counts."""
    kept = {name: getattr(facts, name) for name in ("round_index", "seed", "skill", "edits", "design")}
    kept |= {name: getattr(facts.gate, option) for option, name in RECORDED.items()}
    kept |= {"sigma": facts.sigma, "correlation": facts.correlation, "sequential": facts.gate.sequential}
    kept |= {name: getattr(facts, name) for name in ("slices", "placebos", "earlier", "history")}
    return {name: to_json(value) for name, value in kept.items()}


def read_facts(data: Mapping[str, Any], source: Path) -> GateFacts:
    """Return the facts that `facts_json` made.

    Raises:
        ArtifactError: naming ``source`` when they are no gate's.
    """
    design = from_json(Design, data.get("design"), source)
    options = {option: data[name] for option, name in RECORDED.items() if name in data}
    options |= {"sequential": data.get("sequential", 0), "design": design.kind, "inclusion": design.inclusion}
    options |= {"replicates": design.masked_replicates, "bare_replicates": design.bare_replicates}
    return from_json(GateFacts, {**data, "gate": options}, source)


def gate_facts(
    config: GateConfig,
    skill: Skill,
    edits: Sequence[Edit],
    *,
    round_index: int,
    seed: int,
    root: Path | None,
    everything: bool = False,
) -> GateFacts:
    """Collect the facts of a gate.

    Args:
        config: the section ``gate``.
        skill: S_t.
        edits: this round's candidates.
        round_index: t.
        seed: of masks and masked rollouts.
        root: the run whose sealed rounds before t are consulted, or ``None``.
        everything: consult them for what this policy and estimator ignore too, so that a refit may try others.
    """
    pooled = pool(skill, edits, alternatives=True)
    number = config.placebos if pooled.chunks else 0
    told = earlier_contributions(root, round_index) if root and (everything or config.policy == "probability") else ()
    bare = earlier_bare(root, round_index) if root and (everything or config.estimator == "covariate") else ()
    noise = last_noise(root, round_index) if root and config.effect else None
    measured = noise.sigma if noise else PUBLISHED_SIGMA
    return GateFacts(
        gate=replace(config),  # a copy: a config may change, what a gate has fixed may not
        round_index=round_index,
        seed=seed,
        skill=skill,
        edits=tuple(edits),
        sigma=measured if config.sigma is None else config.sigma,
        correlation=noise.correlation if noise else None,
        placebos=placebo_chunks(pooled, number, child_seed(seed, "placebos", round_index)),
        earlier=carry_over(told, config.carry_over) if told else {},
        history=history(bare),
    )


def with_slices(facts: GateFacts, tasks: Sequence[Task], features: Sequence[str]) -> GateFacts:
    """Register slices by public task features before any reward is seen.

    Raises:
        ConfigError: for a feature that no task has.
    """
    return replace(facts, slices=register_slices(tasks, features)) if features else facts


def design_of(config: GateConfig) -> Design:
    """Return the mask design of a config."""
    return Design(config.design, config.inclusion, config.replicates, config.bare_replicates)  # type: ignore[arg-type]


def write_masks(directory: Path, facts: GateFacts, tasks: Sequence[Task], learner: Learner, bare_seed: int) -> Masks:
    """Draw the masks and write ``masks.json`` before the first rollout; refuse a file of another plan.

    Args:
        directory: of the gate.
        facts: of the gate.
        tasks: skill-validation tasks.
        learner: whose checkpoint and conditions both arms must share.
        bare_seed: of the bare arm.

    Raises:
        ArtifactError: naming the keys that differ.
        RankDeficientError: for masks that no rewards could make a fit of.
    """
    masks = plan_masks(facts.columns, facts.edits, tasks, facts.design, seed=facts.seed, round_index=facts.round_index)
    audit_masks(masks, facts.columns.ids, facts.gate.estimator)
    single = facts.design.masked_replicates == 1
    plan: dict[str, Any] = {
        "round": facts.round_index,
        "estimator": facts.gate.estimator,
        "inclusion": facts.design.inclusion,
        "checkpoint": learner.checkpoint,
        "conditions": dict(learner.conditions),
        "chunks": list(facts.columns.ids),
        "edits": [edit.id for edit in facts.edits],
        "visible": to_json({task: sets[0] if single else sets for task, sets in masks.items()}),
        "policy": to_json(facts.rule) | {"name": facts.gate.policy},
        "design": to_json(facts.design),
        "placebos": sorted(facts.placebo_ids),
        "sequential": facts.gate.sequential,
        "slices": facts.slices.hash if facts.slices else None,
        "seeds": {"masks": facts.seed, "bare": bare_seed},
    }
    if not MASKS.exists(directory):
        MASKS.write(directory, GateMasks(**plan))
    elif differing := [key for key, value in MASKS.data(directory).items() if plan.get(key) != value]:
        raise ArtifactError(
            f"{MASKS.path(directory)} was written for another plan: {', '.join(differing)} differ; a changed plan "
            f"cannot resume a gate. Delete {directory} and run the same command again"
        )
    return masks


def bare_episodes(run: Run, facts: GateFacts, tasks: Sequence[Task]) -> list[Episode]:
    """Return the bare arm; its address holds the run's seed and the round alone, so that a later gate may reuse it."""
    address = ("bare", facts.round_index)
    return plan_arm(run.config.seed, tasks, facts.columns, BARE, address=address, repeats=facts.design.bare_replicates)


def masked_episodes(facts: GateFacts, tasks: Sequence[Task], masks: Masks) -> list[Episode]:
    """Return the masked arm: one episode per task and replicate under its planned visible set."""
    columns = facts.columns
    return [
        Episode(task, columns, visible, sample, child_seed(facts.seed, "masked", facts.round_index, task.id, sample))
        for task in tasks
        for sample, visible in enumerate(masks[task.id])
    ]
