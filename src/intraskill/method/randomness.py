"""Addressed randomness: a draw is a function of its address, never of what was drawn before it.

Nothing here holds state, so order of iteration, number of workers, a resume, or the presence of other
candidates cannot change a draw. An address is a seed and a path such as ``("visible", round, task, chunk)``.
"""

import hashlib
import json
from collections.abc import Iterable

Address = str | int | tuple[str, ...]


def content_hash(*parts: object) -> str:
    """Return a 16-hex-digit hash of JSON-serialisable ``parts``; equal parts give equal hashes on any machine."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def uniform(seed: int, *where: Address) -> float:
    """Return a number in [0, 1) that depends only on its address."""
    return (int(content_hash(seed, *where), 16) >> 11) / 2**53


def child_seed(seed: int, *where: Address) -> int:
    """Return a 63-bit seed for a generator that lives at this address (one request of one rollout, say)."""
    return int(content_hash("seed", seed, *where), 16) >> 1


def shuffled(items: Iterable[str], seed: int, *where: Address) -> list[str]:
    """Return ``items`` in an order that depends only on the address and on each item.

    Prefix-stable under removal: dropping an item leaves the relative order of the others unchanged.
    """
    return sorted(items, key=lambda item: (uniform(seed, *where, item), item))
