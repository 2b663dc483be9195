"""Intervals that all cover together: what may be said of chunks by name.

Of twelve useless chunks one is far from 0 by its own 95 % interval in a third of all gates. A sentence that names
chunks therefore uses the max-t intervals: β̂_j ± c · SE_j with c the 95 % point of max_j |T_j|, T multivariate t with
the correlation of the fitted contributions. They are wrong of any chunk at all in 5 % of gates.

Source: Hothorn, Bretz & Westfall (2008), simultaneous inference in general parametric models.
Shape letters: J chunks, D draws.
"""

import numpy as np
from numpy.typing import NDArray

from intraskill.method.gate.intervals import t_quantile
from intraskill.method.gate.regression import CONFIDENCE, Contributions
from intraskill.method.randomness import child_seed
from intraskill.method.skill.skill import ChunkId

_DRAWS = 100_000
"""The simulated c of 12 chunks scatters by 0.3 %; its draws are fixed, so equal gates give equal intervals."""


def critical_value(covariance_JJ: NDArray[np.float64], degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return c, the ``confidence`` quantile of the largest |T_j|, for estimates of this covariance, (J, J)."""
    chunks = len(covariance_JJ)
    if chunks < 2:
        return t_quantile(0.5 + confidence / 2, degrees)
    se_J = np.sqrt(np.diag(covariance_JJ))
    scale_JJ = np.outer(se_J, se_J)
    value_J, vector_JJ = np.linalg.eigh(np.divide(covariance_JJ, scale_JJ, out=np.eye(chunks), where=scale_JJ > 0.0))
    rng = np.random.Generator(np.random.PCG64(child_seed(0, "max-t", chunks)))
    normal_DJ = rng.standard_normal((_DRAWS, chunks)) @ (vector_JJ * np.sqrt(np.maximum(value_J, 0.0))).T
    largest_D = np.abs(normal_DJ).max(axis=1) / np.sqrt(rng.chisquare(degrees, _DRAWS) / degrees)
    return float(np.quantile(largest_D, confidence))


def together(
    contributions: Contributions, confidence: float = CONFIDENCE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower and upper ends, (J,) each in reward units, of intervals that all cover together."""
    degrees = contributions.degrees or max(1, contributions.num_pairs - contributions.rank)  # older records have none
    covariance_JJ = contributions.covariance_JJ
    if covariance_JJ is None:  # in older records: as if independent, which is never too narrow by much
        covariance_JJ = np.diag(np.square(contributions.se_J))
    half_J = critical_value(covariance_JJ, degrees, confidence) * contributions.se_J
    return contributions.beta_J - half_J, contributions.beta_J + half_J


def sides(
    contributions: Contributions, negligible: float, confidence: float = CONFIDENCE
) -> dict[str, tuple[ChunkId, ...]]:
    """Sort chunks by the intervals that cover together.

    ``helps`` and ``hurts``: the interval lies above or below 0. ``negligible``: it holds 0 and that of twice the error
    lies within ±δ, which is two one-sided tests (Schuirmann 1987) for all chunks at once. ``unclear``: neither, so
    that nothing was shown, not even that there is nothing.

    Args:
        contributions: of the chunks.
        negligible: δ > 0, what is as good as no contribution, reward units.
        confidence: with which all chunks of the gate are named rightly.
    """
    by_side: dict[str, list[ChunkId]] = {"helps": [], "hurts": [], "negligible": [], "unclear": []}
    ends = zip(*together(contributions, confidence), *together(contributions, 2 * confidence - 1.0), strict=True)
    for chunk_id, (low, high, inner_low, inner_high) in zip(contributions.chunk_ids, ends, strict=True):
        small = -negligible < inner_low and inner_high < negligible
        by_side["helps" if low > 0.0 else "hurts" if high < 0.0 else "negligible" if small else "unclear"].append(
            chunk_id
        )
    return {side: tuple(chunk_ids) for side, chunk_ids in by_side.items()}
