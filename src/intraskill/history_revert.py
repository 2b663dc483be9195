"""Take a skill, or one chunk of it, back to an earlier version: as a person's edit of the next round, or as a file.

Weights, skill and exposure belong together and sealed rounds stay as they are, so nothing is undone: the old text
becomes a candidate and has to pass the gate at the present checkpoint.
"""

from dataclasses import dataclass
from pathlib import Path

from intraskill.history import History, Version
from intraskill.history_diff import Change, SkillDiff, diff_versions
from intraskill.method.errors import ArtifactError
from intraskill.method.skill import Chunk, Skill
from intraskill.person_edits import NEXT_SKILL, next_skill_text
from intraskill.runtime.run_directory import read_json, write_text


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
    rounds = read_json(history.root / "plan.json")["plan"]["rounds"]
    if history.newest.round_index >= rounds:
        raise ArtifactError(
            f"{history.root} has finished its {rounds} rounds, so no gate would take the text; write it with --out "
            "FILE and start a run from it with coldstart.draft=FILE"
        )
    path = history.root / NEXT_SKILL
    if path.exists():
        raise ArtifactError(f"{path} waits for the next round already; remove it first, or write to --out FILE")
    return path
