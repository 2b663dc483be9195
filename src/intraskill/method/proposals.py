"""Edit proposals on their way to the gate: reduce them to a few, and remember what became of each (method §6.3)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from intraskill.method.edits import Edit, Op
from intraskill.method.errors import EditError
from intraskill.method.gate import Fate
from intraskill.method.randomness import content_hash
from intraskill.method.skill import Chunk, ChunkId


@dataclass(frozen=True, slots=True)
class Proposal:
    """One analyst's suggestion; a candidate only, whatever its support.

    Attributes:
        op: the operation.
        targets: ids of the chunks that it would replace.
        chunks: the new text.
        root_cause: the failure mechanism, in words.
        support: ids of the rollouts that show it.
        expected_effect: what should change, in words.
        calls: ids of the analyst calls that it came from, for the history of a line.

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
        """Hash of the targets and of the words of the new text: case, spacing, punctuation and titles do not count."""
        words = sorted(" ".join(re.findall(r"\w+", chunk.body.lower())) for chunk in self.chunks)
        return content_hash(sorted(self.targets), words)


def merge_proposals(proposals: Iterable[Proposal], *, limit: int) -> tuple[Proposal, ...]:
    """REDUCE: unite equals, keep at most one proposal per target, cap by support; input order does not matter.

    Proposals of equal meaning become one with the union of their supports, so that prevalence is counted and not
    asked for. Of two that touch the same chunk, or that add the same text, the better supported one stays.

    Args:
        proposals: of one round.
        limit: the most that may enter the gate (6 in the published run).
    """
    united: dict[str, Proposal] = {}
    for proposal in sorted(proposals, key=_precedence):
        first = united.setdefault(proposal.meaning, proposal)
        support, calls = {*first.support, *proposal.support}, {*first.calls, *proposal.calls}
        united[proposal.meaning] = replace(first, support=tuple(sorted(support)), calls=tuple(sorted(calls)))
    kept: list[Proposal] = []
    taken: set[ChunkId] = set()
    for proposal in sorted(united.values(), key=_precedence):
        touched = {*proposal.targets, *(chunk.id for chunk in proposal.chunks)}
        if taken.isdisjoint(touched):
            taken |= touched
            kept.append(proposal)
    return tuple(kept[:limit])


def _precedence(proposal: Proposal) -> tuple[int, str, str]:
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
    """

    round_index: int
    edit_id: str
    op: str
    meaning: str
    fate: Fate
    reason: str = ""
    support: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every proposal so far, oldest first; it keeps an equal loser away for some rounds."""

    entries: tuple[LedgerEntry, ...] = field(default=())

    def record(self, round_index: int, proposal: Proposal | None, fate: Fate, reason: str = "") -> "Ledger":
        """Return a ledger with one more entry; ``proposal`` is ``None`` when an analyst found nothing to propose."""
        if proposal is None:
            entry = LedgerEntry(round_index, "", "", "", fate, reason)
        else:
            edit = proposal.to_edit()
            entry = LedgerEntry(round_index, edit.id, edit.op, proposal.meaning, fate, reason, proposal.support)
        return Ledger((*self.entries, entry))

    def blocks(self, proposal: Proposal, round_index: int, *, rounds: int) -> bool:
        """Whether an equal proposal lost within the last ``rounds`` rounds before ``round_index``."""
        return any(
            entry.meaning == proposal.meaning
            and entry.fate is not Fate.SELECTED
            and round_index - entry.round_index <= rounds
            for entry in self.entries
        )

    def admissible(self, proposals: Sequence[Proposal], round_index: int, *, rounds: int) -> tuple[Proposal, ...]:
        """Return the proposals that no equal recent loser keeps away."""
        return tuple(p for p in proposals if not self.blocks(p, round_index, rounds=rounds))
