"""The decision rules of the contribution gate, and what may become of a chunk (method §7.3)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from intraskill.method.errors import ConfigError


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


@dataclass(frozen=True, slots=True)
class KeepRule:
    """``keep``: the verdict is not used. Every edit is taken and every chunk stays, up to K in document order.

    A control: the same rollouts are spent, and nothing is decided by them.

    Attributes:
        top_k: K ≥ 0, the most chunks that a skill may hold.
    """

    top_k: int

    def __post_init__(self) -> None:
        _check_top_k(self.top_k)


DecisionRule: TypeAlias = GateRule | ProbabilityRule | FdrRule | KeepRule


def _check_top_k(top_k: int) -> None:
    if top_k < 0:
        raise ConfigError(f"top_k must be 0 or more, got {top_k}")
