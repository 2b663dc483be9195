"""What a gate of a given size will be able to say, and what each policy lets through."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import UnderpoweredError, counted
from intraskill.method.gate.judges import discoveries, one_sided_p
from intraskill.method.gate.power import (
    ENOUGH_TASKS,
    GateDesign,
    Vector,
    promised_covariance,
    smallest_effect,
    standard_errors,
    tasks_for,
)
from intraskill.method.gate.rules import DecisionRule, FdrRule, GateRule, KeepRule, ProbabilityRule
from intraskill.method.gate.shrinkage import SMALLEST_SE, Shrinkage
from intraskill.method.randomness import child_seed

Kept = NDArray[np.bool_]
_GATES = 2000


def outcomes(value_RJ: Vector, covariance_JJ: Vector, rule: DecisionRule, degrees: int) -> tuple[Kept, Kept]:
    """Return which chunks are in the skill after each of R gates if all were candidates, and if all were incumbents.

    It is `gate.decide` for chunks that stand alone, (R, J) each.

    Args:
        value_RJ: β̂ of each gate.
        covariance_JJ: their common covariance.
        rule: one of `DecisionRule`.
        degrees: degrees of freedom of the standard errors.
    """
    if isinstance(rule, ProbabilityRule):
        probability_RJ, mean_RJ = Shrinkage(covariance_JJ).probabilities(value_RJ)
        selected_RJ, staying_RJ = probability_RJ >= rule.admit, probability_RJ > rule.retire
        entering = _top(selected_RJ, selected_RJ, mean_RJ, rule.top_k)
        return entering, _top(staying_RJ, selected_RJ, mean_RJ, rule.top_k)
    if isinstance(rule, FdrRule):
        p_RJ = one_sided_p(value_RJ, np.sqrt(np.diag(covariance_JJ)), degrees)
        passing_RJ = discoveries(p_RJ, rule.rate)
    elif isinstance(rule, KeepRule):
        passing_RJ = np.ones(value_RJ.shape, dtype=bool)
        value_RJ = np.broadcast_to(-np.arange(value_RJ.shape[1], dtype=float), value_RJ.shape)
    else:
        passing_RJ = value_RJ > 0.0
    kept_RJ = _top(passing_RJ, passing_RJ, value_RJ, rule.top_k)
    return kept_RJ, kept_RJ


def admission_rates(
    effect_J: Vector, covariance_JJ: Vector, rule: DecisionRule, *, degrees: int
) -> tuple[Vector, Vector]:
    """Return the probabilities that each chunk enters as a candidate and stays as an incumbent, (J,) each.

    α = ``effect_J``. The draws depend on the size of the pool alone, so two policies are compared on
    the same ones.
    """
    num_chunks = len(effect_J)
    rng = np.random.Generator(np.random.PCG64(child_seed(0, "admission", num_chunks, _GATES)))
    root_JJ = np.linalg.cholesky(covariance_JJ + SMALLEST_SE**2 * np.eye(num_chunks))
    half_RJ = rng.standard_normal((_GATES // 2, num_chunks)) @ root_JJ.T
    value_RJ = effect_J + np.concatenate([half_RJ, -half_RJ])
    entering_RJ, staying_RJ = outcomes(value_RJ, covariance_JJ, rule, degrees)
    return np.asarray(entering_RJ.mean(axis=0)), np.asarray(staying_RJ.mean(axis=0))


def _top(passing_RJ: Kept, first_RJ: Kept, rank_RJ: Vector, top_k: int) -> Kept:
    """Keep at most ``top_k`` of the passing chunks: those in ``first_RJ`` before the others, then by rank."""
    if top_k >= passing_RJ.shape[1]:
        return passing_RJ
    place_RJ = np.lexsort((-rank_RJ, ~first_RJ, ~passing_RJ), axis=-1).argsort(axis=-1)
    return np.asarray(passing_RJ & (place_RJ < top_k))


RULES: Mapping[str, type[DecisionRule]] = {
    "positive_topk": GateRule,
    "probability": ProbabilityRule,
    "fdr": FdrRule,
    "keep": KeepRule,
}


@dataclass(frozen=True, slots=True)
class PolicyOutlook:
    """What a policy does to chunks of known worth.

    Attributes:
        policy: its name.
        useless_passes: probability that a useless candidate enters when the whole pool is useless.
        useless_admitted: how many of the stated number of useless candidates enter.
        useless_stays: probability that a useless incumbent stays.
        useful_kept: probability that a candidate of the stated effect enters, among otherwise useless ones.
    """

    policy: str
    useless_passes: float
    useless_admitted: float
    useless_stays: float
    useful_kept: float


@dataclass(frozen=True, slots=True, eq=False)
class GatePlan:
    """What a gate will be able to say.

    Attributes:
        design: the gate.
        effect: δ, the effect that it should see, reward units.
        useless: number of useless candidates behind `PolicyOutlook.useless_admitted`.
        se_J: standard error of each chunk, those of contested slots first.
        smallest_effect: MDE of the worst measured chunk (80 % power, two-sided 5 %).
        tasks_needed: smallest n whose MDE is δ.
        correct_sign: probability that β̂ of a chunk of effect δ is positive.
        outlooks: one per policy.
    """

    design: GateDesign
    effect: float
    useless: int
    se_J: Vector
    smallest_effect: float
    tasks_needed: int
    correct_sign: float
    outlooks: tuple[PolicyOutlook, ...]


def plan_gate(
    design: GateDesign, *, effect: float, rules: Sequence[DecisionRule], useless: int | None = None
) -> GatePlan:
    """Return what the gate will be able to say.

    Args:
        design: the gate.
        effect: δ > 0, the effect that it should see.
        rules: the policies to compare.
        useless: how many useless candidates to expect among the admitted ones; all chunks by default.

    Raises:
        ConfigError: unless the effect is positive.
    """
    se_J = standard_errors(design)
    count = design.chunks if useless is None else useless
    return GatePlan(
        design=design,
        effect=effect,
        useless=count,
        se_J=se_J,
        smallest_effect=smallest_effect(design),
        tasks_needed=tasks_for(design, effect),
        correct_sign=NormalDist().cdf(effect / float(se_J[-1])),
        outlooks=tuple(_outlook(design, effect, rule, count) for rule in rules),
    )


def require_power(plan: GatePlan) -> None:
    """Refuse a gate that cannot see the effect that it was asked for, or has too few tasks to promise anything.

    Raises:
        UnderpoweredError: naming the smallest effect it sees and the number of tasks that would do.
    """
    if plan.smallest_effect > plan.effect or plan.design.too_few:
        enough = max(plan.tasks_needed, ENOUGH_TASKS * plan.design.chunks)
        raise UnderpoweredError(
            f"{sentence(plan.design)}; it was asked for {plan.effect:.3f}. Use {enough:,} tasks, "
            "fewer chunks, a cheaper estimator, or ask for a larger effect"
        )


def sentence(design: GateDesign) -> str:
    """Say what the gate can see, in words."""
    text = (
        f"with {design.tasks:,} tasks, {counted(design.chunks, 'chunk')} and σ = {design.sigma:.2f} "
        f"the gate can only see effects of {smallest_effect(design):.3f} or more"
    )
    return f"{text}; {design.too_few}" if design.too_few else text


def verdict(plan: GatePlan) -> str:
    """Say in plain words what the gate can see and what slips through."""
    wider = replace(plan.design, tasks=4 * plan.design.tasks)
    first = plan.outlooks[0]
    enough = plan.smallest_effect <= plan.effect
    asked = f"an effect of {plan.effect:.3f} " + (
        "is large enough to be seen" if enough else f"would need {plan.tasks_needed:,} tasks"
    )
    return (
        f"{sentence(plan.design)}; a useless chunk passes with probability {first.useless_passes:.0%}; "
        f"{wider.tasks:,} tasks would see {smallest_effect(wider):.3f}; {asked}"
    ).replace("%", " %")


def _outlook(design: GateDesign, effect: float, rule: DecisionRule, useless: int) -> PolicyOutlook:
    """Simulate the policy, except where the published rule has a closed form."""
    nothing_J = np.zeros(design.chunks)
    one_J = np.array([0.0] * (design.chunks - 1) + [effect])
    covariance_JJ = promised_covariance(design)
    degrees = design.tasks - design.columns
    if isinstance(rule, GateRule) and rule.top_k >= design.chunks:
        enters = remains = 0.5
        kept = NormalDist().cdf(effect / math.sqrt(covariance_JJ[-1, -1]))
    else:
        enters, remains = (
            float(rate_J.mean()) for rate_J in admission_rates(nothing_J, covariance_JJ, rule, degrees=degrees)
        )
        kept = float(admission_rates(one_J, covariance_JJ, rule, degrees=degrees)[0][-1])
    policy = next(name for name, kind in RULES.items() if isinstance(rule, kind))
    return PolicyOutlook(policy, enters, useless * enters, remains, kept)
