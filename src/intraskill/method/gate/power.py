"""The gate's power, known before it runs: standard errors, the smallest visible effect, what each policy lets in."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast, get_args

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError, counted
from intraskill.method.gate.designs import Design
from intraskill.method.gate.estimators import Estimator
from intraskill.method.gate.intervals import t_quantile

Vector = NDArray[np.float64]
ENOUGH_TASKS = 10
"""Tasks per chunk below which a gate is called too small: its verdicts then hang on single tasks."""
NUISANCE: Mapping[str, int] = {"paired_ols": 0, "paired_ols_intercept": 1, "masked_ols": 1, "ancova": 2, "covariate": 2}
"""Columns beside the chunks; of ``covariate`` the one of earlier rounds and the intercept."""
PUBLISHED_SIGMA = 0.44
"""SD of R − B in the published run: what power is planned with before any gate has measured it."""
PUBLISHED_CORRELATION = 0.6
"""corr(R, B) there. At a given σ a higher one needs more tasks, so that 0 would be the optimistic guess."""


@dataclass(frozen=True, slots=True)
class GateDesign:
    """A gate that could be run.

    Attributes:
        chunks: J, chunks of the pool.
        tasks: n, validation tasks.
        sigma: SD of R − B around C β, one rollout in each arm, reward units (`gate_sigma`).
        inclusion: p, probability that a chunk is shown.
        slots: sizes of the mutually exclusive versions of each contested slot: (1, 1) a REWRITE, (2, 1) a MERGE,
            (1, 1, 1) two rival rewrites. The other chunks stand alone.
        estimator: which regression.
        correlation: corr(R, B) between single rollouts of one task, in [0, 1); the paired estimators do without it.
        masked_replicates: masked rollouts per task.
        bare_replicates: bare rollouts per task; for ``covariate`` the earlier ones that H averages, which cost nothing.
        mirrored: every second masked run shows, in every slot, another state than the run before (`designs`).

    Raises:
        ConfigError: for values that no gate can have.
    """

    chunks: int
    tasks: int
    sigma: float
    inclusion: float = 0.5
    slots: tuple[tuple[int, ...], ...] = ()
    estimator: Estimator = "paired_ols"
    correlation: float | None = None
    masked_replicates: int = 1
    bare_replicates: int = 1
    mirrored: bool = False

    def __post_init__(self) -> None:
        contested = sum(map(sum, self.slots))
        wrong = {
            f"chunks must be 1 or more, got {self.chunks}": self.chunks < 1,
            f"{self.tasks} tasks cannot measure {self.chunks} chunks; use more tasks": self.tasks < self.fewest_tasks,
            f"sigma must be a positive reward, got {self.sigma}": not 0.0 < self.sigma < math.inf,
            f"inclusion must lie strictly between 0 and 1, got {self.inclusion}": not 0.0 < self.inclusion < 1.0,
            f"the slots hold {contested} chunks, the pool {self.chunks}; raise chunks": contested > self.chunks,
            f"a contested slot has at least two versions of at least one chunk, got {self.slots}": any(
                len(slot) < 2 or min(slot) < 1 for slot in self.slots
            ),
            f"unknown estimator {self.estimator!r}; choose one of {', '.join(get_args(Estimator))}": (
                self.estimator not in get_args(Estimator)
            ),
            f"the estimator {self.estimator} needs corr(R, B); give correlation": (
                self.correlation is None and not self.estimator.startswith("paired")
            ),
            f"correlation must lie in [0, 1), got {self.correlation}": not 0.0 <= (self.correlation or 0.0) < 1.0,
            "replicates must be 1 or more": min(self.masked_replicates, self.bare_replicates) < 1,
            "a mirrored design needs inclusion 0.5 and an even number of masked rollouts per task": (
                self.mirrored and (self.inclusion != 0.5 or self.masked_replicates % 2 == 1)
            ),
        }
        if messages := [message for message, holds in wrong.items() if holds]:
            raise ConfigError(messages[0])

    @property
    def columns(self) -> int:
        """P, columns of the regression."""
        return self.chunks + NUISANCE.get(self.estimator, 0)

    @property
    def fewest_tasks(self) -> int:
        """Tasks below which the standard errors are infinite."""
        return self.columns + 2

    @property
    def too_few(self) -> str:
        """Say that there are too few tasks for this many chunks; empty otherwise."""
        if self.tasks >= ENOUGH_TASKS * self.chunks:
            return ""
        return (
            f"{self.tasks:,} tasks are too few for {counted(self.chunks, 'chunk')}: below {ENOUGH_TASKS} tasks per "
            f"chunk, {ENOUGH_TASKS * self.chunks:,} here, verdicts hang on single tasks"
        )

    @property
    def rollouts(self) -> int:
        """Rollouts that the estimator reads.

        A gate of `intraskill train` also plays the bare arm where the estimator reads none, for R_free, the gap and
        `paired_ols` beside: ``tasks · bare_replicates`` more for ``masked_ols`` and ``covariate``.
        """
        bare = 0 if self.estimator in ("masked_ols", "covariate") else self.bare_replicates
        return self.tasks * (self.masked_replicates + bare)


def planned(
    masks: Design,
    estimator: Estimator,
    *,
    chunks: int,
    tasks: int,
    sigma: float | None,
    correlation: float | None,
    slots: tuple[tuple[int, ...], ...] = (),
) -> GateDesign:
    """Return the gate of a mask design; σ and corr(R, B) are the published run's where nobody has measured them.

    Args:
        masks: kind, inclusion and replicates.
        estimator: which regression.
        chunks: J.
        tasks: n.
        sigma: SD of R − B, one rollout in each arm, or ``None``.
        correlation: corr(R, B) or ``None``; a measured negative one counts as 0.
        slots: sizes of the versions of each contested slot.

    Raises:
        ConfigError: for values that no gate can have.
    """
    return GateDesign(
        chunks=chunks,
        tasks=tasks,
        sigma=PUBLISHED_SIGMA if sigma is None else sigma,
        inclusion=masks.inclusion,
        slots=slots,
        estimator=estimator,
        correlation=min(max(PUBLISHED_CORRELATION if correlation is None else correlation, 0.0), 0.99),
        masked_replicates=masks.masked_replicates,
        bare_replicates=masks.bare_replicates,
        mirrored=masks.kind == "mirrored",
    )


def in_a_run(estimator: str) -> Estimator:
    """Return the law of a run's estimator; ``covariate``, with B in it, is an ``ancova`` with a column more."""
    return "ancova" if estimator == "covariate" else cast(Estimator, estimator)


