"""Before the first update: does the shared prefix give the numbers of the dense path, for this model on this machine?

Shape letters: B rollouts, S sampled tokens of a row (padded).
"""

import math
from collections.abc import Sequence

import torch

from intraskill.method.errors import ConfigError
from intraskill.method.rollouts import Rollout
from intraskill.rl.logprobs import batch_logprobs
from intraskill.rl.micro_batches import Layout, by_prompt
from intraskill.rl.policy import Policy

BOUNDS = {torch.float32: (1e-4, 1e-4)}
"""Largest difference of a log-probability, in nats, and relative difference of the gradient by its global norm.

Rounding alone gives small random models 1e-6 and less, but SmolLM2-135M 1.0e-5 and 1.8e-6 over 27 tokens, so a bound
of 1e-5 would raise false alarms.
"""
COARSE = (0.5, 0.1)
"""The same for 16-bit numbers, whose rounding (2⁻⁸ of a logit) hides small errors; a lost prefix gives 1 and more."""


class PrefixWarning(UserWarning):
    """The shared prefix was switched off, and why."""


def probe(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return the cheapest micro-batch that tests anything: the two shortest different rollouts of the shortest prompt.

    Rollouts of one prompt that are all alike give one of them.
    """
    prompts = by_prompt(rollouts)
    members = sorted((rollouts[i] for i in prompts[min(prompts, key=len)]), key=lambda r: len(r.token_ids))
    other = [r for r in members if r.token_ids != members[0].token_ids]
    return [members[0], *other[:1]]


def disagreement(
    policy: Policy, rollouts: Sequence[Rollout], layout: Layout, *, temperature: float, checkpoint_activations: bool
) -> str | None:
    """Compare a layout with the dense one; return what differs, or ``None``.

    No gradient is left behind, no random number drawn, and only one copy of the gradients exists at a time.

    Args:
        policy: whose weights.
        rollouts: a micro-batch, see `probe`.
        layout: to be tested.
        temperature: of the sampling distribution.
        checkpoint_activations: as in the update.
    """
    options = {"temperature": temperature, "checkpoint_activations": checkpoint_activations}
    moved = list(policy.trainable().values())
    try:
        shared_BS = batch_logprobs(policy, rollouts, layout=layout, **options).logprobs  # type: ignore[arg-type]
    except ConfigError as error:
        return str(error)
    dense_BS = batch_logprobs(policy, rollouts, layout="dense", **options).logprobs  # type: ignore[arg-type]
    # Unequal weights: equal ones would not notice two swapped rows.
    weights_BS = torch.linspace(0.5, 2, dense_BS.numel(), device=dense_BS.device).view_as(dense_BS)
    largest = float((shared_BS - dense_BS).detach().abs().max())
    whole = _norm(torch.autograd.grad((dense_BS * weights_BS).sum(), moved, retain_graph=True, allow_unused=True))
    apart = _norm(torch.autograd.grad(((shared_BS - dense_BS) * weights_BS).sum(), moved, allow_unused=True))
    relative = apart / whole if whole else apart
    return verdict(largest, relative, policy.causal.dtype, layout)


def verdict(largest: float, relative: float, dtype: torch.dtype, layout: Layout) -> str | None:
    """Return what differs, in words, when log-probabilities or gradients do by more than rounding of this type."""
    bounds = BOUNDS.get(dtype, COARSE)
    if largest <= bounds[0] and relative <= bounds[1]:
        return None
    return (
        f"log-probabilities differ by {largest:.2g} (bound {bounds[0]:g}), gradients by {relative:.2g} of their norm "
        f"(bound {bounds[1]:g}, {dtype}) between the {layout} and the dense layout"
    )


def _norm(gradients: Sequence[torch.Tensor | None]) -> float:
    return math.sqrt(sum(float(g.double().pow(2).sum()) for g in gradients if g is not None))
