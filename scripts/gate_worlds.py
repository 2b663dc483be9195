"""Worlds for the gate whose true contributions are known exactly: task difficulties and what a visible set is worth.

Task i succeeds with b_i when bare and with b_i + w_i f(C) under the visible set C. b_i follows a Beta law whose spread
gives corr(B, B') = ρ between two runs of a task; a graded reward is the share of g criteria met. The helpful part of f
is weighted by the task's headroom 1 − b_i and the harmful part by b_i, capped and of mean 1, so that no probability
leaves [0, 1] and the truth is a property of f alone. Four kinds of f over 12 chunks:

    additive   Σ e_j C_j
    pairs      two helpful chunks that say the same, two that need each other, and two that clash
    ceiling    1 − Π (1 − share_j C_j): every further helpful chunk adds less
    text       additive, and showing any text at all is worth +0.05

Shape letters: J chunks, V visible sets.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta as beta_law

Array = NDArray[np.float64]
EFFECTS = np.array([0.10, 0.08, 0.06, 0.04, 0.02, -0.05, -0.03, 0.0, 0.0, 0.0, 0.0, 0.0])
CHUNKS = len(EFFECTS)
TEXT = 0.05
TABLE = 20_000


@dataclass(frozen=True)
class World:
    """How tasks and chunks behave.

    Attributes:
        kind: ``additive``, ``pairs``, ``ceiling`` or ``text``.
        correlation: ρ between two bare runs of one task.
        grades: g, criteria per reward; 1 is a binary reward.
        mean: mean bare reward.
        persistence: correlation of a task's (normal) difficulty from one round to the next.
        learning: what a round of training adds to the log odds of every task.
        scale: factor on every effect; 0 makes the whole pool useless.
    """

    kind: str = "additive"
    correlation: float = 0.65
    grades: int = 1
    mean: float = 0.5
    persistence: float = 0.97
    learning: float = 0.3
    scale: float = 1.0


@dataclass(frozen=True)
class Layout:
    """How a gate is laid out.

    Attributes:
        tasks: n.
        masked: masked runs per task.
        bare: bare runs per task.
        balanced: balanced masks instead of Bernoulli ones.
        mirrored: every second masked run of a task shows exactly the chunks that the one before hid.
        inclusion: p.
        placebos: columns of neutral text.
        rounds: earlier rounds behind the history H.
    """

    tasks: int
    masked: int = 1
    bare: int = 1
    balanced: bool = False
    mirrored: bool = False
    inclusion: float = 0.5
    placebos: int = 0
    rounds: int = 4


@lru_cache
def visible_sets() -> Array:
    """Return every visible set, (V, J)."""
    return np.array(list(product((0.0, 1.0), repeat=CHUNKS)))


@lru_cache
def effects(kind: str, scale: float) -> tuple[Array, Array]:
    """Return what every visible set gives and what it takes, both ≥ 0, (V,) each."""
    shown_VJ = visible_sets()
    helpful_J, harmful_J = np.maximum(EFFECTS, 0.0), np.maximum(-EFFECTS, 0.0)
    gives_V, takes_V = shown_VJ @ helpful_J, shown_VJ @ harmful_J
    if kind == "pairs":
        gives_V = gives_V - 0.06 * shown_VJ[:, 0] * shown_VJ[:, 1] + 0.06 * shown_VJ[:, 2] * shown_VJ[:, 7]
        takes_V = takes_V + 0.04 * shown_VJ[:, 3] * shown_VJ[:, 8]
    elif kind == "ceiling":
        most = helpful_J.sum()
        gives_V = most * (1.0 - np.prod(1.0 - shown_VJ * helpful_J / most, axis=1))
    elif kind == "text":
        gives_V = gives_V + TEXT * shown_VJ.any(axis=1)
    return scale * gives_V, scale * takes_V


def truths(kind: str, scale: float = 1.0, inclusion: float = 0.5) -> dict[str, Array]:
    """Return what β could mean, (J,) each.

    ``alone``: the chunk by itself against no skill. ``marginal``: its mean effect over what else the masks show.
    ``projection``: the best additive approximation through zero, which `paired_ols` aims at.
    """
    shown_VJ = visible_sets()
    gives_V, takes_V = effects(kind, scale)
    value_V = gives_V - takes_V
    weight_V = np.prod(np.where(shown_VJ > 0, inclusion, 1.0 - inclusion), axis=1)
    moment_JJ = shown_VJ.T @ (weight_V[:, None] * shown_VJ)
    by_chunk = [weight_V * shown_VJ[:, j] for j in range(CHUNKS)]
    return {
        "alone": np.array([value_V[1 << (CHUNKS - 1 - j)] for j in range(CHUNKS)]),
        "marginal": np.array([w @ value_V / inclusion - (weight_V - w) @ value_V / (1 - inclusion) for w in by_chunk]),
        "projection": np.linalg.solve(moment_JJ, shown_VJ.T @ (weight_V * value_V)),
    }


@lru_cache
def difficulties(world: World) -> tuple[Array, float, float]:
    """Return b at equally spaced quantiles, and the caps of both weights that make their means 1."""
    concentration = world.grades * (1.0 - world.correlation) / world.correlation
    places = (np.arange(TABLE) + 0.5) / TABLE
    bare = beta_law.ppf(places, world.mean * concentration, (1.0 - world.mean) * concentration)
    most = [max(float(part_V.max()), 1e-12) for part_V in effects(world.kind, world.scale)]
    return bare, _cap((1.0 - bare) / most[0]), _cap(bare / most[1])


def _cap(room: Array) -> float:
    """Return the cap W with mean(min(W, room)) = 1."""
    low, high = 0.0, float(min(room.max(), 1e9))
    if room.mean() < 1.0:
        raise ValueError(f"the effects do not fit between 0 and 1: mean room {room.mean():.2f}")
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle, room).mean() < 1.0 else (low, middle)
    return high
