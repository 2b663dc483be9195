"""Recomputed activations: the same gradients in every layout, less memory, and a model left as it was."""

import gc

import pytest
import torch
from rl.test_prefix_cache import FAMILIES, GRADIENT_TOLERANCE, made, rollout
from rl.toy import logprobs_of
from torch.autograd.graph import saved_tensors_hooks

from intraskill.method.rollouts import Rollout
from intraskill.rl.policy import Policy


def gradients(policy: Policy, group: list[Rollout], layout: str, *, checkpoints: bool) -> tuple[torch.Tensor, int]:
    """All gradients, flat, and the bytes that the forward pass keeps for the backward one."""
    policy.model.zero_grad()
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        found = logprobs_of(policy, group, layout=layout, checkpoint_activations=checkpoints)
    weights = torch.linspace(0.5, 2, found.logprobs.numel()).view_as(found.logprobs)
    (found.logprobs * weights).sum().backward()
    gc.collect()
    return torch.cat([p.grad.flatten() for p in policy.trainable().values() if p.grad is not None]), sum(kept.values())


@pytest.mark.parametrize("adapted", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("layout", ["dense", "prefix"])
@pytest.mark.parametrize("family", FAMILIES)
def test_recomputed_activations_change_no_gradient_and_keep_less(family: str, layout: str, adapted: bool) -> None:
    policy = made(family, adapted)
    group = [rollout(30, length, 11 * length) for length in (1, 6, 20)]
    expected, much = gradients(policy, group, layout, checkpoints=False)
    found, little = gradients(policy, group, layout, checkpoints=True)
    assert (found - expected).norm() / expected.norm() <= GRADIENT_TOLERANCE
    assert little < 0.8 * much
    assert all("forward" not in vars(layer) for layer in policy.backbone.layers)
    other, _ = gradients(policy, [rollout(29, n, 11 * n) for n in (1, 6, 20)], layout, checkpoints=True)
    assert (other - expected).norm() / expected.norm() > 100 * GRADIENT_TOLERANCE


def test_a_graph_can_be_walked_twice() -> None:
    """The self-check needs it."""
    policy = made("qwen3.5 (3 of 4 layers linear)", adapted=False)
    moved = list(policy.trainable().values())
    group = [rollout(30, 6, 3), rollout(30, 9, 7)]
    total = logprobs_of(policy, group, layout="prefix", checkpoint_activations=True).logprobs.sum()
    first = torch.autograd.grad(total, moved, retain_graph=True, allow_unused=True)
    second = torch.autograd.grad(total, moved, allow_unused=True)
    assert all(a is b or torch.equal(a, b) for a, b in zip(first, second, strict=True))
