"""Edits of a skill: one record for ADD, REWRITE, DELETE, MERGE and SPLIT (method §6.3).

An edit replaces ``removes`` by ``adds``. Its two sides are mutually exclusive versions that fill one *slot* of the
document; the validation gate never shows both sides together (method §7.1). Several edits that remove the very same
chunks are alternatives: further versions of one slot. Whoever can choose among more than two versions says so with
``alternatives=True``; everyone else refuses them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from intraskill.method.errors import EditError, offenders
from intraskill.method.randomness import content_hash
from intraskill.method.skill import Chunk, ChunkId, Skill

Op = Literal["ADD", "REWRITE", "DELETE", "MERGE", "SPLIT"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A candidate change: ``removes`` → ``adds`` (method §6.3).

    Attributes:
        removes: ids of chunks of the current skill, ``n`` of them.
        adds: new chunks, ``m`` of them; (n, m) is (0,1), (1,1), (1,0), (n,1) or (1,m).
        reason: the root cause that it answers, in words.
        support: ids of the rollouts that speak for it.

    Raises:
        EditError: for any other shape, or for a chunk named twice.
    """

    removes: tuple[ChunkId, ...]
    adds: tuple[Chunk, ...]
    reason: str = ""
    support: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n, m = len(self.removes), len(self.adds)
        if min(n, m) > 1 or n + m == 0 or (min(n, m) == 0 and max(n, m) > 1):
            raise EditError(
                f"an edit has shape (0,1), (1,1), (1,0), (n,1) or (1,n), got ({n},{m}); write it as several edits"
            )
        if repeated := _repeated([*self.removes, *self.added_ids]):
            raise EditError(f"{self.op} names chunks twice, {offenders(repeated)}; name each chunk once")

    @property
    def op(self) -> Op:
        """Name of the operation, read off the shape (len(removes), len(adds))."""
        n, m = len(self.removes), len(self.adds)
        if n == 0:
            return "ADD"
        if m == 0:
            return "DELETE"
        if n > 1:
            return "MERGE"
        return "SPLIT" if m > 1 else "REWRITE"

    @property
    def added_ids(self) -> tuple[ChunkId, ...]:
        """Ids of ``adds``."""
        return tuple(chunk.id for chunk in self.adds)

    @property
    def id(self) -> str:
        """Content hash of both sides, such as ``add-3fa91c02``; reason and support do not enter."""
        return f"{self.op.lower()}-{content_hash(sorted(self.removes), self.added_ids)[:8]}"


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the pool: chunks of the current skill and the texts that would replace them, never shown together.

    Attributes:
        old: chunks of the current skill.
        new: what the first edit would put there.
        others: what each further edit of the same chunks would put there.
    """

    old: tuple[ChunkId, ...]
    new: tuple[ChunkId, ...]
    others: tuple[tuple[ChunkId, ...], ...] = ()

    @property
    def versions(self) -> tuple[tuple[ChunkId, ...], ...]:
        """Its mutually exclusive versions, old side first; a side without chunks is none."""
        return tuple(version for version in (self.old, self.new, *self.others) if version)

    @property
    def ids(self) -> tuple[ChunkId, ...]:
        """Every chunk of the slot, old side first."""
        return tuple(chunk_id for version in self.versions for chunk_id in version)

    def allows(self, visible: frozenset[ChunkId]) -> bool:
        """Whether at most one version is (partly) visible."""
        return sum(not visible.isdisjoint(version) for version in self.versions) <= 1


def check_edits(skill: Skill, edits: Sequence[Edit], *, alternatives: bool = False) -> None:
    """Refuse edits that contradict the skill or one another; each chunk takes part in at most one edit.

    Args:
        skill: the current skill.
        edits: this round's candidates.
        alternatives: whether several edits may remove the very same chunks, as versions of one slot.

    Raises:
        EditError: for a removed chunk that the skill lacks, an added chunk that it already has, or a chunk that
            two edits remove or add.
    """
    removed = [chunk_id for edit in edits for chunk_id in edit.removes]
    added = [chunk_id for edit in edits for chunk_id in edit.added_ids]
    if unknown := sorted(set(removed) - set(skill.ids)):
        raise EditError(f"edits remove chunks that the skill does not have, {offenders(unknown)}; drop these edits")
    if present := sorted(set(added) & set(skill.ids)):
        raise EditError(f"edits add chunks that the skill already has, {offenders(present)}; drop these edits")
    sides = [tuple(sorted(edit.removes)) for edit in edits if edit.removes]
    if contested := _repeated([chunk_id for side in (set(sides) if alternatives else sides) for chunk_id in side]):
        raise EditError(f"chunks removed by several edits, {offenders(contested)}; keep one edit per chunk")
    if twins := _repeated(added):
        raise EditError(f"chunks added by several edits, {offenders(twins)}; merge these edits")


def pool(skill: Skill, edits: Sequence[Edit], *, alternatives: bool = False) -> Skill:
    """Return active chunks ∪ candidates, S̃_t (method §7.1), in document order.

    New text stands right after the last chunk that it would replace, an ADD at the end, so that whichever side of
    a slot is visible appears at its place.

    Raises:
        EditError: as `check_edits`.
    """
    check_edits(skill, edits, alternatives=alternatives)
    position = {chunk_id: index for index, chunk_id in enumerate(skill.ids)}
    anchored: dict[int, list[Chunk]] = {}
    for edit in edits:
        anchor = max((position[chunk_id] for chunk_id in edit.removes), default=len(skill.chunks))
        anchored.setdefault(anchor, []).extend(edit.adds)
    chunks: list[Chunk] = []
    for index, chunk in enumerate(skill.chunks):
        chunks += [chunk, *anchored.get(index, ())]
    return Skill(skill.preamble, (*chunks, *anchored.get(len(skill.chunks), ())))


def slots(skill: Skill, edits: Sequence[Edit]) -> tuple[Slot, ...]:
    """Partition the pool into slots: one per set of edited chunks, one per ADD, then one per untouched chunk.

    ``skill`` may be the current skill or the pool; the answer is the same up to order.
    """
    rivals: dict[tuple[ChunkId, ...], list[Edit]] = {}
    for edit in edits:
        rivals.setdefault(tuple(sorted(edit.removes)) or edit.added_ids, []).append(edit)
    edited = tuple(
        Slot(first.removes, first.added_ids, tuple(edit.added_ids for edit in rest)) for first, *rest in rivals.values()
    )
    touched = {chunk_id for slot in edited for chunk_id in slot.ids}
    return edited + tuple(Slot((chunk_id,), ()) for chunk_id in skill.ids if chunk_id not in touched)


def _repeated(ids: Sequence[ChunkId]) -> list[ChunkId]:
    return sorted(chunk_id for chunk_id, count in Counter(ids).items() if count > 1)
