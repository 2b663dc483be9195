"""The failure frontier: groups that carry no learning signal and score low (method §6.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from intraskill.method.errors import ConfigError
from intraskill.method.rollouts import GroupResult


@dataclass(frozen=True, slots=True)
class FrontierRule:
    """Low mean AND low dispersion: ``mean ≤ max_mean and std ≤ max_std``.

    With both at 0, read from the component that says success, this is the published special case "all wrong"; read
    from a graded reward it is narrower, since a group stuck at one partial reward is all wrong too.

    Attributes:
        max_mean: m₀, reward units.
        max_std: s₀ ≥ 0, reward units; population standard deviation over the G siblings.
        part: the reward component that is read, such as ``r_success``; empty for the main reward.
    """

    max_mean: float
    max_std: float
    part: str = ""

    def __post_init__(self) -> None:
        if self.max_std < 0.0:
            raise ConfigError(f"max_std must be 0 or more, got {self.max_std}")


def in_frontier(result: GroupResult, rule: FrontierRule) -> bool:
    """Whether a group's scored rollouts lie in the frontier."""
    if not rule.part:
        return is_frontier(result.rewards, rule)
    return is_frontier([rollout.parts[rule.part] for rollout in result.rollouts if rollout.reward is not None], rule)


def is_frontier(rewards: Sequence[float], rule: FrontierRule) -> bool:
    """Whether a group's rewards, (G,), lie in the frontier; no rewards, no verdict: ``False``."""
    return bool(rewards) and fmean(rewards) <= rule.max_mean and pstdev(rewards) <= rule.max_std


def find_frontier(results: Sequence[GroupResult], rule: FrontierRule) -> tuple[GroupResult, ...]:
    """Return the frontier groups of a round, one per task, in the order of ``results``.

    A group counts only if every sibling is scored. When a task has several scored groups, its latest one speaks for
    it: the policy moved on since the others.
    """
    latest: dict[str, GroupResult] = {}
    for result in results:
        if result.rollouts and len(result.rewards) == len(result.rollouts):
            latest.pop(result.group.task.id, None)
            latest[result.group.task.id] = result
    return tuple(result for result in latest.values() if in_frontier(result, rule))
