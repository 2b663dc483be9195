"""Error spending: how many standard errors each planned look must see, so that all looks together err at one rate.

    spent by a share t of the pairs    4 (1 − Φ(z_{1 − error/4} / √t))        little early, nearly all at the end

At look k the score S_k = Z_k √t_k has independent increments N(0, t_k − t_{k−1}); the bound z_k is where the paths that
no earlier look stopped cross with exactly the probability that the look may spend. Estimates ± z_k SE are intervals
that cover at all planned looks together.

Source: Lan & DeMets (1983), O'Brien–Fleming-type spending; Armitage, McPherson & Rowe (1969) for the recursion;
Jennison & Turnbull (1989) for the repeated intervals.
"""

from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError

Vector = NDArray[np.float64]
GRID = 401
_NORMAL = NormalDist()


@lru_cache(maxsize=64)
def spending_bounds(looks: tuple[int, ...], error: float) -> tuple[float, ...]:
    """Return z_k of every look.

    Args:
        looks: numbers of pairs at the looks, growing; the last is the budget.
        error: two-sided error over all looks, in (0, 1).

    Raises:
        ConfigError: for looks that do not grow, or an impossible error.
    """
    if not looks or looks[0] < 1 or any(a >= b for a, b in zip(looks, looks[1:], strict=False)):
        raise ConfigError(f"planned looks must grow from at least one pair, got {looks}")
    if not 0.0 < error < 1.0:
        raise ConfigError(f"the error must lie strictly between 0 and 1, got {error}")
    shares = [pairs / looks[-1] for pairs in looks]
    bounds: list[float] = []
    score, density = np.zeros(1), np.ones(1)  # a point mass at 0 before the first look
    before = 0.0
    for share in shares:
        step = (share - before) ** 0.5
        budget = spent(share, error) - (spent(before, error) if before else 0.0)
        edge = _edge(score, density, step, budget)
        bounds.append(edge / share**0.5)
        fresh = np.linspace(-edge, edge, GRID)
        kernel = np.exp(-0.5 * np.square((fresh[:, None] - score[None, :]) / step)) / (step * (2 * np.pi) ** 0.5)
        density = (kernel @ density) * _simpson(edge)
        score, before = fresh, share
    return tuple(bounds)


def spent(share: float, error: float) -> float:
    """Return the error that may be spent by a share of the pairs, in (0, 1]."""
    return 4.0 * (1.0 - _NORMAL.cdf(_NORMAL.inv_cdf(1.0 - error / 4.0) / share**0.5))


def _edge(score: Vector, mass: Vector, step: float, budget: float) -> float:
    """Return the score beyond which a path ends with probability ``budget``, by bisection."""
    from scipy.special import ndtr  # slow to import: not before a sequential gate needs it

    low, high = 0.0, 12.0
    for _ in range(80):
        middle = (low + high) / 2.0
        crossing = float(mass @ (ndtr((score - middle) / step) + ndtr((-score - middle) / step)))
        low, high = (middle, high) if crossing > budget else (low, middle)
    return high


def _simpson(edge: float) -> Vector:
    weights = np.ones(GRID)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return np.asarray(weights * (2.0 * edge / (GRID - 1) / 3.0))
