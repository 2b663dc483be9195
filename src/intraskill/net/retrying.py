"""How a failing exchange is repeated: the one place that waits."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from intraskill.method.randomness import Address, content_hash, uniform
from intraskill.net.failures import TOO_MANY, HttpFailure

Outcome = TypeVar("Outcome")
LONGEST_PAUSE_S = 60.0
"""Also of what a server asks for in Retry-After."""
_RATE_LIMITED = 10.0
"""How many times longer the pauses are after a 429 that names none: limits are counted per minute."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long a failing exchange is repeated.

    Attributes:
        retries: further attempts.
        total_s: seconds within which the last attempt begins.
        first_s: first pause, seconds; each further one is twice as long.
        longest_s: longest pause, unless the server asks for more.
    """

    retries: float = math.inf
    total_s: float = math.inf
    first_s: float = 0.5
    longest_s: float = LONGEST_PAUSE_S

    def pause_s(self, failure: HttpFailure, attempt: int, address: Address) -> float:
        """Return the seconds before the next attempt: never less than the server asks for, up to `LONGEST_PAUSE_S`.

        They are spread by a quarter around the doubled pause, so that many threads do not return together.
        """
        limited = failure.status == TOO_MANY and failure.wait_s is None
        doubled = min(self.first_s * (_RATE_LIMITED if limited else 1.0) * 2.0**attempt, self.longest_s)
        draw = uniform(0, "pause", address, attempt)
        asked = 0.0 if failure.wait_s is None else min(failure.wait_s * (1 + draw / 4), LONGEST_PAUSE_S)
        return max(doubled * (0.75 + draw / 2), asked)


def persist(
    attempt: Callable[[float], Outcome | HttpFailure],
    again: Callable[[HttpFailure], bool],
    patience: Patience,
    address: object,
    retrying: Callable[[], None] = lambda: None,
) -> tuple[Outcome | HttpFailure, int]:
    """Return what an exchange gives in the end, and after how many attempts.

    Args:
        attempt: tries once; called with the seconds that are left.
        again: whether a failure is worth another attempt.
        patience: how often and how long.
        address: of the pauses' randomness, as JSON.
        retrying: called before each pause.
    """
    deadline, attempts = time.monotonic() + patience.total_s, 0
    while True:
        outcome = attempt(deadline - time.monotonic())
        attempts += 1
        if not isinstance(outcome, HttpFailure) or not again(outcome) or attempts > patience.retries:
            return outcome, attempts
        pause_s = patience.pause_s(outcome, attempts - 1, content_hash(address))
        if time.monotonic() + pause_s > deadline:
            return outcome, attempts
        retrying()
        time.sleep(pause_s)
