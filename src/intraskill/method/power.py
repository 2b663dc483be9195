"""The gate's power, known before it runs: standard errors, the smallest visible effect, what each policy lets through.

    Var(β̂) = noise / n · I⁻¹              I = E[C Cᵀ], or Cov(C) for an estimator with an intercept
    p ∈ (0, 1), no rival texts, no intercept:  Var(β̂_j) = σ² / (n p (1−p)) · (1 − p / (1 − p + p J))

σ is the SD of R − B with one rollout in each arm. With ρ = corr(R, B) a reward has variance s² = σ² / (2 (1 − ρ)), of
which the task explains ρ and replicates average the rest: they are worth what is said here only while a chunk helps
every task alike. Shape letters: J chunks, N tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from intraskill.method.admission import admission_rates
from intraskill.method.errors import ConfigError, UnderpoweredError
from intraskill.method.gate_rules import DecisionRule, FdrRule, GateRule, ProbabilityRule

Vector = NDArray[np.float64]
EstimatorName = Literal["paired_ols", "paired_ols_intercept", "ancova", "masked_ols", "covariate"]
VISIBLE = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
"""2.80: effects this many standard errors large are seen with 80 % power by a two-sided test at 5 %."""
POLICY_NAMES = {GateRule: "positive_topk", ProbabilityRule: "probability", FdrRule: "fdr"}


@dataclass(frozen=True, slots=True)
class GateDesign:
    """A gate that could be run.

    Attributes:
        chunks: J, chunks of the pool.
        tasks: n, validation tasks.
        sigma: SD of R − B around C β, one rollout in each arm, reward units.
        inclusion: p, probability that a chunk is shown.
        slots: sizes of the mutually exclusive versions of each contested slot: (1, 1) a REWRITE, (2, 1) a MERGE,
            (1, 1, 1) two rival rewrites. The other chunks stand alone.
        estimator: which regression.
        correlation: corr(R, B) between single rollouts of one task, in [0, 1); the paired estimators do without it.
        masked_replicates: masked rollouts per task.
        bare_replicates: bare rollouts per task; for ``covariate`` the earlier ones that H averages, which cost nothing.

    Raises:
        ConfigError: for values that no gate can have.
    """

    chunks: int
    tasks: int
    sigma: float
    inclusion: float = 0.5
    slots: tuple[tuple[int, ...], ...] = ()
    estimator: EstimatorName = "paired_ols"
    correlation: float | None = None
    masked_replicates: int = 1
    bare_replicates: int = 1

    def __post_init__(self) -> None:
        contested = sum(map(sum, self.slots))
        wrong = {
            f"chunks must be 1 or more, got {self.chunks}": self.chunks < 1,
            f"{self.tasks} tasks cannot measure {self.chunks} chunks; use more tasks": self.tasks <= self.chunks,
            f"sigma must be a positive reward, got {self.sigma}": not 0.0 < self.sigma < math.inf,
            f"inclusion must lie strictly between 0 and 1, got {self.inclusion}": not 0.0 < self.inclusion < 1.0,
            f"the slots hold {contested} chunks, the pool {self.chunks}; raise chunks": contested > self.chunks,
            f"a contested slot has at least two versions of at least one chunk, got {self.slots}": any(
                len(slot) < 2 or min(slot) < 1 for slot in self.slots
            ),
            f"unknown estimator {self.estimator!r}; choose one of {', '.join(get_args(EstimatorName))}": (
                self.estimator not in get_args(EstimatorName)
            ),
            f"the estimator {self.estimator} needs corr(R, B); give correlation": (
                self.correlation is None and not self.estimator.startswith("paired")
            ),
            f"correlation must lie in [0, 1), got {self.correlation}": not 0.0 <= (self.correlation or 0.0) < 1.0,
            "replicates must be 1 or more": min(self.masked_replicates, self.bare_replicates) < 1,
        }
        if messages := [message for message, holds in wrong.items() if holds]:
            raise ConfigError(messages[0])

    @property
    def rollouts(self) -> int:
        """Rollouts of both arms."""
        bare = 0 if self.estimator in ("masked_ols", "covariate") else self.bare_replicates
        return self.tasks * (self.masked_replicates + bare)


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


def information(design: GateDesign) -> Vector:
    """Return what one task tells, exactly: E[C Cᵀ], or Cov(C) when the estimator has an intercept, (J, J).

    In a contested slot with versions of a_v chunks, Σ a_v = a, the legal states have total probability
    Z = q^a + Σ_v (1 − q^{a_v}) q^{a − a_v}; a chunk of version v is shown with p q^{a − a_v} / Z, two of one version
    with p² q^{a − a_v} / Z, chunks of different versions never together. Slots are independent.
    """
    p, q = design.inclusion, 1.0 - design.inclusion
    shown: list[float] = []
    blocks: list[Vector] = []
    lone = design.chunks - sum(map(sum, design.slots))
    for versions in (*design.slots, *((1,) for _ in range(lone))):
        size = sum(versions)
        total = q**size + sum((1.0 - q**a) * q ** (size - a) for a in versions)
        block = np.zeros((size, size))
        start = 0
        for a in versions:
            alone = q ** (size - a) / total
            block[start : start + a, start : start + a] = alone * (p * p + p * q * np.eye(a))
            shown += [p * alone] * a
            start += a
        blocks.append(block)
    mean_J = np.array(shown)
    moment_JJ = np.outer(mean_J, mean_J)
    start = 0
    for block in blocks:
        moment_JJ[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return moment_JJ if design.estimator == "paired_ols" else moment_JJ - np.outer(mean_J, mean_J)


def noise_variance(design: GateDesign) -> float:
    """Return the residual variance of one row of the regression, reward units squared."""
    if design.estimator.startswith("paired"):
        return design.sigma**2 / 2.0 * (1.0 / design.masked_replicates + 1.0 / design.bare_replicates)
    rho = design.correlation or 0.0
    reward = design.sigma**2 / (2.0 * (1.0 - rho))
    masked = reward * (rho + (1.0 - rho) / design.masked_replicates)
    if design.estimator == "masked_ols":
        return masked
    bare = reward * (rho + (1.0 - rho) / design.bare_replicates)
    return masked - (rho * reward) ** 2 / bare


def coefficient_covariance_of(design: GateDesign) -> Vector:
    """Return the covariance of β̂ that the design promises, (J, J), to first order in J / n."""
    return np.asarray(np.linalg.inv(information(design)) * (noise_variance(design) / design.tasks))


def standard_errors(design: GateDesign) -> Vector:
    """Return the standard error of each chunk, (J,), those of contested slots first."""
    return np.asarray(np.sqrt(np.diag(coefficient_covariance_of(design))))


def smallest_effect(design: GateDesign) -> float:
    """Return the MDE of the worst measured chunk: 2.80 standard errors (80 % power, two-sided 5 %)."""
    return VISIBLE * float(standard_errors(design).max())


def tasks_for(design: GateDesign, effect: float) -> int:
    """Return the smallest number of tasks whose MDE is at most ``effect``.

    Raises:
        ConfigError: unless the effect is positive.
    """
    if not effect > 0.0:
        raise ConfigError(f"an effect to be seen must be a positive reward, got {effect}")
    exact = design.tasks * (smallest_effect(design) / effect) ** 2
    return max(math.ceil(exact - 1e-9), design.chunks + 1)


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
        smallest_effect=VISIBLE * float(se_J.max()),
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
        f"with {design.tasks:,} tasks, {design.chunks} chunk{'s' * (design.chunks > 1)} and σ = {design.sigma:.2f} "
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
    covariance_JJ = coefficient_covariance_of(design)
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
