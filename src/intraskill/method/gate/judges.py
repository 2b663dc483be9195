"""Who wins a slot and where a chunk stands, by each decision rule, with the numbers that say so (method §7.3)."""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from intraskill.method.gate.pairs import Vector
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.rules import DecisionRule, Fate, FdrRule, GateRule, KeepRule, ProbabilityRule
from intraskill.method.gate.shrinkage import Evidence, coefficient_covariance, shrink
from intraskill.method.skill.edits import Slot
from intraskill.method.skill.skill import ChunkId


def one_sided_p(value_J: Vector, se_J: Vector, degrees: int) -> Vector:
    """Return p of H₀: α ≤ 0 against α > 0 by Student's t; a standard error of 0 counts the sign as certain."""
    from scipy.special import stdtr  # slow to import: not before a gate asks for it

    with np.errstate(divide="ignore", invalid="ignore"):
        t_J = np.where(se_J > 0.0, value_J / se_J, np.where(value_J > 0.0, np.inf, -np.inf))
    return np.asarray(stdtr(degrees, -t_J))


def discoveries(p_RJ: Vector, rate: float) -> NDArray[np.bool_]:
    """Return which hypotheses Benjamini–Hochberg rejects at ``rate``, along the last axis."""
    from scipy.stats import false_discovery_control  # slow to import: not before a gate asks for it

    if p_RJ.size == 0:
        return np.zeros(p_RJ.shape, dtype=bool)
    return np.asarray(false_discovery_control(p_RJ, axis=-1) <= rate)


_TIE = 1e-12
"""Sides closer than this share of their |β̂| + SE are tied: rounding is smaller, no gate can measure less."""


class _ByBeta:
    """The published rule: β̂ against 0 and against the other side."""

    def __init__(self, contributions: Contributions, rule: GateRule | FdrRule | KeepRule) -> None:
        self.value: Mapping[ChunkId, float] = contributions.by_chunk
        self._se = dict(zip(contributions.chunk_ids, contributions.se_J.tolist(), strict=True))
        self._top_k = rule.top_k

    def losers(self, slot: Slot) -> dict[ChunkId, Fate]:
        """The version with the largest Σ β̂ wins; a tie keeps the earlier one, first of all the old one."""
        return _all_but(slot, self._best(slot.versions))

    def standing(self, chunk_id: ChunkId, *, incumbent: bool) -> Fate:
        """Selected if β̂ > 0."""
        return Fate.SELECTED if self.value[chunk_id] > 0.0 else Fate.NON_POSITIVE

    def deletion(self, chunk_id: ChunkId) -> Fate:
        """The same inequality with nothing on the new side."""
        return Fate.SELECTED if self._new_side_wins(Slot((chunk_id,), ())) else Fate.SLOT_LOSER

    def chunk_words(self, chunk_id: ChunkId, fate: Fate) -> str:
        """β̂ ± SE and the fate."""
        words = {
            Fate.SELECTED: f"its contribution is positive and among the top {self._top_k}",
            Fate.NON_POSITIVE: "its contribution is not positive",
            Fate.BUDGET_EXCLUDED: f"its contribution is positive but not among the top {self._top_k}",
            Fate.SLOT_LOSER: "the other side of its slot contributes more, or as much and is the old one",
        }
        return f"{self._measured(chunk_id)}: {words[fate]}"

    def slot_words(self, slot: Slot) -> str:
        """The two sums."""
        return f"old {self._side(slot.old):+.4f}, new {self._side(slot.new):+.4f}"

    def _measured(self, chunk_id: ChunkId) -> str:
        return f"{self.value[chunk_id]:+.4f} ± {self._se[chunk_id]:.4f}"

    def _side(self, ids: Sequence[ChunkId]) -> float:
        return fsum(self.value[chunk_id] for chunk_id in ids)

    def _best(self, versions: Sequence[tuple[ChunkId, ...]]) -> tuple[ChunkId, ...]:
        """Return the version with the largest Σ β̂, the earliest of those that tie."""
        best = versions[0]
        for version in versions[1:]:
            best = version if self._new_side_wins(Slot(best, version)) else best
        return best

    def _new_side_wins(self, slot: Slot) -> bool:
        scale = fsum(abs(self.value[chunk_id]) + self._se[chunk_id] for chunk_id in (*slot.old, *slot.new))
        return self._side(slot.new) - self._side(slot.old) > _TIE * scale


