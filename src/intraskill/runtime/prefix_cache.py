"""The cache of a prefix that many continuations share, through which gradients flow.

Transformers' cache for linear attention (Qwen3.5 and other hybrids) copies its states in place, which autograd refuses,
and cannot repeat them for a batch. `ForkableState` assigns the states instead.
"""

import copy
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer

from intraskill.method.errors import ConfigError, offenders


class ForkableState(LinearAttentionLayer):  # type: ignore[misc]  # transformers is untyped
    """Convolution and recurrent states of one linear-attention layer, never overwritten."""

    def update_conv_state(
        self, conv_states: torch.Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **_: Any
    ) -> torch.Tensor:
        """Return what the causal convolution reads, and keep its last ``conv_kernel_size`` columns."""
        if not self.is_conv_states_initialized[state_idx]:
            self.lazy_initialization(conv_states=conv_states, state_idx=state_idx, conv_kernel_size=conv_kernel_size)
        kernel = self.conv_kernel_size[state_idx]
        seen = conv_states
        if self.has_previous_state[state_idx]:
            seen = torch.cat([self.conv_states[state_idx], conv_states], -1)
        elif seen.shape[-1] < kernel:
            seen = torch.nn.functional.pad(seen, (kernel - seen.shape[-1], 0))
        self.has_previous_state[state_idx] = True
        self.conv_states[state_idx] = seen[..., -kernel:]
        return seen

    def update_recurrent_state(self, recurrent_states: torch.Tensor, state_idx: int = 0, **_: Any) -> torch.Tensor:
        """Keep the state after the last token."""
        self.is_recurrent_states_initialized[state_idx] = True
        self.recurrent_states[state_idx] = recurrent_states
        return recurrent_states

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Give every continuation the same state."""
        for states in (self.conv_states, self.recurrent_states):
            for index, state in states.items():
                if state is not None:
                    states[index] = state.repeat_interleave(repeats, 0)


def prefix_cache(config: Any) -> DynamicCache:
    """Return an empty cache that can be repeated for the continuations of one prefix.

    Raises:
        ConfigError: for a model that caches anything but keys, values and linear-attention states.
    """
    cache = DynamicCache(config=config)
    if odd := unshareable(cache):
        raise ConfigError(
            f"no prefix can be shared of what this model caches, {offenders(odd)}; set grpo.shared_prefix=false"
        )
    cache.layers = [
        ForkableState(layer.number_of_states) if type(layer) is LinearAttentionLayer else layer
        for layer in cache.layers
    ]
    return cache


def forked(layer: Any, repeats: int) -> Any:
    """Return a cache layer that starts from what this one holds, ``repeats`` times; the two then grow apart."""
    fork = copy.copy(layer)
    for name, held in vars(layer).items():
        if isinstance(held, dict):  # states and flags of linear attention, by index
            setattr(fork, name, dict(held))
    if repeats > 1:
        fork.batch_repeat_interleave(repeats)
    return fork


def unshareable(cache: DynamicCache) -> list[str]:
    """Return the kinds of layers that `prefix_cache` cannot repeat."""
    return sorted(
        {type(layer).__name__ for layer in cache.layers} - {DynamicLayer.__name__, LinearAttentionLayer.__name__}
    )


def untreelike(config: Any) -> list[str]:
    """Return the kinds of layers, such as recurrent ones, whose tokens cannot stand beside another branch's."""
    layers = DynamicCache(config=config).layers
    return sorted({type(layer).__name__ for layer in layers} - {DynamicLayer.__name__})
