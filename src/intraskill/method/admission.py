"""How often each policy lets a chunk into the skill, by a seeded simulation on the coefficients' own normal law.

Chunks stand alone here: no slot contests. Shape letters: J chunks, R simulated gates.
"""

import numpy as np
from numpy.typing import NDArray

from intraskill.method.fdr import discoveries, one_sided_p
from intraskill.method.gate_rules import DecisionRule, FdrRule, ProbabilityRule
from intraskill.method.randomness import child_seed
from intraskill.method.shrinkage import SMALLEST_SE, Shrinkage

Vector = NDArray[np.float64]
Kept = NDArray[np.bool_]
GATES = 2000


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
    else:
        passing_RJ = value_RJ > 0.0
    kept_RJ = _top(passing_RJ, passing_RJ, value_RJ, rule.top_k)
    return kept_RJ, kept_RJ


def admission_rates(
    effect_J: Vector, covariance_JJ: Vector, rule: DecisionRule, *, degrees: int, gates: int = GATES
) -> tuple[Vector, Vector]:
    """Return the probabilities that each chunk enters as a candidate and stays as an incumbent, (J,) each.

    α = ``effect_J``. The draws depend on the size of the pool and on ``gates`` alone, so two policies are compared on
    the same ones.
    """
    num_chunks = len(effect_J)
    rng = np.random.Generator(np.random.PCG64(child_seed(0, "admission", num_chunks, gates)))
    root_JJ = np.linalg.cholesky(covariance_JJ + SMALLEST_SE**2 * np.eye(num_chunks))
    half_RJ = rng.standard_normal((gates // 2, num_chunks)) @ root_JJ.T
    value_RJ = effect_J + np.concatenate([half_RJ, -half_RJ])
    entering_RJ, staying_RJ = outcomes(value_RJ, covariance_JJ, rule, degrees)
    return np.asarray(entering_RJ.mean(axis=0)), np.asarray(staying_RJ.mean(axis=0))


def _top(passing_RJ: Kept, first_RJ: Kept, rank_RJ: Vector, top_k: int) -> Kept:
    """Keep at most ``top_k`` of the passing chunks: those in ``first_RJ`` before the others, then by rank."""
    if top_k >= passing_RJ.shape[1]:
        return passing_RJ
    place_RJ = np.lexsort((-rank_RJ, ~first_RJ, ~passing_RJ), axis=-1).argsort(axis=-1)
    return np.asarray(passing_RJ & (place_RJ < top_k))
