"""The contribution gate: which chunks stay, enter and leave (method §7.3), by the published rule or a careful one.

The published rule, ``positive_topk`` (`GateRule`):

1. In a slot the new side wins when Σ β̂(adds) > Σ β̂(removes); a tie keeps the old side. DELETE is the same inequality
   with nothing on the new side. Among several new sides the largest sum wins. The sum of a MERGE's or SPLIT's several
   chunks is the fitted one: where they change one another's effect by w, Σ β̂ sees about two thirds of w
   (docs/gate.md).
2. A winner stays only with β̂ > 0.
3. Of these the K largest β̂, without padding.

`ProbabilityRule` and `FdrRule` ask the same three questions of a posterior or of p-values. Under them a DELETE is a
directed hypothesis, α < 0: it is taken when the harm is as clear as the help that admits a chunk.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError, EditError, offenders
from intraskill.method.gate.pairs import Vector
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.shrinkage import Evidence, coefficient_covariance, shrink
from intraskill.method.skill.edits import Edit, Slot, check_edits, pool, slots
from intraskill.method.skill.skill import ChunkId, Skill


class Fate(StrEnum):
    """What became of a chunk or an edit, and why."""

    SELECTED = "selected"
    NON_POSITIVE = "non_positive"
    BUDGET_EXCLUDED = "budget_excluded"
    SLOT_LOSER = "slot_loser"
    LEAK_FILTER = "rejected_by_firewall"
    NO_PROPOSAL = "no_proposal"
    HELD_AT_FLOOR = "held_at_floor"
    NO_INFORMATION = "no_information"
    WAITING = "waiting"
    UNLIKELY = "unlikely_to_help"
    NOT_DISCOVERED = "not_discovered"
    REFUSED_BY_PERSON = "refused_by_person"
    BLOCKED = "blocked_by_ledger"


@dataclass(frozen=True, slots=True)
class GateRule:
    """``positive_topk``, the published rule: slot winners by β̂, then β̂ > 0, then the top K.

    Attributes:
        top_k: K ≥ 0, the most chunks that a skill may hold.
    """

    top_k: int

    def __post_init__(self) -> None:
        _check_top_k(self.top_k)


@dataclass(frozen=True, slots=True)
class ProbabilityRule:
    """``probability``: act on the shrunk posterior, and only when it is clear enough.

    Attributes:
        top_k: K ≥ 0, the most chunks that a skill may hold.
        admit: P(α > 0) from which a chunk is admitted, in (½, 1).
        retire: P(α > 0) down to which a chunk is dropped, in (0, ½). Between the two an incumbent stays at the lowest
            exposure and a candidate waits.
        discount: what a round's precision is worth one round later, in [0, 1); see `shrinkage.carry_over`.
    """

    top_k: int
    admit: float = 0.8
    retire: float = 0.2
    discount: float = 0.5

    def __post_init__(self) -> None:
        _check_top_k(self.top_k)
        if not 0.0 < self.retire < 0.5 < self.admit < 1.0:
            raise ConfigError(
                f"a probability gate needs 0 < retire < 0.5 < admit < 1, got retire {self.retire}, admit {self.admit}"
            )
        if not 0.0 <= self.discount < 1.0:
            raise ConfigError(f"the discount of earlier rounds must lie in [0, 1), got {self.discount}")


@dataclass(frozen=True, slots=True)
class FdrRule:
    """``fdr``: Benjamini–Hochberg on one-sided p-values, then the top K by β̂.

    Attributes:
        top_k: K ≥ 0, the most chunks that a skill may hold.
        rate: tolerated share of useless chunks among the admitted ones, in (0, 1).
    """

    top_k: int
    rate: float = 0.1

    def __post_init__(self) -> None:
        _check_top_k(self.top_k)
        if not 0.0 < self.rate < 1.0:
            raise ConfigError(f"the false discovery rate must lie strictly between 0 and 1, got {self.rate}")


DecisionRule: TypeAlias = GateRule | ProbabilityRule | FdrRule


def _check_top_k(top_k: int) -> None:
    if top_k < 0:
        raise ConfigError(f"top_k must be 0 or more, got {top_k}")


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

    def __init__(self, contributions: Contributions, rule: GateRule | FdrRule) -> None:
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
        rule: one of the three.
        earlier: what earlier rounds said.
    """
    if isinstance(rule, ProbabilityRule):
        return _ByProbability(contributions, rule, earlier)
    if isinstance(rule, FdrRule):
        return _ByDiscovery(contributions, contested, accused, rule)
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


