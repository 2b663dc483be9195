"""Edit proposals on their way to the gate: reduce them to a few, and remember what became of each (method §6.3)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from intraskill.method.errors import EditError
from intraskill.method.gate.rules import Fate
from intraskill.method.leakage.text import fold
from intraskill.method.randomness import content_hash
from intraskill.method.skill.edits import Edit, Op
from intraskill.method.skill.likeness import Terms, alike, terms_of
from intraskill.method.skill.skill import Chunk, ChunkId

PERSON = "person"
"""Stands among the support of what a person proposed or rewrote."""
_NO_LOSS = (Fate.SELECTED, Fate.WAITING, Fate.HELD_AT_FLOOR, Fate.NO_INFORMATION, Fate.NO_PROPOSAL, Fate.BLOCKED)
"""Fates that keep nothing away: waiting means that the next gate may add what this one could not see, and what is
blocked lost earlier; it must not be kept away for longer by asking again."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One suggestion of a proposer; a candidate only, whatever its support.

    Attributes:
        op: the operation.
        targets: ids of the chunks that it would replace.
        chunks: the new text.
        root_cause: the failure mechanism, in words.
        support: ids of the rollouts that show it.
        expected_effect: what should change, in words.
        calls: ids of the proposer calls that it came from, for the history of a line.

    Raises:
        EditError: if targets and chunks do not have the shape of ``op``.
    """

    op: Op
    targets: tuple[ChunkId, ...]
    chunks: tuple[Chunk, ...]
    root_cause: str
    support: tuple[str, ...] = ()
    expected_effect: str = ""
    calls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = Edit(self.targets, self.chunks).op
        if shape != self.op:
            raise EditError(
                f"a proposal says {self.op} but has the shape of {shape}: {len(self.targets)} targets, "
                f"{len(self.chunks)} chunks; correct one of them"
            )

    def to_edit(self) -> Edit:
        """Return the edit that the gate tests."""
        return Edit(self.targets, self.chunks, self.root_cause, self.support)

    @property
    def meaning(self) -> str:
        """Hash of the targets and of the words of the folded new text: spacing, punctuation and titles do not count."""
        words = sorted(" ".join(re.findall(r"\w+", fold(chunk.body))) for chunk in self.chunks)
        return content_hash(sorted(self.targets), words)

    @property
    def terms(self) -> Terms:
        """What the new text says, as `likeness.alike` compares it; titles do not count."""
        return terms_of(chunk.body for chunk in self.chunks)

    @property
    def origin(self) -> str:
        """``person`` or ``analyst``."""
        return PERSON if PERSON in self.support else "analyst"


def merge_proposals(proposals: Iterable[Proposal], *, limit: int) -> tuple[Proposal, ...]:
    """REDUCE: unite equals, keep at most one proposal per target, cap by support; input order does not matter.

    Proposals of equal meaning become one with the union of their supports, so that prevalence is counted and not
    asked for. Of two that touch the same chunk, or that add the same text, the better supported one stays.

    Args:
        proposals: of one round.
        limit: the most that may enter the gate (6 in the published run).
    """
    kept: list[Proposal] = []
    taken: set[ChunkId] = set()
    for proposal in sorted(unite_equals(proposals), key=precedence):
        touched = {*proposal.targets, *(chunk.id for chunk in proposal.chunks)}
        if taken.isdisjoint(touched):
            taken |= touched
            kept.append(proposal)
    return tuple(kept[:limit])


def unite_equals(proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """Make one of the proposals of each meaning, the best supported one with the supports and calls of all."""
    united: dict[str, Proposal] = {}
    for proposal in sorted(proposals, key=precedence):
        first = united.setdefault(proposal.meaning, proposal)
        support, calls = {*first.support, *proposal.support}, {*first.calls, *proposal.calls}
        united[proposal.meaning] = replace(first, support=tuple(sorted(support)), calls=tuple(sorted(calls)))
    return tuple(united[meaning] for meaning in sorted(united))


def precedence(proposal: Proposal) -> tuple[int, str, str]:
    """Sort key: the best supported first, then by text."""
    return -len(set(proposal.support)), proposal.to_edit().id, proposal.root_cause


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One proposal and its fate.

    Attributes:
        round_index: round t of the decision.
        edit_id: id of the edit, ``""`` for no proposal.
        op: the operation, ``""`` for no proposal.
        meaning: `Proposal.meaning`, ``""`` for no proposal.
        fate: what became of it.
        reason: the same in words.
        support: ids of the rollouts behind it.
        origin: ``analyst`` or ``person``.
        targets: ids of the chunks that it would replace.
        terms: `Proposal.terms`, sorted.
        replaced: terms of each text that it took out of the skill, when it was taken.
    """

    round_index: int
    edit_id: str
    op: str
    meaning: str
    fate: Fate
    reason: str = ""
    support: tuple[str, ...] = ()
    origin: str = "analyst"
    targets: tuple[ChunkId, ...] = ()
    terms: tuple[str, ...] = ()
    replaced: tuple[tuple[str, ...], ...] = ()

    def lost_as(self, proposal: Proposal) -> bool:
        """Whether this is a loss of a proposal that says the same of the same chunks."""
        if self.fate in _NO_LOSS:
            return False
        same_place = self.op == proposal.op and set(self.targets) == set(proposal.targets)
        return self.meaning == proposal.meaning or (same_place and alike(frozenset(self.terms), proposal.terms))

    def took_out(self, proposal: Proposal) -> bool:
        """Whether this edit was taken and a new text of the proposal says what it took out: A → B → A."""
        new = [terms_of([chunk.body]) for chunk in proposal.chunks]
        return self.fate is Fate.SELECTED and any(alike(frozenset(old), text) for old in self.replaced for text in new)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every proposal so far, oldest first; it keeps an equal loser, and the text that a winner replaced, away."""

    entries: tuple[LedgerEntry, ...] = field(default=())

    def record(
        self, round_index: int, proposal: Proposal | None, fate: Fate, reason: str = "", replaced: Sequence[Chunk] = ()
    ) -> "Ledger":
        """Return a ledger with one more entry.

        Args:
            round_index: round t.
            proposal: ``None`` when a proposer found nothing to propose.
            fate: what became of it.
            reason: the same in words.
            replaced: the chunks that it took out of the skill, when it was taken.
        """
        if proposal is None:
            entry = LedgerEntry(round_index, "", "", "", fate, reason)
        else:
            edit = proposal.to_edit()
            entry = LedgerEntry(
                round_index=round_index,
                edit_id=edit.id,
                op=edit.op,
                meaning=proposal.meaning,
                fate=fate,
                reason=reason,
                support=proposal.support,
                origin=proposal.origin,
                targets=proposal.targets,
                terms=tuple(sorted(proposal.terms)),
                replaced=tuple(tuple(sorted(terms_of([chunk.body]))) for chunk in replaced),
            )
        return Ledger((*self.entries, entry))

    def blocked_by(self, proposal: Proposal, round_index: int, *, rounds: int) -> LedgerEntry | None:
        """Return the newest of the last ``rounds`` rounds that lost as an equal proposal, or took this very text out.

        It keeps the proposal away until and with round ``entry.round_index + rounds``.
        """
        recent = [entry for entry in self.entries if round_index - entry.round_index <= rounds]
        return next((e for e in reversed(recent) if e.lost_as(proposal) or e.took_out(proposal)), None)
