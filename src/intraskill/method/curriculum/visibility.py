"""The visibility frontier: practise bare as soon as bare groups carry signal (method §8.2).

GRPO learns from groups whose rewards differ. While no bare group has any, skill-free groups are wasted and the skill is
what makes practice possible; once bare groups have signal, they train exactly what the checkpoint must do alone. The
training groups show both for free, since their contexts were drawn at random.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import pstdev

from intraskill.method.curriculum.exposure import moved_q
from intraskill.method.curriculum.frontier import FLAT
from intraskill.method.errors import ConfigError
from intraskill.method.rollouts import GroupResult


@dataclass(frozen=True, slots=True)
class Signal:
    """Groups of one kind of context, and those of them whose rewards differ."""

    groups: int
    with_signal: int

    @property
    def share(self) -> float:
        """(with_signal + ½) / (groups + 1), so that few groups say little."""
        return (self.with_signal + 0.5) / (self.groups + 1)


def signal_of(results: Sequence[GroupResult], *, bare: bool) -> Signal:
    """Count the groups without a fault that saw no chunk (``bare``), or some."""
    chosen = [result for result in results if not result.faulted and bool(result.group.visible) is not bare]
    return Signal(len(chosen), sum(pstdev(result.rewards) > FLAT for result in chosen))


def signal_q(
    previous: float,
    bare: Signal,
    assisted: Signal,
    *,
    enough: float,
    floor: float,
    ceiling: float,
    max_change: float,
) -> float:
    """Return q_{t+1} from how often groups without and with chunks carried signal in round t.

    ``target = floor + (ceiling − floor) · min(1, share_bare / (enough · share_assisted))``: bare practice is the aim,
    so it takes over once it carries ``enough`` of the signal of assisted practice. A round in which one kind was not
    seen, or neither had signal, says nothing, and q stays.

    Args:
        previous: q_t.
        bare: groups that saw no chunk.
        assisted: groups that saw some.
        enough: share of the assisted signal at which q reaches the ceiling, in (0, 1].
        floor: smallest q, in (0, 1).
        ceiling: largest q, in [floor, 1).
        max_change: slew limit per round, > 0.

    Raises:
        ConfigError: for numbers outside these ranges.
    """
    if not 0.0 < enough <= 1.0:
        raise ConfigError(f"enough must lie in (0, 1], got {enough}")
    if not (bare.groups and assisted.groups and bare.with_signal + assisted.with_signal):
        return moved_q(previous, previous, floor=floor, ceiling=ceiling, max_change=max_change)
    target = floor + (ceiling - floor) * min(1.0, bare.share / (enough * assisted.share))
    return moved_q(previous, target, floor=floor, ceiling=ceiling, max_change=max_change)