def shown_probability(design: GateDesign) -> Vector:
    """Return the probability that a row shows each chunk, (J,), those of contested slots first."""
    return np.concatenate([np.diag(block) for block in _slot_moments(design)])


def information(design: GateDesign) -> Vector:
    """Return what one row tells, exactly: E[C Cᵀ], or Cov(C) when the estimator has an intercept, (J, J).

    In a contested slot with versions of a_v chunks, Σ a_v = a, the legal states have total probability
    Z = q^a + Σ_v (1 − q^{a_v}) q^{a − a_v}; a chunk of version v is shown with p q^{a − a_v} / Z, two of one version
    with p² q^{a − a_v} / Z, chunks of different versions never together. Slots are independent.
    """
    mean_J = shown_probability(design)
    moment_JJ = np.outer(mean_J, mean_J)
    start = 0
    for block in _slot_moments(design):
        moment_JJ[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return moment_JJ if design.estimator == "paired_ols" else moment_JJ - np.outer(mean_J, mean_J)


def _all_slots(design: GateDesign) -> list[tuple[int, ...]]:
    """Return the sizes of the versions of every slot, contested ones first; a chunk without rivals is a slot (1,)."""
    lone = design.chunks - sum(map(sum, design.slots))
    return [*design.slots, *((1,) for _ in range(lone))]


def _slot_moments(design: GateDesign) -> list[Vector]:
    """Return E[C Cᵀ] of each slot by itself."""
    p, q = design.inclusion, 1.0 - design.inclusion
    blocks: list[Vector] = []
    for versions in _all_slots(design):
        size = sum(versions)
        total = q**size + sum((1.0 - q**a) * q ** (size - a) for a in versions)
        block = np.zeros((size, size))
        start = 0
        for a in versions:
            block[start : start + a, start : start + a] = q ** (size - a) / total * (p * p + p * q * np.eye(a))
            start += a
        blocks.append(block)
    return blocks


def gate_sigma(residual_sd: float, bare_replicates: int) -> float:
    """Return σ of a gate: the SD of R − B around C β, one rollout in each arm.

    Args:
        residual_sd: of its ``paired_ols``, whatever the estimator that decided.
        bare_replicates: bare runs per task; a row of that fit has variance σ²/2 · (1 + 1/bare_replicates).
    """
    return float(residual_sd / ((1.0 + 1.0 / bare_replicates) / 2.0) ** 0.5)


def _noise_variance(design: GateDesign) -> float:
    """Return the residual variance of one row of the regression, reward units squared; a row is a masked rollout."""
    if design.estimator.startswith("paired"):
        return design.sigma**2 / 2.0 * (1.0 + 1.0 / design.bare_replicates)
    rho = design.correlation or 0.0
    reward = design.sigma**2 / (2.0 * (1.0 - rho))
    if design.estimator == "masked_ols":
        return reward
    bare = reward * (rho + (1.0 - rho) / design.bare_replicates)
    return reward - (rho * reward) ** 2 / bare if rho else reward


def promised_covariance(design: GateDesign) -> Vector:
    """Return the covariance of β̂ that the design promises, (J, J).

    To first order in J / n, times N / (N − P − 1) for N rows and P columns: the mean of (XᵀX)⁻¹ over drawn designs
    (exact for normal columns), without which 24 tasks promise twelve chunks 80 % power and give 21 %.

    With r rows per task, a row's residual of variance v shares ω = v − σ²/2 with the others of its task (the task
    itself, or the noise of B), so Var(β̂) = I⁻¹ (v I + ω Σ_{k≠l} E[C_k C_lᵀ] / r) I⁻¹ / (n r). Masks of their own make
    the sum r (r − 1) E[C] E[C]ᵀ, which an intercept removes; mirrored masks make it negative; that is their use.
    """
    inverse_JJ = np.linalg.inv(information(design))
    noise = _noise_variance(design)
    shared = noise - design.sigma**2 / 2.0
    middle_JJ = noise * information(design) + shared * between_rows(design)
    rows = design.tasks * design.masked_replicates
    return np.asarray(inverse_JJ @ middle_JJ @ inverse_JJ / (rows - design.columns - 1))


def between_rows(design: GateDesign) -> Vector:
    """Return Σ_{k≠l} E[C_k C_lᵀ] / r over the rows of one task, (J, J); centred when the estimator has an intercept."""
    mean_J = shown_probability(design)
    square_JJ = np.outer(mean_J, mean_J)
    centre = 0.0 if design.estimator == "paired_ols" else 1.0
    pairs = design.masked_replicates - 1
    if not design.mirrored:
        return np.asarray((1.0 - centre) * pairs * square_JJ)
    mirror_JJ = square_JJ.copy()
    start = 0
    for versions in _all_slots(design):
        block = _mirrored_moment(versions)
        mirror_JJ[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return np.asarray(mirror_JJ - centre * square_JJ + (1.0 - centre) * (pairs - 1) * square_JJ)


def _mirrored_moment(versions: tuple[int, ...]) -> Vector:
    """Return E[C_k C_lᵀ] of one slot when l shows a state of the slot that k does not, all S states equally likely."""
    size, start = sum(versions), 0
    rows = [np.zeros(size)]
    for a in versions:
        for bits in itertools.product((0.0, 1.0), repeat=a):
            if any(bits):
                row = np.zeros(size)
                row[start : start + a] = bits
                rows.append(row)
        start += a
    states_SJ = np.array(rows)
    total_J = states_SJ.sum(axis=0)
    different = np.outer(total_J, total_J) - states_SJ.T @ states_SJ
    return np.asarray(different / (len(rows) * (len(rows) - 1)))


def standard_errors(design: GateDesign) -> Vector:
    """Return the standard error of each chunk, (J,), those of contested slots first."""
    return np.asarray(np.sqrt(np.diag(promised_covariance(design))))


def smallest_effect(design: GateDesign) -> float:
    """Return the MDE of the worst measured chunk, 80 % power of a two-sided test at 5 %, reward units."""
    return visible(design) * float(standard_errors(design).max())


def visible(design: GateDesign) -> float:
    """Return how many standard errors large an effect must be to be seen with 80 % power: 2.80 in a large gate.

    t_{0.975} √(n / (n − P)) + t_{0.8}, with n − P degrees of freedom: HC3's squared errors are n / (n − P) too large on
    average, which keeps the intervals honest and costs power.
    """
    degrees = design.tasks - design.columns
    return t_quantile(0.975, degrees) * math.sqrt(design.tasks / degrees) + t_quantile(0.8, degrees)


def tasks_for(design: GateDesign, effect: float) -> int:
    """Return the smallest number of tasks whose MDE is at most ``effect``.

    Raises:
        ConfigError: unless the effect is positive.
    """
    if not effect > 0.0:
        raise ConfigError(f"an effect to be seen must be a positive reward, got {effect}")
    fewest, enough = design.fewest_tasks, design.fewest_tasks
    while smallest_effect(replace(design, tasks=enough)) > effect:
        fewest, enough = enough, 2 * enough
    return fewest + bisect_left(
        range(fewest, enough), True, key=lambda tasks: smallest_effect(replace(design, tasks=tasks)) <= effect
    )