class _ByDiscovery(_ByBeta):
    """Benjamini–Hochberg over every chunk (α ≤ 0), contested slot (new − old ≤ 0) and DELETE (α ≥ 0)."""

    def __init__(
        self,
        contributions: Contributions,
        contested: Sequence[Slot],
        accused: Sequence[ChunkId],
        rule: FdrRule,
    ) -> None:
        super().__init__(contributions, rule)
        covariance_JJ, _ = coefficient_covariance(contributions)
        challenges = [challenge for slot in contested for challenge in _challenges(slot)]
        challenges += [Slot((chunk_id,), ()) for chunk_id in accused]
        contrasts = [_contrast(contributions, challenge) for challenge in challenges]
        num_chunks = len(contributions.chunk_ids)
        rows = np.array([*np.eye(num_chunks), *contrasts]).reshape(num_chunks + len(contrasts), num_chunks)
        values = rows @ contributions.beta_J
        errors = np.sqrt(np.maximum(np.einsum("hj,jk,hk->h", rows, covariance_JJ, rows), 0.0))
        degrees = contributions.degrees or max(contributions.num_pairs - num_chunks, 1)
        p_values = one_sided_p(values, errors, degrees)
        names = [*contributions.chunk_ids, *map(_name, challenges)]
        self._p = dict(zip(names, p_values.tolist(), strict=True))
        self._found = dict(zip(names, discoveries(p_values, rule.rate).tolist(), strict=True))
        self._rate = rule.rate

    def losers(self, slot: Slot) -> dict[ChunkId, Fate]:
        """A new version takes the slot when its lead is a discovery and one of its chunks is one."""
        able = [
            challenge.new
            for challenge in _challenges(slot)
            if self._found[_name(challenge)] and any(self._found[chunk_id] for chunk_id in challenge.new)
        ]
        return _all_but(slot, self._best(able or [slot.old]))

    def standing(self, chunk_id: ChunkId, *, incumbent: bool) -> Fate:
        """Selected if its own hypothesis is rejected."""
        return Fate.SELECTED if self._found[chunk_id] else Fate.NOT_DISCOVERED

    def deletion(self, chunk_id: ChunkId) -> Fate:
        """Taken when the harm is a discovery; a chunk that is no discovery leaves anyway, but not by this edit."""
        if self._found[_name(Slot((chunk_id,), ()))]:
            return Fate.SELECTED
        return Fate.SLOT_LOSER if self._found[chunk_id] else Fate.NOT_DISCOVERED

    def chunk_words(self, chunk_id: ChunkId, fate: Fate) -> str:
        """β̂ ± SE, p and the fate."""
        words = {
            Fate.SELECTED: f"a discovery at rate {self._rate:g} and among the top {self._top_k}",
            Fate.NOT_DISCOVERED: f"no discovery at rate {self._rate:g}",
            Fate.BUDGET_EXCLUDED: f"a discovery at rate {self._rate:g} but not among the top {self._top_k}",
            Fate.SLOT_LOSER: "the other side of its slot is better beyond chance, or is the old one",
        }
        return f"{self._measured(chunk_id)}, p = {self._p[chunk_id]:.4f}: {words[fate]}"

    def slot_words(self, slot: Slot) -> str:
        """The two sums and the p of their difference."""
        p = f", p = {self._p[_name(slot)]:.4f}" if _name(slot) in self._p else ""
        return super().slot_words(slot) + p


