"""What differs between two skills, chunk by chunk and word by word; with lineage a rewrite is one change."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from intraskill.history import History, Version
from intraskill.method.skill import Chunk, ChunkId, Skill
from intraskill.method.skill_changes import changes

Mark = Literal["same", "removed", "added"]
Kind = Literal["added", "removed", "rewritten", "merged", "split", "moved"]
Word = tuple[Mark, str]
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORDS = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|\s|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Change:
    """Chunks of the old skill and what stands in their place in the new one.

    Attributes:
        kind: what it looks like.
        old: chunks of the old skill, in its order.
        new: chunks of the new one, in its order.
    """

    kind: Kind
    old: tuple[Chunk, ...]
    new: tuple[Chunk, ...]

    @property
    def words(self) -> tuple[Word, ...]:
        """The text of both sides as runs of words; "same" and "removed" give the old text, "same" and "added" the new.

        A chunk that only moved is all "same".
        """
        return word_diff(*("\n\n".join(chunk.render() for chunk in side) for side in (self.old, self.new)))


@dataclass(frozen=True, slots=True)
class SkillDiff:
    """How the new skill differs from the old one.

    Attributes:
        changes: in the order of the new skill, what is gone last.
        preamble: runs of words; empty when it is the same.
        same: ids of the chunks that stayed as and where they were.
    """

    changes: tuple[Change, ...]
    preamble: tuple[Word, ...]
    same: tuple[ChunkId, ...]


def diff_versions(history: History, old: Version, new: Version) -> SkillDiff:
    """Compare two versions of one run by what became of what, in either direction."""
    if old.round_index <= new.round_index:
        return _diff(old.skill, new.skill, ancestors(history, old, new))
    forward = ancestors(history, new, old)
    backward = {i: frozenset(later for later, made_from in forward.items() if i in made_from) for i in new.skill.ids}
    return _diff(old.skill, new.skill, backward)


def ancestors(history: History, old: Version, new: Version) -> dict[ChunkId, frozenset[ChunkId]]:
    """Return, for every chunk of the later version, the chunks of the earlier one that it was made from, or is."""
    reached: dict[ChunkId, frozenset[ChunkId]] = {i: frozenset((i,)) for i in old.skill.ids}
    for one in history.until(new)[len(history.until(old)) :]:
        parents = {i: tried.edit.removes for tried in one.edits for i in tried.edit.added_ids}
        reached = {
            i: reached.get(i, frozenset().union(*(reached.get(p, frozenset()) for p in parents.get(i, ()))))
            for i in one.skill.ids
        }
    return reached


def diff_texts(old: Skill, new: Skill) -> SkillDiff:
    """Compare two skills without a common history: a text under the same title, or in similar words, is a rewrite."""
    made = {chunk_id: frozenset((chunk_id,)) for chunk_id in old.ids}
    for edit in changes(old, new):
        made |= dict.fromkeys(edit.added_ids, frozenset(edit.removes))
    return _diff(old, new, made)


def word_diff(old: str, new: str) -> tuple[Word, ...]:
    """Return two texts as runs of words that are the same, removed or added; a Chinese character is a word."""
    left, right = _WORDS.findall(old), _WORDS.findall(new)
    runs: list[Word] = []
    gone = come = ""
    for op, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        before, after = "".join(left[a:b]), "".join(right[c:d])
        if op == "equal" and not ((gone or come) and before == " " and b < len(left) and d < len(right)):
            runs += _changed(gone, come)
            runs.append(("same", before))
            gone = come = ""
        else:  # a lone blank between two changes belongs to them: one changed phrase, not three
            gone, come = gone + before, come + after
    return (*runs, *_changed(gone, come))


def _changed(gone: str, come: str) -> list[Word]:
    sides: tuple[Word, ...] = (("removed", gone), ("added", come))
    return [side for side in sides if side[1]]


def _diff(old: Skill, new: Skill, made_from: Mapping[ChunkId, frozenset[ChunkId]]) -> SkillDiff:
    shared = set(old.ids) & set(new.ids)
    links = {i: {p for p in made_from.get(i, ()) if p not in shared} & set(old.ids) for i in new.ids if i not in shared}
    moved = shared - _in_order([i for i in old.ids if i in shared], [i for i in new.ids if i in shared])
    found = [_change(old, new, *family) for family in _families(links, [i for i in old.ids if i not in shared])]
    found += [Change("moved", (chunk,), (chunk,)) for chunk in new.chunks if chunk.id in moved]
    places = {chunk_id: place for place, chunk_id in enumerate(new.ids)}
    found.sort(key=lambda change: places[change.new[0].id] if change.new else len(places))
    preamble = word_diff(old.preamble, new.preamble) if old.preamble != new.preamble else ()
    return SkillDiff(tuple(found), preamble, tuple(i for i in new.ids if i in shared and i not in moved))


def _families(
    links: Mapping[ChunkId, set[ChunkId]], old: Sequence[ChunkId]
) -> Iterator[tuple[set[ChunkId], set[ChunkId]]]:
    """Yield (old, new) chunks that hang together, directly or through others."""
    left: list[tuple[set[ChunkId], set[ChunkId]]] = [({chunk_id}, set()) for chunk_id in old]
    for chunk_id, parents in links.items():
        touched = [family for family in left if family[0] & parents]
        left = [family for family in left if not family[0] & parents]
        left.append((set().union(*(f[0] for f in touched)), {chunk_id}.union(*(f[1] for f in touched))))
    yield from left


def _change(old: Skill, new: Skill, before: set[ChunkId], after: set[ChunkId]) -> Change:
    gone = tuple(chunk for chunk in old.chunks if chunk.id in before)
    come = tuple(chunk for chunk in new.chunks if chunk.id in after)
    kind: Kind = "rewritten"
    if not gone or not come:
        kind = "removed" if gone else "added"
    elif len(come) == 1 < len(gone):
        kind = "merged"
    elif len(gone) == 1 < len(come):
        kind = "split"
    return Change(kind, gone, come)


def _in_order(old: Sequence[ChunkId], new: Sequence[ChunkId]) -> set[ChunkId]:
    """Return a longest set of chunks that stand in the same order in both; the rest moved."""
    places = {chunk_id: place for place, chunk_id in enumerate(old)}
    longest: list[ChunkId] = []
    ending: list[list[ChunkId]] = []
    for chunk_id in new:
        run: list[ChunkId] = []
        for before in ending:
            if places[before[-1]] < places[chunk_id] and len(before) > len(run):
                run = before
        ending.append([*run, chunk_id])
        longest = ending[-1] if len(ending[-1]) > len(longest) else longest
    return set(longest)
