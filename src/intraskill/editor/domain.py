"""Where a skill is edited for: streams of evidence, queries, a worker that answers them, a verifier that judges.

The worker is frozen and reads the skill; the editor never sees a query's private facts. A technical failure of either
is a fault, never a score of 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from intraskill.editor.evidence import Unit
from intraskill.llm.client import JsonClient
from intraskill.method.leakage.filter import Secrets
from intraskill.method.skill.skill import Skill

Part = Literal["train", "held_out"]


@dataclass(frozen=True, slots=True)
class Query:
    """Something that a worker can be asked and a verifier can judge.

    Attributes:
        id: unique in its domain.
        text: what the worker is asked.
        facts: what only the verifier reads: a rubric, expected cells, a goal.
    """

    id: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """One question to the worker.

    Attributes:
        query: what is asked.
        skill: shown whole; an empty one shows nothing.
        seed: seed of the worker's own draws; one query, skill and seed give one answer.
    """

    query: Query
    skill: Skill
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What the worker made of a job.

    Attributes:
        text: its answer in words.
        facts: whatever else the verifier needs: files, a final state, an environment's reward.
        fault: what broke technically, or ``None``.
    """

    text: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    fault: str | None = None


class Worker(Protocol):
    """A frozen agent."""

    @property
    def version(self) -> str:
        """Hash of everything that could change an answer to a given job."""

    def answer(self, jobs: Sequence[Job]) -> Sequence[Answer]:
        """Answer every job, in order; a technical failure becomes an `Answer.fault`."""


class Verifier(Protocol):
    """Judges answers."""

    @property
    def version(self) -> str:
        """Hash of everything that could change a score of a given answer."""

    def score(self, query: Query, answer: Answer) -> float:
        """Return a score in [0, 1]; any exception becomes a fault."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Evidence in order, and what an edited skill is tried on at the end.

    Attributes:
        id: unique in its domain.
        units: the evidence x_1 … x_T.
        skill: z_0.
        probes: held-out queries of the same kind; none of them is an anchor of any unit.
    """

    id: str
    units: tuple[Unit, ...]
    skill: Skill
    probes: tuple[str, ...] = ()


class Domain(Protocol):
    """One kind of evidence with its queries."""

    @property
    def family(self) -> str:
        """Name of the task family."""

    @property
    def version(self) -> str:
        """Hash of everything that could change a stream or a query."""

    @property
    def secrets(self) -> Secrets:
        """What no chunk may hold."""

    def streams(self, part: Part) -> Sequence[Stream]:
        """Streams to learn from, or those kept for evaluation."""

    def query(self, query_id: str) -> Query:
        """Return one query.

        Raises:
            SplitError: for an id that the domain does not hold.
        """


@runtime_checkable
class KnowsWorth(Protocol):
    """A domain in which the right answers are known, so that edit traces can be demonstrated without a worker."""

    def value(self, stream_id: str) -> Callable[[Skill], float]:
        """Return the expected score of a skill over the queries of one stream.

        Raises:
            SplitError: for a stream that the domain does not hold.
        """


@dataclass(frozen=True, slots=True)
class Workbench:
    """A domain with the agent that works in it and the judge of its answers; what a domain's factory returns.

    Attributes:
        domain: evidence and queries.
        worker: answers queries.
        verifier: judges answers.
        clients: every LLM that one of them asks, so that a run can say what they cost.
    """

    domain: Domain
    worker: Worker
    verifier: Verifier
    clients: tuple[JsonClient, ...] = ()
