"""Activation checkpointing that works with a shared prefix: only what enters a layer is kept, the rest is recomputed.

Transformers' own checkpointing switches the cache off, and with it the shared prefix. Here a layer's cache is part of
what enters it: a recomputation starts from the same keys, values and states as the first pass did, and the repetition
of the prefix for its continuations is recomputed too, never kept.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from intraskill.runtime.prefix_cache import forked


@contextmanager
def checkpointed_layers(backbone: Any, *, repeats: int = 1) -> Iterator[None]:
    """Within it, forward passes of this backbone keep only the input of each layer.

    Args:
        backbone: with its decoder layers in ``layers``, in the order of the cache's layers.
        repeats: continuations of what the cache holds; above 1 the pass is the last one over this cache, which then
            keeps the prefix only.
    """
    shadowed = [(layer, layer.__dict__.get("forward")) for layer in backbone.layers]
    for index, (layer, _) in enumerate(shadowed):
        layer.forward = partial(_checkpointed, layer.forward, index, repeats)
    try:
        yield
    finally:
        for layer, own in shadowed:
            del layer.forward
            if own is not None:
                layer.forward = own


def _checkpointed(original: Callable[..., Any], index: int, repeats: int, hidden: torch.Tensor, **options: Any) -> Any:
    """Run one layer; its cache is found as it was whenever this is repeated."""
    cache = options.get("past_key_values")
    if cache is None:
        return checkpoint(original, hidden, use_reentrant=False, preserve_rng_state=False, **options)
    before = forked(cache.layers[index], 1)

    def run(hidden: torch.Tensor) -> Any:
        cache.layers[index] = forked(before, repeats)
        try:
            return original(hidden, **options)
        finally:
            if repeats > 1:
                cache.layers[index] = before

    return checkpoint(run, hidden, use_reentrant=False, preserve_rng_state=False)
