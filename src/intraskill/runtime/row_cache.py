"""A key/value cache with one dense row per conversation, written in place.

Transformers' `DynamicCache` copies everything it holds for each new token, and rows of unequal length need padding that
grows with every turn. Here each row holds its own positions from 0 on.
"""

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer


class Window:
    """Which slots and positions the next forward pass writes, and what it may read."""

    def __init__(self) -> None:
        self.slots = torch.empty(0, dtype=torch.long)
        self.positions = torch.empty(0, 0, dtype=torch.long)
        self.width = 0
        self.leading = True


class RowLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer: one dense row per conversation, written in place."""

    keys: torch.Tensor | Any
    values: torch.Tensor | Any

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window

    def reserve(self, rows: int, width: int, like: torch.Tensor) -> None:
        """Make room for ``rows`` × ``width`` positions shaped like ``like`` (·, heads, ·, width of a head)."""
        heads, head_width = like.shape[1], like.shape[3]
        held = (self.keys, self.values) if self.keys is not None else None
        self.keys = like.new_zeros(rows, heads, width, head_width)
        self.values = like.new_zeros(rows, heads, width, head_width)
        if held is not None:
            self.keys[:, :, : held[0].shape[2]] = held[0]
            self.values[:, :, : held[1].shape[2]] = held[1]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write (n, heads, Q, ·) at the window's slots and positions; return what these slots hold up to its width."""
        at = self.window
        rows = at.slots[:, None]
        self.keys[rows, :, at.positions] = key_states.transpose(1, 2)
        self.values[rows, :, at.positions] = value_states.transpose(1, 2)
        if at.leading:
            read: slice | torch.Tensor = slice(0, len(at.slots))
        else:
            read = at.slots
        return self.keys[read, :, : at.width], self.values[read, :, : at.width]

    def exchange(self, left: torch.Tensor, right: torch.Tensor, width: int) -> None:
        """Swap the rows of two lists of slots."""
        for held in (self.keys, self.values):
            kept = held[left, :, :width]
            held[left, :, :width] = held[right, :, :width]
            held[right, :, :width] = kept
