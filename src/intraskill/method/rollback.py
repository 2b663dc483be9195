"""The rollback reward: what an edit of the skill is worth on an anchored query, against the same worker without it.

A group holds G candidate edits of one state (z_{t−1}, x_t, anchors, verifier). The control scores are those of the
unedited skill; they are shared by the group. With one anchor and ``binary`` the reward is the published one:

    r_i = 1   if A_i ≠ NOOP and r_edit,i > r_ctrl
    r_i = 1   if A_i = NOOP and no other valid candidate of the group has r_edit > r_ctrl
    r_i = 0   otherwise; an action that does not parse or apply is invalid: 0

Beyond it: several anchors (scores are compared by their mean over the anchors that both sides have), ``margin`` (the
difference itself), and ``plain`` (the verifier's score alone, the published ablation without rollback).
Source: Skill-α, arXiv 2608.01678; K anchors, G candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, get_args

from intraskill.method.errors import ConfigError

RewardKind = Literal["binary", "margin", "plain"]
REWARD_KINDS: tuple[RewardKind, ...] = get_args(RewardKind)
INVALID_MARGIN = -1.0
"""Reward of an invalid action under ``margin``: no valid edit can score less."""

Scores = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate of a group.

    Attributes:
        noop: it leaves the skill as it is.
        scores: (K,) verifier scores in [0, 1] of the worker with the edited skill, ``None`` for a fault; for a NOOP
            those of the control; empty for an action that does not parse or apply.
    """

    noop: bool
    scores: tuple[float | None, ...]

    @property
    def valid(self) -> bool:
        """It parsed and applied."""
        return bool(self.scores)


def rollback_rewards(
    control: Scores, candidates: Sequence[Candidate], kind: RewardKind = "binary"
) -> tuple[float | None, ...]:
    """Return the reward of every candidate, (G,); ``None`` where a fault leaves nothing to compare.

    A technical failure is never reward 0: an anchor whose control or edit score is missing drops out of that
    candidate's comparison, and a candidate without any anchor left has no reward. When the control faulted on every
    anchor no valid candidate has one. An invalid action needs no worker and is scored all the same.

    Args:
        control: (K,) scores without the edit.
        candidates: (G,) the group.
        kind: ``binary``, ``margin`` or ``plain``.

    Raises:
        ConfigError: for an unknown kind, or scores whose number is not that of the anchors.
    """
    if kind not in REWARD_KINDS:
        raise ConfigError(f"unknown rollback reward {kind!r}; use one of {', '.join(REWARD_KINDS)}")
    if wrong := [
        i for i, candidate in enumerate(candidates) if candidate.valid and len(candidate.scores) != len(control)
    ]:
        raise ConfigError(f"candidates {wrong[:3]} carry another number of scores than the {len(control)} anchors")
    if kind == "plain":
        return tuple(_plain(control if c.noop else c.scores) if c.valid else 0.0 for c in candidates)
    margins = [_margin(control, candidate) for candidate in candidates]
    beaten = any(margin is not None and margin > 0 for margin in margins)
    known = any(score is not None for score in control)
    rewards: list[float | None] = []
    for candidate, margin in zip(candidates, margins, strict=True):
        if not candidate.valid:
            rewards.append(0.0 if kind == "binary" else INVALID_MARGIN)
        elif candidate.noop:
            rewards.append(None if not known else 0.0 if kind == "margin" else float(not beaten))
        elif margin is None:
            rewards.append(None)
        else:
            rewards.append(margin if kind == "margin" else float(margin > 0))
    return tuple(rewards)


def _margin(control: Scores, candidate: Candidate) -> float | None:
    """Mean of edit − control over the anchors that both have; ``None`` for a NOOP, an invalid action, or no anchor."""
    if candidate.noop or not candidate.valid:
        return None
    differences = [
        after - before
        for before, after in zip(control, candidate.scores, strict=True)
        if before is not None and after is not None
    ]
    return fmean(differences) if differences else None


def _plain(scores: Scores) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None
