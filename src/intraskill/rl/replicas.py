"""Threads that share one model's weights but not its gradients.

The small matrices of a small model starve torch's own threads: on two cores, two replicas train the tiny policy 1.7 ×
faster than one thread, and torch with two threads hardly faster at all. The work of each replica and the order in which
gradients are added are fixed, so a result depends on the number of replicas but never on timing.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import torch

_Model = TypeVar("_Model", bound=torch.nn.Module)
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


class Replicas(Generic[_Model]):
    """``count`` replicas of a model; the first one is the model itself.

    Args:
        model: whose weights are shared; an optimizer step on it is seen by all.
        count: threads, ≥ 1.
    """

    def __init__(self, model: _Model, count: int) -> None:
        self.models: list[_Model] = [model, *(copy.deepcopy(model) for _ in range(count - 1))]
        for replica in self.models[1:]:
            for own, shared in zip(replica.parameters(), model.parameters(), strict=True):
                own.data = shared.data
        self._pool = ThreadPoolExecutor(count)

    def map(self, work: Callable[[int, _Part], _Result], parts: Sequence[_Part]) -> list[_Result]:
        """Run ``work(k mod count, part_k)``, backward included; return results in order and gather the gradients."""

        def share(index: int) -> list[_Result]:
            return [work(index, part) for part in parts[index :: len(self.models)]]

        shares = list(self._pool.map(share, range(len(self.models))))
        self._gather()
        return [shares[k % len(shares)][k // len(shares)] for k in range(len(parts))]

    def _gather(self) -> None:
        """Add the gradients of the other replicas to the first one's, in a fixed order."""
        for replica in self.models[1:]:
            for own, shared in zip(replica.parameters(), self.models[0].parameters(), strict=True):
                if own.grad is not None:
                    shared.grad = own.grad if shared.grad is None else shared.grad + own.grad
                    own.grad = None
