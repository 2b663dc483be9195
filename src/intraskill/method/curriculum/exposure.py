"""The two-level curriculum: which chunks to show, and how often to show none (method §8)."""

from dataclasses import dataclass

from intraskill.method.errors import ConfigError, EditError, offenders
from intraskill.method.gate.regression import Contributions
from intraskill.method.skill.skill import ChunkId, Skill


@dataclass(frozen=True, slots=True)
class ExposureRule:
    """The absolute exposure map g (method §8.1).

    Attributes:
        floor: ρ_min, exposure of a chunk without measured contribution, in (0, 1).
        ceiling: ρ_max, in [floor, 1).
        saturation: contribution from which exposure stays at the ceiling, reward units, > 0.
    """

    floor: float
    ceiling: float
    saturation: float

    def __post_init__(self) -> None:
        if not 0.0 < self.floor <= self.ceiling < 1.0:
            raise ConfigError(f"exposure needs 0 < floor ≤ ceiling < 1, got floor {self.floor}, ceiling {self.ceiling}")
        if not self.saturation > 0.0:
            raise ConfigError(f"saturation must be a positive reward, got {self.saturation}")

    def exposure(self, beta: float) -> float:
        """Return ρ = floor + (ceiling − floor) · min(max(β, 0) / saturation, 1).

        Absolute, not scaled by the round's largest β: scaled, the last useless chunk would stay at the ceiling and
        the negative feedback of method §8.3 would be lost.
        """
        if beta >= self.saturation:
            return self.ceiling
        return min(self.floor + (self.ceiling - self.floor) * (max(beta, 0.0) / self.saturation), self.ceiling)


def allocate_exposure(skill: Skill, contributions: Contributions, rule: ExposureRule) -> dict[ChunkId, float]:
    """Return ρ_{t+1,j} of every chunk of ``skill``; each depends on its own β only (method §8.1).

    Raises:
        EditError: if a chunk of the skill was not measured.
    """
    beta = contributions.by_chunk
    if unmeasured := [chunk_id for chunk_id in skill.ids if chunk_id not in beta]:
        raise EditError(f"chunks without a contribution, {offenders(unmeasured)}; run them through the gate first")
    return {chunk_id: rule.exposure(beta[chunk_id]) for chunk_id in skill.ids}


def fixed_q(skill_free_prob: float) -> float:
    """Return the published controller's q: always the same (0.20 there).

    Raises:
        ConfigError: outside (0, 1).
    """
    if not 0.0 < skill_free_prob < 1.0:
        raise ConfigError(f"skill_free_prob must lie strictly between 0 and 1, got {skill_free_prob}")
    return skill_free_prob


def linear_q(start: float, ceiling: float, *, round_index: int, rounds: int) -> float:
    """Return q of the round after ``round_index``: ``start`` in round 1, ``ceiling`` in the last, equal steps between.

    Raises:
        ConfigError: outside 0 < start ≤ ceiling < 1.
    """
    if not 0.0 < start <= ceiling < 1.0:
        raise ConfigError(f"a linear q needs 0 < start ≤ ceiling < 1, got start {start}, ceiling {ceiling}")
    return start + (ceiling - start) * min(round_index / max(rounds - 1, 1), 1.0)


def gap_q(
    previous: float,
    r_free: float,
    gap: float,
    *,
    floor: float,
    ceiling: float,
    max_change: float,
) -> float:
    """Return q_{t+1} from R_free and the internalisation gap G_t (method §8.2).

    ``target = floor + (ceiling − floor) · R_free / (R_free + max(G_t, 0))``: the share of the pair's reward that the
    model earns alone. As R_free rises and the gap closes, more groups go without skill; a model that earns nothing
    alone keeps its scaffold. q moves at most ``max_change`` per round and stays in [floor, ceiling], never 0.

    Args:
        previous: q_t; it may lie outside [floor, ceiling], the answer never does.
        r_free: mean skill-free reward; below 0 counts as 0.
        gap: G_t = R_pair − R_free, reward units.
        floor: smallest q, in (0, 1).
        ceiling: largest q, in [floor, 1).
        max_change: slew limit per round, > 0.

    Raises:
        ConfigError: for bounds outside 0 < floor ≤ ceiling < 1 or a slew limit that is not positive.
    """
    alone, assisted = max(r_free, 0.0), max(gap, 0.0)
    share = alone / (alone + assisted) if alone > 0.0 else 0.0
    target = floor + (ceiling - floor) * share
    return moved_q(previous, target, floor=floor, ceiling=ceiling, max_change=max_change)


def moved_q(previous: float, target: float, *, floor: float, ceiling: float, max_change: float) -> float:
    """Return q moved towards a target by at most ``max_change``, within [floor, ceiling].

    Raises:
        ConfigError: for bounds outside 0 < floor ≤ ceiling < 1 or a slew limit that is not positive.
    """
    if not 0.0 < floor <= ceiling < 1.0:
        raise ConfigError(f"skill_free_prob needs 0 < floor ≤ ceiling < 1, got floor {floor}, ceiling {ceiling}")
    if not max_change > 0.0:
        raise ConfigError(f"max_change must be positive, got {max_change}")
    moved = min(max(target, previous - max_change), previous + max_change)
    return min(max(moved, floor), ceiling)
