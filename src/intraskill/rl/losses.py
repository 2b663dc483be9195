"""Advantages and losses of the GRPO family, in plain torch; equal to TRL's `GRPOTrainer._compute_loss` (a test).

``grpo.loss`` chooses. ``grpo`` averages each rollout's tokens, then rollouts. ``dapo`` averages the tokens of the whole
batch over all its micro-batches; ``bnpo`` is the same here, where one process holds the batch. ``dr_grpo`` divides by
a constant length and does not scale advantages. ``cispo`` clips the weight, not the gradient.

Source: DeepSeekMath (arXiv 2402.03300), Dr. GRPO (2503.20783), DAPO (2503.14476), CISPO (2506.13585); method §5.2.

Shape letters: B rollouts, S sampled tokens of a row (padded), G rollouts of a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from intraskill.config.learning import GrpoConfig

_STD_EPSILON = 1e-4


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """What a loss is divided by: sizes of the whole optimizer batch, of which a micro-batch is a part.

    Attributes:
        rollouts: how many.
        tokens: sampled tokens of all of them.
        longest: most tokens that any rollout may have, the constant length of ``dr_grpo``.
    """

    rollouts: int
    tokens: int
    longest: int


def group_advantages(rewards: Sequence[float], loss: str) -> tuple[float, ...]:
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
    grpo: GrpoConfig,
    logprobs_BS: torch.Tensor,
    old_BS: torch.Tensor,
    advantages_B: torch.Tensor,
    *,
    weights_BS: torch.Tensor | None = None,
    reference_BS: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the loss of each token, (B, S).

    With r = π / π_old: −min(r A, clip(r, 1 − clip_low, 1 + clip_high) A); ``cispo``: −min(r, clip_high) A log π with
    the weight detached. Then × the mismatch weight, + kl_beta (e^d − d − 1) with d = log π_ref − log π.

    Raises:
        ValueError: if ``kl_beta`` is set without a reference.
    """
    ratio = (logprobs_BS - old_BS).exp()
    advantages = advantages_B[:, None]
    if grpo.loss == "cispo":
        losses = -ratio.clamp(max=grpo.clip_high).detach() * advantages * logprobs_BS
    else:
        clipped = ratio.clamp(1 - grpo.clip_low, 1 + grpo.clip_high)
        losses = -torch.min(ratio * advantages, clipped * advantages)
    if weights_BS is not None:
        losses = losses * weights_BS
    if grpo.kl_beta:
        if reference_BS is None:
            raise ValueError("a KL penalty needs the reference policy's log-probabilities")
        difference = reference_BS - logprobs_BS
        losses = losses + grpo.kl_beta * (difference.exp() - difference - 1)
    return losses


def reduce_losses(
    grpo: GrpoConfig, losses_BS: torch.Tensor, mask_BS: torch.Tensor, totals: BatchTotals
) -> torch.Tensor:
    """Return this micro-batch's share of the batch loss; the shares of all micro-batches add up to it exactly."""
    masked = losses_BS * mask_BS
    if grpo.loss == "grpo":
        return (masked.sum(-1) / mask_BS.sum(-1).clamp(min=1.0)).sum() / totals.rollouts
    if grpo.loss == "dr_grpo":
        return masked.sum() / (totals.rollouts * totals.longest)
    return masked.sum() / max(totals.tokens, 1)


def clipped_tokens(
    grpo: GrpoConfig, logprobs_BS: torch.Tensor, old_BS: torch.Tensor, advantages_B: torch.Tensor
) -> torch.Tensor:
    """Return 1.0 where clipping changed a token's gradient, (B, S)."""
    ratio = (logprobs_BS - old_BS).exp()
    positive = advantages_B[:, None] > 0
    if grpo.loss == "cispo":
        return ((ratio > grpo.clip_high) & positive).float()
    low = (ratio < 1 - grpo.clip_low) & (advantages_B[:, None] < 0)
    return (low | ((ratio > 1 + grpo.clip_high) & positive)).float()
