"""Many draws from one address: the numbers of a stream depend on its seed and address alone."""

import hashlib
import struct
from collections.abc import Sequence
from typing import TypeVar

from intraskill.method.randomness import Address

T = TypeVar("T")
_EIGHT = struct.Struct("<8Q")


class Draws:
    """A short stream of draws that belongs to one thing (a family, a product, one attempt at a task).

    One hash gives eight numbers, so a product costs microseconds; what is drawn for one thing never moves another.

    Args:
        seed: seed of the world.
        where: the address.
    """

    def __init__(self, seed: int, *where: Address) -> None:
        self._key = hashlib.blake2b(repr((seed, where)).encode()).digest()
        self._left: list[int] = []
        self._blocks = 0

    def number(self) -> float:
        """Return the next number in [0, 1)."""
        if not self._left:
            block = hashlib.blake2b(self._blocks.to_bytes(8, "little"), key=self._key).digest()
            self._left, self._blocks = list(_EIGHT.unpack(block)), self._blocks + 1
        return (self._left.pop() >> 11) / 2**53

    def chance(self, probability: float) -> bool:
        """Return whether an event of this probability happens."""
        return self.number() < probability

    def below(self, n: int) -> int:
        """Return an integer in [0, n)."""
        return int(self.number() * n)

    def between(self, low: float, high: float) -> float:
        """Return a number in [low, high)."""
        return low + (high - low) * self.number()

    def pick(self, items: Sequence[T]) -> T:
        """Return one item."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], n: int) -> list[T]:
        """Return ``n`` different items (all, when there are fewer) in a drawn order."""
        rest = list(items)
        n = min(n, len(rest))
        for i in range(n):
            j = i + self.below(len(rest) - i)
            rest[i], rest[j] = rest[j], rest[i]
        return rest[:n]

    def weighted(self, weights: Sequence[float]) -> int:
        """Return an index, drawn in proportion to its weight."""
        left = self.number() * sum(weights)
        for i, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return i
        return len(weights) - 1