class _ByProbability:
    """Posterior probabilities after shrinkage, with a band in which nothing changes."""

    def __init__(
        self, contributions: Contributions, rule: ProbabilityRule, earlier: Mapping[ChunkId, Evidence] | None
    ) -> None:
        ids = contributions.chunk_ids
        self._contributions, self._rule = contributions, rule
        self._posterior = shrink(contributions, earlier)
        self._joint = coefficient_covariance(contributions)[1]
        self.value: Mapping[ChunkId, float] = dict(zip(ids, self._posterior.mean_J.tolist(), strict=True))
        self._sd = dict(zip(ids, self._posterior.sd_J.tolist(), strict=True))
        self._probability = dict(zip(ids, self._posterior.probability_J.tolist(), strict=True))
        self._se = dict(zip(ids, contributions.se_J.tolist(), strict=True))

    def losers(self, slot: Slot) -> dict[ChunkId, Fate]:
        """A new version takes the slot when it leads with P ≥ admit and one of its chunks is admitted by itself."""
        lead = {challenge.new: self._lead(challenge) for challenge in _challenges(slot)}
        able = [
            new
            for new in lead
            if lead[new] >= self._rule.admit and max(map(self._probability.__getitem__, new)) >= self._rule.admit
        ]
        if able:
            return _all_but(slot, max(able, key=lambda new: fsum(map(self.value.__getitem__, new))))
        return {
            chunk_id: Fate.SLOT_LOSER if lead[new] <= self._rule.retire else Fate.WAITING
            for new in lead
            for chunk_id in new
        }

    def standing(self, chunk_id: ChunkId, *, incumbent: bool) -> Fate:
        """Selected above the band, unlikely to help below it; inside, incumbents are held and candidates wait."""
        probability = self._probability[chunk_id]
        if probability >= self._rule.admit:
            return Fate.SELECTED
        if probability <= self._rule.retire:
            return Fate.UNLIKELY
        return Fate.HELD_AT_FLOOR if incumbent else Fate.WAITING

    def deletion(self, chunk_id: ChunkId) -> Fate:
        """Taken when P(α ≤ 0) ≥ admit, as any other edit, or when the chunk leaves anyway; refuted from P(> 0) ≥ admit.

        Between the two it waits, and the chunk stays at the lowest exposure.
        """
        probability = self._probability[chunk_id]
        if probability <= max(self._rule.retire, 1.0 - self._rule.admit):
            return Fate.SELECTED
        return Fate.SLOT_LOSER if probability >= self._rule.admit else Fate.WAITING

    def chunk_words(self, chunk_id: ChunkId, fate: Fate) -> str:
        """β̂ ± SE, the shrunk value, P(α > 0) and the fate."""
        rule, beta = self._rule, self._contributions.by_chunk[chunk_id]
        band = f"between {rule.retire:g} and {rule.admit:g}"
        below = self._probability[chunk_id] <= rule.retire
        words = {
            Fate.SELECTED: f"at least {rule.admit:g} and among the top {rule.top_k}",
            Fate.HELD_AT_FLOOR: f"{band}, so it stays at the lowest exposure",
            Fate.WAITING: f"{band} by itself or against the other side of its slot, so it waits for more evidence",
            Fate.UNLIKELY: f"at most {rule.retire:g}"
            if below
            else f"at most {1.0 - rule.admit:g}, and a DELETE names it",
            Fate.BUDGET_EXCLUDED: f"enough to stay, but not among the top {rule.top_k}",
            Fate.SLOT_LOSER: "the other side of its slot is the better one",
        }
        return (
            f"{beta:+.4f} ± {self._se[chunk_id]:.4f}, shrunk {self.value[chunk_id]:+.4f} ± {self._sd[chunk_id]:.4f}, "
            f"P(> 0) = {self._probability[chunk_id]:.2f}: {words[fate]}"
        )

    def slot_words(self, slot: Slot) -> str:
        """The shrunk sums, P(new > old), and whether the coefficients' covariance was known."""
        sums = [fsum(self.value[chunk_id] for chunk_id in side) for side in (slot.old, slot.new)]
        apart = "" if self._joint else ", coefficients taken as independent"
        return f"shrunk: old {sums[0]:+.4f}, new {sums[1]:+.4f}, P(new > old) = {self._lead(slot):.2f}{apart}"

    def _lead(self, slot: Slot) -> float:
        return self._posterior.probability_positive(_contrast(self._contributions, slot))


