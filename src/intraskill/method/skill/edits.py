"""What somebody changed in a skill, as edits: rewrites, merges, splits, deletions and additions, chunk by chunk."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from intraskill.method.errors import EditError, offenders
from intraskill.method.randomness import content_hash
from intraskill.method.skill.likeness import Terms, terms_of
from intraskill.method.skill.skill import Chunk, ChunkId, Skill

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


REWORDED = 0.4
"""Share of common terms from which a new text is taken for a rewrite of an old one that has another title."""
CONTAINED = 0.6
"""Share of a text's terms that another one must hold to be a merge of it, or to be split into it."""


def changes(base: Skill, wanted: Skill) -> tuple[Edit, ...]:
    """Return the edits that turn the chunks of ``base`` into those of ``wanted``; every other chunk is in both.

    A new text that holds most words of two lost ones is their MERGE, two new ones that stand mostly in a lost one are
    its SPLIT. Then a text under the same title, or in similar words, is a REWRITE. What is left over is a DELETE or an
    ADD. Order and preamble are no edits.
    """
    old = {chunk.id: chunk for chunk in base.chunks if chunk.id not in wanted.ids}
    new = {chunk.id: chunk for chunk in wanted.chunks if chunk.id not in base.ids}
    found: list[Edit] = []
    for steps in (_merges, _splits, _retitled, _reworded):
        for removes, adds in steps(old, new):
            found.append(Edit(removes, tuple(new.pop(chunk_id) for chunk_id in adds)))
            for chunk_id in removes:
                del old[chunk_id]
    found += [Edit((chunk_id,), ()) for chunk_id in old]
    return (*found, *(Edit((), (chunk,)) for chunk in new.values()))


def same_terms(one: Chunk, other: Chunk) -> float:
    """Return the share of terms that two chunks have in common (Jaccard)."""
    both = _terms(one) | _terms(other)
    return len(_terms(one) & _terms(other)) / len(both) if both else 1.0


_Chunks = dict[ChunkId, Chunk]
_Steps = Iterator[tuple[tuple[ChunkId, ...], tuple[ChunkId, ...]]]


def _merges(old: _Chunks, new: _Chunks) -> _Steps:
    for chunk_id in list(new):
        parts = tuple(i for i in old if _contained(old[i], new[chunk_id]))
        if len(parts) > 1:
            yield parts, (chunk_id,)


def _splits(old: _Chunks, new: _Chunks) -> _Steps:
    for chunk_id in list(old):
        parts = tuple(i for i in new if _contained(new[i], old[chunk_id]))
        if len(parts) > 1:
            yield (chunk_id,), parts


def _retitled(old: _Chunks, new: _Chunks) -> _Steps:
    for chunk_id in list(old):
        if twins := [i for i in new if new[i].title == old[chunk_id].title]:
            yield (chunk_id,), (max(twins, key=lambda i: same_terms(old[chunk_id], new[i])),)


def _reworded(old: _Chunks, new: _Chunks) -> _Steps:
    for chunk_id in list(old):
        best = max(new, key=lambda i: same_terms(old[chunk_id], new[i]), default=None)
        if best is not None and same_terms(old[chunk_id], new[best]) >= REWORDED:
            yield (chunk_id,), (best,)


def _contained(part: Chunk, whole: Chunk) -> bool:
    terms = _terms(part)
    return bool(terms) and len(terms & _terms(whole)) >= CONTAINED * len(terms)


def _terms(chunk: Chunk) -> Terms:
    return terms_of([chunk.body])
