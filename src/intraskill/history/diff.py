"""Take a skill, or one chunk of it, back to an earlier version: as a person's edit of the next round, or as a file.

Weights, skill and exposure belong together and sealed rounds stay as they are, so nothing is undone: the old text
becomes a candidate and has to pass the gate at the present checkpoint.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal

from intraskill.history.history import History, Version
from intraskill.method.errors import ArtifactError
from intraskill.method.skill.edits import changes
from intraskill.method.skill.skill import Chunk, ChunkId, Skill
from intraskill.rounds.human_review import next_skill_text
from intraskill.store.artifacts import NEXT_SKILL, PLAN
from intraskill.store.run_directory import write_text

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
        return _diff(old.skill, new.skill, _ancestors(history, old, new))
    forward = _ancestors(history, new, old)
    backward = {i: frozenset(later for later, made_from in forward.items() if i in made_from) for i in new.skill.ids}
    return _diff(old.skill, new.skill, backward)


def _ancestors(history: History, old: Version, new: Version) -> dict[ChunkId, frozenset[ChunkId]]:
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


@dataclass(frozen=True, slots=True)
class Revert:
    """A skill that goes back.

    Attributes:
        skill: the document.
        changes: what it changes in the newest skill.
        path: where it was written.
        pending: whether the next round takes it through its gate; otherwise it is a file and no more.
    """

    skill: Skill
    changes: tuple[Change, ...]
    path: Path
    pending: bool


def revert(history: History, target: Version, chunk: Chunk | None, out: Path | None) -> Revert:
    """Write the skill of ``target``, or the newest one with one chunk as ``target`` had it.

    A chunk that was merged or split goes back with everything that hangs together with it.

    Args:
        history: of the run.
        target: the version to go back to.
        chunk: of either version; ``None`` takes everything back.
        out: write here and leave the run alone; ``None`` writes the run's ``next_skill.md``.

    Raises:
        ArtifactError: when nothing would change, the run takes no further round, a person's edit waits already, or
            ``out`` is there.
    """
    newest = history.newest
    found = diff_versions(history, newest, target)
    wanted = [change for change in found.changes if chunk is None or chunk.id in _ids(change)]
    if chunk is not None and not wanted and chunk.id not in {*newest.skill.ids, *target.skill.ids}:
        raise ArtifactError(
            f"chunk {chunk.id} is neither in the skill of {newest.directory.name} nor in that of "
            f"{target.directory.name}; name a round that held it with --to"
        )
    if not wanted and (chunk is not None or not found.preamble):
        what = f"chunk {chunk.id}" if chunk else "the skill"
        raise ArtifactError(
            f"nothing to revert: {what} is in {newest.directory.name} as it was in {target.directory.name}"
        )
    skill = target.skill if chunk is None else _taken_back(newest.skill, target.skill, wanted)
    if out is None and _tested(found, wanted) == 0:
        raise ArtifactError("only order or preamble differ, which no gate tests; write the old text with --out FILE")
    path = _free_place(history, out)
    write_text(path, skill.to_markdown() if out else next_skill_text(newest.directory.name, skill))
    return Revert(skill, tuple(wanted), path, out is None)


def _ids(change: Change) -> set[str]:
    return {chunk.id for chunk in (*change.old, *change.new)}


def _tested(found: SkillDiff, wanted: list[Change]) -> int:
    return sum(change.kind != "moved" for change in wanted)


def _taken_back(skill: Skill, target: Skill, wanted: list[Change]) -> Skill:
    """Return ``skill`` with the wanted changes made: new text where the old stood, else after its old neighbour."""
    chunks = list(skill.chunks)
    for change in wanted:
        gone = [place for place, chunk in enumerate(chunks) if chunk in change.old]
        place = gone[0] if gone and change.kind != "moved" else None
        chunks = [chunk for chunk in chunks if chunk not in change.old]
        if place is None and change.new:
            before = target.chunks[: target.chunks.index(change.new[0])]
            place = max((n + 1 for n, chunk in enumerate(chunks) if chunk in before), default=0)
        chunks[place:place] = change.new
    return Skill(skill.preamble, tuple(chunks))


def _free_place(history: History, out: Path | None) -> Path:
    if out is not None:
        if out.exists():
            raise ArtifactError(f"{out} is there already; choose another --out, or remove it")
        if not out.parent.is_dir():
            raise ArtifactError(f"{out.parent} is no directory; make it, or choose another --out")
        return out
    rounds = PLAN.read(history.root)["plan"]["rounds"]
    if history.newest.round_index >= rounds:
        raise ArtifactError(
            f"{history.root} has finished its {rounds} rounds, so no gate would take the text; write it with --out "
            "FILE and start a run from it with coldstart.draft=FILE"
        )
    path = NEXT_SKILL.path(history.root)
    if path.exists():
        raise ArtifactError(f"{path} waits for the next round already; remove it first, or write to --out FILE")
    return path