class _Keeping(_ByBeta):
    """No verdict: new versions take their slots, deletions are done, everything else stays in document order."""

    def __init__(self, contributions: Contributions, rule: KeepRule) -> None:
        super().__init__(contributions, rule)
        self.value = {chunk_id: -float(place) for place, chunk_id in enumerate(contributions.chunk_ids)}
        self._beta = contributions.by_chunk

    def losers(self, slot: Slot) -> dict[ChunkId, Fate]:
        """The first new version wins."""
        return _all_but(slot, next(version for version in slot.versions if version != slot.old))

    def standing(self, chunk_id: ChunkId, *, incumbent: bool) -> Fate:
        """Selected, whatever was measured."""
        return Fate.SELECTED

    def deletion(self, chunk_id: ChunkId) -> Fate:
        """Taken."""
        return Fate.SELECTED

    def chunk_words(self, chunk_id: ChunkId, fate: Fate) -> str:
        """β̂ ± SE, and that it was not used."""
        words = {
            Fate.BUDGET_EXCLUDED: f"beyond the first {self._top_k}",
            Fate.SLOT_LOSER: "a new version takes its place",
            Fate.UNLIKELY: "a DELETE names it",
        }
        beta = f"{self._beta[chunk_id]:+.4f} ± {self._se[chunk_id]:.4f}"
        return f"{beta}, not used: {words.get(fate, 'everything is kept')}"

    def slot_words(self, slot: Slot) -> str:
        """Say that nothing was compared."""
        return "the verdict is not used"


Judge: TypeAlias = _ByBeta | _ByProbability
"""Who wins a slot, where a chunk stands, and the numbers that say so; the chunks that pass are ranked by `value`."""


def judge(
    contributions: Contributions,
    contested: Sequence[Slot],
    accused: Sequence[ChunkId],
    rule: DecisionRule,
    earlier: Mapping[ChunkId, Evidence] | None,
) -> Judge:
    """Return the judge of ``rule``.

    Args:
        contributions: of the pool.
        contested: the slots that have more than one version.
        accused: chunks that a DELETE names; each is a directed hypothesis of its own, α < 0.
        rule: one of the four.
        earlier: what earlier rounds said.
    """
    if isinstance(rule, ProbabilityRule):
        return _ByProbability(contributions, rule, earlier)
    if isinstance(rule, FdrRule):
        return _ByDiscovery(contributions, contested, accused, rule)
    if isinstance(rule, KeepRule):
        return _Keeping(contributions, rule)
    return _ByBeta(contributions, rule)


def _all_but(slot: Slot, winner: tuple[ChunkId, ...]) -> dict[ChunkId, Fate]:
    return {chunk_id: Fate.SLOT_LOSER for chunk_id in slot.ids if chunk_id not in winner}


def _challenges(slot: Slot) -> list[Slot]:
    """Return the slot as duels of the old side with each new version."""
    return [Slot(slot.old, new) for new in slot.versions if new != slot.old]


def _name(challenge: Slot) -> tuple[ChunkId, ...]:
    """Return the name of a duel among the hypotheses: its new side, or for a DELETE both sides."""
    return challenge.new or ("", *challenge.old)


def _contrast(contributions: Contributions, slot: Slot) -> Vector:
    """Return new − old as weights on the coefficients, (J,)."""
    weights = {**dict.fromkeys(slot.new, 1.0), **dict.fromkeys(slot.old, -1.0)}
    return np.array([weights.get(chunk_id, 0.0) for chunk_id in contributions.chunk_ids])
