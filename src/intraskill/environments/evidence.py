"""What an environment may tell the rules proposer about its episodes; its optional member ``reader``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import Chunk


@dataclass(frozen=True, slots=True)
class Finding:
    """A mechanism seen in one rollout.

    Attributes:
        mechanism: what a lesson can be on.
        turn: index of the responsible decision in `Rollout.turns`.
        evidence: what the log shows there, for the reader of the ledger; it never enters a chunk.
    """

    mechanism: str
    turn: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """One decision at which the lesson of a mechanism could be followed.

    Attributes:
        mechanism: what the lesson is on.
        followed: the agent did what the lesson says, told or not.
        worked: what the lesson is for came out: its reward part was full, or else the whole episode succeeded.
    """

    mechanism: str
    followed: bool
    worked: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What one episode shows."""

    findings: tuple[Finding, ...]
    sightings: tuple[Sighting, ...]


class Reader(Protocol):
    """Reads episodes of one task family from public evidence alone: the request, the pages, the reward parts."""

    def read(self, rollouts: Sequence[Rollout]) -> tuple[Reading | None, ...]:
        """Return what each episode shows; ``None`` for one whose pages cannot be read."""

    def lessons(self, mechanism: str, rollouts: Sequence[Rollout]) -> tuple[Chunk, ...]:
        """Return two wordings of a lesson in the language of the episodes' pages; none on an unknown mechanism."""

    def mechanism_of(self, chunk: Chunk) -> str | None:
        """Return the mechanism that a chunk is a lesson on, in any wording and language; ``None`` for other texts."""
