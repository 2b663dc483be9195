"""Steps of a policy without rollouts: a stand-in for an optimizer where only the engine is tested."""

import torch

from intraskill.rl.checkpoints import weights_hash
from intraskill.rl.policy import Policy


def step(policy: Policy, seed: int, size: float = 0.05) -> str:
    """Move every trainable weight by seeded noise; return the checkpoint's hash."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter += size * torch.randn(parameter.shape, generator=generator).to(parameter)
    return weights_hash(policy.trainable())
