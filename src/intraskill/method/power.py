"""The gate's power, known before it runs: the smallest visible effect, and what each policy lets through."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from intraskill.method.admission import admission_rates
from intraskill.method.errors import UnderpoweredError, counted
from intraskill.method.gate_design import (
    GateDesign,
    promised_covariance,
    smallest_effect,
    standard_errors,
    tasks_for,
)
from intraskill.method.gate_rules import DecisionRule, FdrRule, GateRule, ProbabilityRule

Vector = NDArray[np.float64]
POLICY_NAMES = {GateRule: "positive_topk", ProbabilityRule: "probability", FdrRule: "fdr"}


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
    """Refuse a gate that cannot see the effect that it was asked for.

    Raises:
        UnderpoweredError: naming the smallest effect it sees and the number of tasks that would do.
    """
    if plan.smallest_effect > plan.effect:
        raise UnderpoweredError(
            f"{sentence(plan.design)}; it was asked for {plan.effect:.3f}. Use {plan.tasks_needed:,} tasks, "
            "fewer chunks, a cheaper estimator, or ask for a larger effect"
        )


def sentence(design: GateDesign) -> str:
    """Say what the gate can see, in words."""
    return (
        f"with {design.tasks:,} tasks, {counted(design.chunks, 'chunk')} and σ = {design.sigma:.2f} "
        f"the gate can only see effects of {smallest_effect(design):.3f} or more"
    )


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
    degrees = max(design.tasks - design.chunks, 1)
    if isinstance(rule, GateRule) and rule.top_k >= design.chunks:
        enters = remains = 0.5
        kept = NormalDist().cdf(effect / math.sqrt(covariance_JJ[-1, -1]))
    else:
        enters, remains = (
            float(rate_J.mean()) for rate_J in admission_rates(nothing_J, covariance_JJ, rule, degrees=degrees)
        )
        kept = float(admission_rates(one_J, covariance_JJ, rule, degrees=degrees)[0][-1])
    return PolicyOutlook(POLICY_NAMES[type(rule)], enters, useless * enters, remains, kept)
