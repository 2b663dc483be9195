"""What a rule of the contract is, and what all rules share: the environment and a few episodes of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from intraskill.environments.contract.play import PlayedEpisode, play_actions, random_rollout, sample
from intraskill.environments.contract.solutions import Solution, stated_solutions
from intraskill.environments.protocol import Environment, boundary
from intraskill.method.tasks import OPENED

_MORE_TRIES = 10


@dataclass(frozen=True, slots=True)
class Broken:
    """A complaint of a rule: where, and what was seen."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Why a rule, or its second half, could not be checked.

    Attributes:
        why: the reason.
        optional: the rule is about what an environment need not offer, and this one does not.
    """

    why: str
    optional: bool = False


Complaints = Iterator[Broken | Skipped]
_Item = TypeVar("_Item", str, PlayedEpisode)


def each(items: Iterable[_Item], check: Callable[[_Item], Complaints]) -> Complaints:
    """Check tasks or episodes one by one; what raises at one is its complaint, and the others are checked too."""
    for item in items:
        with boundary("raised") as crossing:
            yield from check(item)
        if crossing.fault is not None:
            yield Broken(f"task {item if isinstance(item, str) else item.task_id}", crossing.fault)


@dataclass
class ContractProbe:
    """What the rules share: the environment, tasks to play, and a few recorded episodes.

    Attributes:
        environment: under check.
        again: builds it once more, or ``None``.
        count: number of tasks to play.
        seed: seed of tasks and actions.
        given: solutions that somebody gave beside the environment's own.
    """

    environment: Environment
    again: Callable[[], Environment] | None
    count: int
    seed: int
    given: Sequence[Solution] = ()

    @cached_property
    def task_ids(self) -> list[str]:
        """Tasks to play, spread over the splits that may be opened."""
        pools = [sample([t.id for t in self.environment.tasks(s)], self.count, self.seed, s) for s in OPENED]
        ranked = [pool[rank] for rank in range(self.count) for pool in pools if rank < len(pool)]
        return ranked[: self.count]

    @cached_property
    def traces(self) -> list[PlayedEpisode]:
        """One random episode per task."""
        return [random_rollout(self.environment, task_id, self.seed) for task_id in self.task_ids]

    @cached_property
    def solved(self) -> list[tuple[Solution, PlayedEpisode]]:
        """Every solution that is known of, played."""
        known = (*self.given, *stated_solutions(self.environment, self.task_ids))
        return [(one, play_actions(self.environment, one.task_id, one.actions)) for one in known]

    @property
    def shown(self) -> list[PlayedEpisode]:
        """Every episode that was played, random or as a solution says."""
        return [*self.traces, *(trace for _, trace in self.solved)]

    @cached_property
    def ended(self) -> list[PlayedEpisode]:
        """Episodes that came to their own end; where chance found none, further ones are tried."""
        found = [trace for trace in self.traces if trace.done]
        for attempt in range(self.seed + 1, self.seed + 1 + _MORE_TRIES):
            if found:
                break
            trace = random_rollout(self.environment, self.task_ids[attempt % len(self.task_ids)], attempt)
            found += [trace] if trace.done else []
        return found


@dataclass(frozen=True, slots=True)
class Rule:
    """One promise and how it is checked.

    Attributes:
        name: short name.
        promise: what the environment promises.
        remedy: what to do about a breach.
        check: yields complaints.
        needs: rules without which this one means nothing.
    """

    name: str
    promise: str
    remedy: str
    check: Callable[[ContractProbe], Complaints]
    needs: tuple[str, ...] = ()