_STAYS = (Fate.SELECTED, Fate.HELD_AT_FLOOR)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate decided.

    Attributes:
        skill: S_{t+1}, in document order.
        taken: edits that changed the skill.
        refused: the other edits.
        retired: chunks of the old skill that left.
        fates: by chunk id and by edit id.
        reasons: the same in words, with the numbers.
    """

    skill: Skill
    taken: tuple[Edit, ...]
    refused: tuple[Edit, ...]
    retired: tuple[ChunkId, ...]
    fates: Mapping[str, Fate]
    reasons: Mapping[str, str]

    @property
    def kept(self) -> tuple[ChunkId, ...]:
        """Chunks of the new skill, incumbents and newcomers."""
        return self.skill.ids

    @property
    def held(self) -> tuple[ChunkId, ...]:
        """Chunks of the new skill that stay only at the lowest exposure ρ_min."""
        return tuple(chunk_id for chunk_id in self.kept if self.fates[chunk_id] is Fate.HELD_AT_FLOOR)


def decide(
    skill: Skill,
    edits: Sequence[Edit],
    contributions: Contributions,
    rule: DecisionRule,
    earlier: Mapping[ChunkId, Evidence] | None = None,
) -> Decision:
    """Apply ``rule`` to the pool ``skill`` ∪ ``edits`` (method §7.3).

    Args:
        skill: S_t.
        edits: this round's candidates.
        contributions: fitted on this very pool.
        rule: one of `DecisionRule`.
        earlier: what earlier rounds said (`shrinkage.carry_over`); only a `ProbabilityRule` listens.

    Raises:
        EditError: if the edits do not fit the skill, or the contributions are not those of the pool.
    """
    check_edits(skill, edits, alternatives=True)
    everything = pool(skill, edits, alternatives=True)
    if differing := sorted(set(contributions.by_chunk) ^ set(everything.ids)):
        raise EditError(f"contributions and pool differ in chunks, {offenders(differing)}; fit on this very pool")
    contested = [slot for slot in slots(skill, edits) if len(slot.versions) > 1]
    accused = [chunk_id for edit in edits if edit.op == "DELETE" for chunk_id in edit.removes]
    judged = judge(contributions, contested, accused, rule, earlier)
    found = _chunk_fates(skill, everything, contested, accused, judged)
    found |= _over_budget(found, everything, judged, rule.top_k)
    fates = {chunk_id: found[chunk_id] for chunk_id in everything.ids}
    reasons = {chunk_id: judged.chunk_words(chunk_id, fate) for chunk_id, fate in fates.items()}
    edit_fates = _edit_fates(edits, judged, fates)
    reasons |= {edit.id: _edit_words(edit, judged, edit_fates[edit.id]) for edit in edits}
    return Decision(
        skill=Skill(skill.preamble, tuple(chunk for chunk in everything.chunks if fates[chunk.id] in _STAYS)),
        taken=tuple(edit for edit in edits if edit_fates[edit.id] is Fate.SELECTED),
        refused=tuple(edit for edit in edits if edit_fates[edit.id] is not Fate.SELECTED),
        retired=tuple(chunk_id for chunk_id in skill.ids if fates[chunk_id] not in _STAYS),
        fates=fates | edit_fates,
        reasons=reasons,
    )


def _chunk_fates(
    skill: Skill, everything: Skill, contested: Sequence[Slot], accused: Sequence[ChunkId], judged: Judge
) -> dict[str, Fate]:
    """Slots first, then every chunk by itself; one that a taken DELETE names leaves."""
    fates: dict[str, Fate] = {}
    for slot in contested:
        fates |= judged.losers(slot)
    incumbents = set(skill.ids)
    fates |= {
        chunk_id: judged.standing(chunk_id, incumbent=chunk_id in incumbents)
        for chunk_id in everything.ids
        if chunk_id not in fates
    }
    condemned = [c for c in accused if fates[c] in _STAYS and judged.deletion(c) is Fate.SELECTED]
    return fates | dict.fromkeys(condemned, Fate.UNLIKELY)


def _over_budget(fates: Mapping[str, Fate], everything: Skill, judged: Judge, top_k: int) -> dict[str, Fate]:
    """Return what the top K leave out: the selected stay before the merely held, then by value."""
    staying = [chunk_id for chunk_id in everything.ids if fates[chunk_id] in _STAYS]
    ranked = sorted(staying, key=lambda chunk_id: (_STAYS.index(fates[chunk_id]), -judged.value[chunk_id]))
    return dict.fromkeys(ranked[top_k:], Fate.BUDGET_EXCLUDED)


def _edit_fates(edits: Sequence[Edit], judged: Judge, fates: Mapping[str, Fate]) -> dict[str, Fate]:
    """Return SELECTED for an edit that the gate takes, else the fate of its strongest new chunk or of its DELETE."""
    found: dict[str, Fate] = {}
    replaced: set[ChunkId] = set()
    for edit in sorted(edits, key=lambda edit: edit.op == "DELETE"):
        if edit.op == "DELETE":
            (accused,) = edit.removes
            found[edit.id] = Fate.SLOT_LOSER if accused in replaced else judged.deletion(accused)
        elif any(fates[chunk_id] is Fate.SELECTED for chunk_id in edit.added_ids):
            found[edit.id] = Fate.SELECTED
            replaced.update(edit.removes)
        else:
            found[edit.id] = fates[max(edit.added_ids, key=lambda chunk_id: judged.value[chunk_id])]
    return {edit.id: found[edit.id] for edit in edits}


def _edit_words(edit: Edit, judged: Judge, fate: Fate) -> str:
    verb = "taken" if fate is Fate.SELECTED else "refused"
    return f"{judged.slot_words(Slot(edit.removes, edit.added_ids))}: {verb}, {fate.value}"
