"""What somebody changed in a skill, as edits: rewrites, merges, splits, deletions and additions, chunk by chunk."""

from collections.abc import Iterator

from intraskill.method.edits import Edit
from intraskill.method.likeness import Terms, terms_of
from intraskill.method.skill import Chunk, ChunkId, Skill

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
