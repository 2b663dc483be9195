"""Advantages and losses of the GRPO family, in plain torch; equal to TRL's `GRPOTrainer._compute_loss` (a test).

Source: DeepSeekMath (arXiv 2402.03300), Dr. GRPO (2503.20783), DAPO (2503.14476), CISPO (2506.13585); method §5.2.

Shape letters: B rollouts, S sampled tokens of a row (padded), G rollouts of a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from intraskill.config.learning import LOSSES, LossKind
from intraskill.method.errors import ConfigError

_STD_EPSILON = 1e-4


@dataclass(frozen=True, slots=True)
class Objective:
    """The loss and its constants.

    Attributes:
        loss: ``grpo`` averages each rollout's tokens, then rollouts; ``dapo`` averages the tokens of the whole batch
            over all its micro-batches; ``bnpo`` is the same here, where one process holds the batch; ``dr_grpo``
            divides by a constant length and does not scale advantages; ``cispo`` clips the weight, not the gradient.
        epsilon_low: ratios below 1 − ε_low are clipped.
        epsilon_high: ratios above 1 + ε_high are clipped; for ``cispo`` the largest weight itself.
        beta: weight of the KL penalty against a reference policy; 0 needs no reference.
        mismatch_cap: truncate the weight π_old / π_sampling of each token here; 0 turns the correction off.
        max_tokens: the constant length of ``dr_grpo``.

    Raises:
        ConfigError: for a value out of range.
    """

    loss: LossKind = "grpo"
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    beta: float = 0.0
    mismatch_cap: float = 0.0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ConfigError(f"unknown loss {self.loss!r}; use one of {', '.join(LOSSES)}")
        if not 0 <= self.epsilon_low < 1 or self.epsilon_high <= 0:
            raise ConfigError(f"epsilon_low {self.epsilon_low} must be in [0, 1), epsilon_high {self.epsilon_high} > 0")
        if self.beta < 0 or self.mismatch_cap < 0 or self.max_tokens < 1:
            raise ConfigError("beta and mismatch_cap must not be negative, max_tokens must be at least 1")


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """What a loss is divided by: sizes of the whole optimizer batch, of which a micro-batch is a part."""

    rollouts: int
    tokens: int


def group_advantages(rewards: Sequence[float], loss: LossKind) -> tuple[float, ...]:
    """Return A_g = (R_g − mean R) / (std R + ε), (G,); all zero when the rewards do not differ.

    ``dr_grpo`` leaves out the division. The standard deviation is the sample one (G − 1), ε = 1e-4, as in TRL.
    """
    count = len(rewards)
    if count < 2 or min(rewards) == max(rewards):
        return (0.0,) * count
    mean = sum(rewards) / count
    centred = [reward - mean for reward in rewards]
    if loss == "dr_grpo":
        return tuple(centred)
    std = (sum(value**2 for value in centred) / (count - 1)) ** 0.5
    return tuple(value / (std + _STD_EPSILON) for value in centred)


def mismatch_weights(old_BS: torch.Tensor, sampled_BS: torch.Tensor, cap: float) -> torch.Tensor:
    """Return min(π_old / π_sampling, cap) of each token, (B, S), for an engine with other numerics."""
    return (old_BS - sampled_BS).exp().clamp(max=cap)


def token_losses(
    objective: Objective,
    logprobs_BS: torch.Tensor,
    old_BS: torch.Tensor,
    advantages_B: torch.Tensor,
    *,
    weights_BS: torch.Tensor | None = None,
    reference_BS: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the loss of each token, (B, S).

    With r = π / π_old: −min(r A, clip(r, 1 − ε_low, 1 + ε_high) A); ``cispo``: −min(r, ε_high) A log π with the weight
    detached. Then × the mismatch weight, + β (e^d − d − 1) with d = log π_ref − log π.

    Raises:
        ValueError: if ``beta`` is set without a reference.
    """
    ratio = (logprobs_BS - old_BS).exp()
    advantages = advantages_B[:, None]
    if objective.loss == "cispo":
        losses = -ratio.clamp(max=objective.epsilon_high).detach() * advantages * logprobs_BS
    else:
        clipped = ratio.clamp(1 - objective.epsilon_low, 1 + objective.epsilon_high)
        losses = -torch.min(ratio * advantages, clipped * advantages)
    if weights_BS is not None:
        losses = losses * weights_BS
    if objective.beta:
        if reference_BS is None:
            raise ValueError("a KL penalty needs the reference policy's log-probabilities")
        difference = reference_BS - logprobs_BS
        losses = losses + objective.beta * (difference.exp() - difference - 1)
    return losses


def reduce_losses(
    objective: Objective, losses_BS: torch.Tensor, mask_BS: torch.Tensor, totals: BatchTotals
) -> torch.Tensor:
    """Return this micro-batch's share of the batch loss; the shares of all micro-batches add up to it exactly."""
    masked = losses_BS * mask_BS
    if objective.loss == "grpo":
        return (masked.sum(-1) / mask_BS.sum(-1).clamp(min=1.0)).sum() / totals.rollouts
    if objective.loss == "dr_grpo":
        return masked.sum() / (totals.rollouts * objective.max_tokens)
    return masked.sum() / max(totals.tokens, 1)


def clipped_tokens(
    objective: Objective, logprobs_BS: torch.Tensor, old_BS: torch.Tensor, advantages_B: torch.Tensor
) -> torch.Tensor:
    """Return 1.0 where clipping changed a token's gradient, (B, S)."""
    ratio = (logprobs_BS - old_BS).exp()
    positive = advantages_B[:, None] > 0
    if objective.loss == "cispo":
        return ((ratio > objective.epsilon_high) & positive).float()
    low = (ratio < 1 - objective.epsilon_low) & (advantages_B[:, None] < 0)
    return (low | ((ratio > 1 + objective.epsilon_high) & positive)).float()
