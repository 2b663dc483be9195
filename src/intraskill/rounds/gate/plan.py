"""What one gate fixes before its first rollout: pool, masks, estimator, policy, and what it can see at its size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from intraskill.config.config import GateConfig
from intraskill.method.errors import ArtifactError
from intraskill.method.gate.decision import DecisionRule, FdrRule, GateRule, ProbabilityRule
from intraskill.method.gate.designs import Design, Masks, plan_masks
from intraskill.method.gate.diagnostics.placebo import placebo_chunks, with_placebos
from intraskill.method.gate.diagnostics.slices import Slices, register_slices
from intraskill.method.gate.estimators import history
from intraskill.method.gate.power import (
    PUBLISHED_SIGMA,
    GatePlan,
    in_a_run,
    plan_gate,
    planned,
    require_power,
    sentence,
    smallest_effect,
    verdict,
)
from intraskill.method.gate.regression import audit_masks
from intraskill.method.gate.shrinkage import Evidence, carry_over
from intraskill.method.randomness import child_seed
from intraskill.method.skill.edits import Edit, pool, slots
from intraskill.method.skill.skill import Chunk, ChunkId, Skill
from intraskill.method.tasks import Task
from intraskill.rl.learner import Learner
from intraskill.rounds.earlier_rounds import earlier_bare, earlier_contributions, last_spread
from intraskill.rounds.run import Run
from intraskill.store.artifacts import CONTRIBUTIONS, MASKS
from intraskill.store.contents import GateContributions, GateMasks
from intraskill.store.records import to_json


@dataclass(frozen=True, slots=True)
class GateNoise:
    """What earlier gates say about the next one's precision.

    Attributes:
        sigma: root mean square of their residual SDs of R − B, one rollout in each arm, reward units.
        chunks: size of the latest pool.
        tasks: pairs of the latest gate.
        correlation: mean corr(R, B); ``None`` where it was not recorded.
        gates: gates read.
    """

    sigma: float
    chunks: int
    tasks: int
    correlation: float | None
    gates: int


def read_noise(root: Path) -> GateNoise:
    """Read what the gates of a run, or one gate's directory, say about the noise.

    Raises:
        ArtifactError: if none of them measured a chunk, or a file is no gate's.
    """
    paths = [root] if CONTRIBUTIONS.exists(root) else sorted(root.glob("round_*"))
    gates = [path for path in paths if CONTRIBUTIONS.exists(path)]
    if not gates:
        raise ArtifactError(f"{root} holds no gate: neither contributions.json nor round_*/contributions.json")
    found = [(path, CONTRIBUTIONS.read(path)) for path in gates]
    measured = [(path, data) for path, data in found if data.chunk_ids]
    if not measured:
        raise ArtifactError(f"no gate under {root} measured a chunk; give sigma instead")
    correlations = [data.correlation for _, data in measured if data.correlation is not None]
    latest = measured[-1][1]
    return GateNoise(
        sigma=float(np.sqrt(np.mean([_variance(path, data) for path, data in measured]))),
        chunks=len(latest.chunk_ids),
        tasks=latest.num_pairs,
        correlation=float(np.mean(correlations)) if correlations else None,
        gates=len(measured),
    )


def _variance(path: Path, data: GateContributions) -> float:
    """Return σ² of ``paired_ols``, which stands beside any other estimator, for one bare rollout per task."""
    bare = MASKS.read(path).bare_replicates if MASKS.exists(path) else 1
    return float(data.paired.residual_sd**2 / ((1.0 + 1.0 / bare) / 2.0))


@dataclass(frozen=True, slots=True)
class GateFacts:
    """One gate before its first rollout.

    Attributes:
        round_index: t; it addresses the bare rollouts, the masks and the masked rollouts.
        seed: of the masks and of the masked rollouts.
        skill: S_t.
        edits: this round's candidates.
        design: how the masks are drawn, and the replicates.
        estimator: the model whose contributions decide.
        policy: ``positive_topk``, ``probability`` or ``fdr``.
        top_k: K.
        admit: of the policy ``probability``.
        retire: of the policy ``probability``.
        discount: of the policy ``probability``.
        rate: of the policy ``fdr``.
        effect: contribution that the gate should see, reward units; 0 when none is asked for.
        sigma: SD of R − B, one rollout in each arm, that its power is planned with.
        correlation: corr(R, B) that its power is planned with.
        sequential: tasks between two looks; 0 when it runs to its end.
        slices: tasks by the values of public features, fixed before any reward; ``None`` when none are asked for.
        placebos: neutral chunks beside the pool.
        earlier: what earlier rounds said about chunks; only the policy ``probability`` listens.
        history: H by task, from earlier rounds' bare rewards; only the estimator ``covariate`` listens.
    """

    round_index: int
    seed: int
    skill: Skill
    edits: tuple[Edit, ...]
    design: Design
    estimator: str
    policy: str
    top_k: int
    admit: float = 0.8
    retire: float = 0.2
    discount: float = 0.5
    rate: float = 0.1
    effect: float = 0.0
    sigma: float = PUBLISHED_SIGMA
    correlation: float | None = None
    sequential: int = 0
    slices: Slices | None = None
    placebos: tuple[Chunk, ...] = ()
    earlier: Mapping[ChunkId, Evidence] = field(default_factory=dict)
    history: Mapping[str, float] = field(default_factory=dict)

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
        if self.policy == "probability":
            return ProbabilityRule(self.top_k, self.admit, self.retire, self.discount)
        return FdrRule(self.top_k, self.rate) if self.policy == "fdr" else GateRule(self.top_k)


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
    sigma, correlation = (last_spread(root, round_index) if root and config.effect else None) or (PUBLISHED_SIGMA, None)
    return GateFacts(
        round_index=round_index,
        seed=seed,
        skill=skill,
        edits=tuple(edits),
        design=design_of(config),
        estimator=config.estimator,
        policy=config.policy,
        top_k=config.top_k,
        admit=config.admit,
        retire=config.retire,
        discount=config.carry_over,
        rate=config.fdr,
        effect=config.effect,
        sigma=sigma if config.sigma is None else config.sigma,
        correlation=correlation,
        sequential=config.sequential,
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
    audit_masks(masks, facts.columns.ids, facts.estimator)
    single = facts.design.masked_replicates == 1
    plan: dict[str, Any] = {
        "round": facts.round_index,
        "estimator": facts.estimator,
        "inclusion": facts.design.inclusion,
        "checkpoint": learner.checkpoint,
        "conditions": dict(learner.conditions),
        "chunks": list(facts.columns.ids),
        "edits": [edit.id for edit in facts.edits],
        "visible": to_json({task: sets[0] if single else sets for task, sets in masks.items()}),
        "policy": to_json(facts.rule) | {"name": facts.policy},
        "design": to_json(facts.design),
        "placebos": sorted(facts.placebo_ids),
        "sequential": facts.sequential,
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


def outlook(facts: GateFacts, tasks: int, sigma: float, correlation: float | None) -> GatePlan | None:
    """Return what a gate of this size can see; ``None`` when it is too small or too even to say.

    Args:
        facts: of the gate; placebo columns cost precision too.
        tasks: n.
        sigma: SD of R − B, one rollout in each arm.
        correlation: corr(R, B); ``None`` counts as the published one, a negative one as 0.
    """
    chunks, design = len(facts.columns.chunks), facts.design
    if chunks < 1 or tasks <= chunks or not sigma > 0.0:
        return None
    contested = [slot.versions for slot in slots(facts.skill, facts.edits) if len(slot.versions) > 1]
    promised = planned(
        design,
        in_a_run(facts.estimator),
        chunks=chunks,
        tasks=tasks,
        sigma=sigma,
        correlation=correlation,
        slots=tuple(tuple(len(version) for version in versions) for versions in contested),
    )
    return plan_gate(promised, effect=facts.effect or smallest_effect(promised), rules=(facts.rule,))


def check_power(run: Run, facts: GateFacts, tasks: int, *, refuse: bool) -> None:
    """Before the first rollout: refuse a gate that cannot see ``gate.effect``, or say so and go on.

    Inside a run it is only said: the run was checked before it started, and a refusal half-way could not be mended.

    Raises:
        UnderpoweredError: when asked to refuse, naming the tasks that would do.
    """
    if not facts.effect:
        return
    plan = outlook(facts, tasks, facts.sigma, facts.correlation)
    if plan is None or plan.smallest_effect <= facts.effect:
        return
    if refuse:
        require_power(plan)
    run.monitor.say(f"warning: {verdict(plan)}")


def words(plan: GatePlan, *, incumbents: bool, candidates: bool) -> str:
    """Say what the gate can see and what slips through, without an effect that was asked for.

    A careful policy doubts candidates and keeps what it cannot tell from useless, so the two rates are different ones.
    """
    first, said = plan.outlooks[0], [sentence(plan.design)]
    if candidates:
        said.append(f"a useless candidate enters with probability {_percent(first.useless_passes)}")
    if incumbents:
        said.append(f"a useless chunk of the skill stays with probability {_percent(first.useless_stays)}")
    return "; ".join(said)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
