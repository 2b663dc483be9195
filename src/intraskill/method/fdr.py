"""False discoveries: one-sided p-values of contributions, and Benjamini–Hochberg over all of a gate's questions.

Source: Benjamini & Hochberg (1995). Shape letters: J hypotheses, R repetitions.
"""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def one_sided_p(value_J: Vector, se_J: Vector, degrees: int) -> Vector:
    """Return p of H₀: α ≤ 0 against α > 0 by Student's t; a standard error of 0 counts the sign as certain."""
    from scipy.special import stdtr  # slow to import: not before a gate asks for it

    with np.errstate(divide="ignore", invalid="ignore"):
        t_J = np.where(se_J > 0.0, value_J / se_J, np.where(value_J > 0.0, np.inf, -np.inf))
    return np.asarray(stdtr(degrees, -t_J))


def discoveries(p_RJ: Vector, rate: float) -> NDArray[np.bool_]:
    """Return which hypotheses Benjamini–Hochberg rejects at ``rate``, along the last axis.

    The largest i with p_(i) ≤ i · rate / J decides: every hypothesis with a p up to p_(i) is rejected.
    """
    count = p_RJ.shape[-1]
    if count == 0:
        return np.zeros(p_RJ.shape, dtype=bool)
    ordered = np.sort(p_RJ, axis=-1)
    passing = ordered <= rate * np.arange(1, count + 1) / count
    cutoff = np.max(np.where(passing, ordered, -1.0), axis=-1, keepdims=True)
    return np.asarray(p_RJ <= cutoff)
