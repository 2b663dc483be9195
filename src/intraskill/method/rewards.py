"""What an episode may pay: the names of its reward parts, the range of all of them, and full success.

The range holds for the reward and for every part but ``r_success``, which is a share: always from 0 to 1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

MAIN_PART = "r_strict"
SUCCESS_PART = "r_success"
UNIT = (0.0, 1.0)
_ROUNDING = 1e-9
"""What sums of floating-point numbers may be off, as a share of the range."""


def success_of(parts: Mapping[str, float], reward: float | None) -> float:
    """Return the share of full success of an episode: ``r_success`` where it has that part, else whether reward ≥ 1."""
    return parts.get(SUCCESS_PART, float((reward or 0.0) >= 1.0))


@dataclass(frozen=True, slots=True)
class Payment:
    """What an environment says its episodes pay.

    Attributes:
        names: reward parts that the environment itself fills.
        bounds: lowest and highest reward.
    """

    names: tuple[str, ...]
    bounds: tuple[float, float] = UNIT

    @property
    def adds_success(self) -> bool:
        """Whether ``r_success`` is filled in here: the highest reward is not 1 and no such part is there."""
        return self.bounds[1] != UNIT[1] and SUCCESS_PART not in self.names

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of all parts of a finished episode."""
        return (*self.names, SUCCESS_PART) if self.adds_success else self.names

    def sound(self, reward: object, parts: Mapping[str, object]) -> tuple[float, dict[str, float]]:
        """Return what a finished episode pays, as floats inside the range.

        Raises:
            TypeError: for a reward or part that is no number.
            ValueError: for one that is not finite or outside the range, a part that is missing, and a reward that is
                not its main part; all of them in one sentence.
        """
        paid, found = finite("reward", reward), finite_parts(parts)
        if problems := self._problems(paid, found):
            raise ValueError("; ".join(problems))
        found = {name: self._inside(name, value) for name, value in found.items()}
        paid = found.get(MAIN_PART, self._inside("reward", paid))
        if self.adds_success:
            found[SUCCESS_PART] = float(paid >= self.bounds[1])
        return paid, found

    def _problems(self, reward: float, parts: Mapping[str, float]) -> list[str]:
        problems = [
            f"{_called(name)} is {value:g}, outside the range of {low:g} to {high:g} (reward_range)"
            for name, value in {"reward": reward, **parts}.items()
            for low, high in [self._bounds_of(name)]
            if not low - self._slack <= value <= high + self._slack
        ]
        if lost := sorted(set(self.names) - set(parts)):
            problems.append(f"the end carries no {', '.join(lost)}")
        if MAIN_PART in parts and abs(reward - parts[MAIN_PART]) > self._slack:
            problems.append(f"the reward is {reward:g}, its {MAIN_PART} is {parts[MAIN_PART]:g}")
        return problems

    @property
    def _slack(self) -> float:
        return _ROUNDING * (self.bounds[1] - self.bounds[0])

    def _bounds_of(self, name: str) -> tuple[float, float]:
        return UNIT if name == SUCCESS_PART else self.bounds

    def _inside(self, name: str, value: float) -> float:
        low, high = self._bounds_of(name)
        return min(high, max(low, value))


def finite_parts(parts: Mapping[str, object]) -> dict[str, float]:
    """Return reward parts as floats; raises as `finite` does."""
    return {name: finite(_called(name), value) for name, value in parts.items()}


def finite(name: str, value: object) -> float:
    """Return a number as a float.

    Raises:
        TypeError: for what is no number; a truth value is none.
        ValueError: for a number that is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is a {type(value).__name__}, not a number")
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}, not a finite number")
    return float(value)


def _called(name: str) -> str:
    return name if name == "reward" else f"parts[{name!r}]"


def is_range(value: object) -> bool:
    """Whether a value can be a reward range: two finite numbers, the lower first, with 0 between or at one of them."""
    if not isinstance(value, tuple | list) or len(value) != len(UNIT):
        return False
    try:
        low, high = (finite("", bound) for bound in value)
    except (TypeError, ValueError):
        return False
    return low <= 0.0 <= high and low < high
