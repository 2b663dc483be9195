"""What a rule of the contract is, and what all rules share: the environment and a few episodes of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from intraskill.environments.contract.play import PlayedEpisode, random_rollout, sample
from intraskill.environments.protocol import Environment
from intraskill.method.tasks import OPENED

_MORE_TRIES = 10


@dataclass(frozen=True, slots=True)
class Broken:
    """A complaint of a rule: where, and what was seen."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Why a rule, or its second half, could not be checked."""

    why: str


Complaints = Iterator[Broken | Skipped]


@dataclass
class ContractProbe:
    """What the rules share: the environment, tasks to play, and a few recorded episodes.

    Attributes:
        environment: under check.
        again: builds it once more, or ``None``.
        count: number of tasks to play.
        seed: seed of tasks and actions.
    """

    environment: Environment
    again: Callable[[], Environment] | None
    count: int
    seed: int

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
