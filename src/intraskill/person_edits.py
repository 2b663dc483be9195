"""A skill edited by hand in the middle of a run: picked up at the next gate, and tested there like any other edit.

Whoever wants to change the skill of a run writes the whole document to ``RUN/next_skill.md``. The next gate that has
not begun takes the file in (and keeps it as ``round_k/person_skill.md``), compares it chunk by chunk with the sealed
skill that it was made from, and tests what differs: the firewall and the gate decide, nobody else. A first line such
as ``<!-- changes round_003 -->`` says which one; without it, it is the sealed skill that differs least.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from intraskill.assembly import Run
from intraskill.earlier_rounds import round_number, skill_at
from intraskill.method.edits import Edit
from intraskill.method.errors import ArtifactError, SkillFormatError, counted, offenders
from intraskill.method.gate import Fate
from intraskill.method.likeness import alike, terms_of
from intraskill.method.proposals import PERSON, Ledger, Proposal
from intraskill.method.skill import Chunk, ChunkId, Skill, parse_skill
from intraskill.method.skill_changes import changes
from intraskill.run_sizes import NUISANCE_COLUMNS
from intraskill.runtime.records import from_json, to_json
from intraskill.runtime.run_directory import (
    DONE,
    file_hash,
    finished_rounds,
    read_json,
    read_text,
    verify,
    write_json,
    write_text,
)
from intraskill.runtime.sieve import Refusal

NEXT_SKILL = "next_skill.md"
ARCHIVE = "person_skill.md"
RECORD = "person_edits.json"
_CHANGES = re.compile(r"\A<!-- changes (round_\d+) -->\s*")


@dataclass(frozen=True, slots=True)
class PersonsEdits:
    """What became of one file of a person.

    Attributes:
        base: name of the sealed round whose skill it was made from.
        proposals: go to the gate.
        refused: what the firewall refused.
        notes: what cannot be tested, in words.
    """

    base: str
    proposals: tuple[Proposal, ...]
    refused: tuple[Refusal, ...]
    notes: tuple[str, ...]


def next_skill_text(base: str, skill: Skill) -> str:
    """Return a ``next_skill.md`` that names the sealed round whose skill it changes."""
    return f"<!-- changes {base} -->\n\n{skill.to_markdown()}"


def with_persons_edits(
    run: Run, directory: Path, skill: Skill, proposals: tuple[Proposal, ...], ledger: Ledger
) -> tuple[tuple[Proposal, ...], Ledger]:
    """Put a person's edits before the round's proposals; they come on top of ``proposer.max_candidates``.

    A proposal of the analyst that touches the same chunk, says the same, gives something away beside them, or finds no
    room among the gate's tasks, waits for a later round.

    Args:
        run: the run.
        directory: the round's directory.
        skill: S_t.
        proposals: the round's own.
        ledger: every proposal so far.

    Returns:
        The proposals for the gate, and the ledger with what was turned away before it.
    """
    found = _picked_up(run, directory, skill)
    if found is None:
        return proposals, ledger
    round_index = round_number(directory)
    for refusal in found.refused:
        ledger = ledger.record(round_index, refusal.proposal, Fate.FIREWALL, refusal.reason)
    own = [chunk for proposal in found.proposals for chunk in proposal.chunks]
    beside = [
        proposal
        for proposal in proposals
        if not _meet(proposal, found.proposals) and not run.firewall.inspect_together(proposal.chunks, own)
    ]
    room = _room(run, skill) - sum(len(proposal.chunks) for proposal in found.proposals)
    kept: list[Proposal] = []
    for proposal in beside:
        if sum(len(other.chunks) for other in (*kept, proposal)) <= room:
            kept.append(proposal)
    for proposal in proposals:
        if proposal not in kept:
            ledger = ledger.record(round_index, proposal, Fate.WAITING, "a person's edit goes first")
    run.monitor.say(
        f"{directory.name}: {counted(len(found.proposals), 'edit')} of a person's {NEXT_SKILL} in this gate, on top of "
        f"max_candidates, beside {len(kept)} of the analyst's; {len(found.refused)} refused by the firewall, "
        f"{len(proposals) - len(kept)} of the analyst's wait"
    )
    return (*found.proposals, *kept), ledger


def say_unread(run: Run) -> None:
    """Say that a file was left over at the end of a run; it stays where it is."""
    if (run.root / NEXT_SKILL).exists():
        run.monitor.say(f"{run.root / NEXT_SKILL} was not tested: no round follows. Start a run with it as its draft")


def verify_round(directory: Path) -> None:
    """Verify a sealed round; a ``skill.md`` that was moved away is written again from the decision.

    Raises:
        ArtifactError: naming the files that changed, and how to edit a skill properly when it is among them.
    """
    path, files = directory / "skill.md", read_json(directory / DONE)
    decided = directory / "decision.json"
    if not path.exists() and decided.exists() and "skill.md" in files:
        write_text(path, from_json(Skill, read_json(decided)["skill"], decided).to_markdown())
    try:
        verify(directory)
    except ArtifactError as error:
        if "skill.md" not in files or file_hash(path) == files["skill.md"]:
            raise
        raise ArtifactError(
            f"{error}. To change the skill of a run, move your text to {directory.parent / NEXT_SKILL} "
            f"(mv {path} {directory.parent / NEXT_SKILL}) and run the same command again: the round's own text is "
            "written back, and yours goes through the next gate"
        ) from error


def _picked_up(run: Run, directory: Path, skill: Skill) -> PersonsEdits | None:
    """Return the edits of this round's file; a file is moved whole, and never into a gate that has begun."""
    archive, record, dropped = directory / ARCHIVE, directory / RECORD, run.root / NEXT_SKILL
    if record.exists():
        return from_json(PersonsEdits, read_json(record), record)
    if not archive.exists():
        if not dropped.exists() or (directory / "masks.json").exists():
            return None
        try:
            found = _edits_of(run, skill, read_text(dropped))
        except (SkillFormatError, ArtifactError) as error:
            run.monitor.say(f"{dropped} stays where it is, and this round goes on without it: {error}")
            return None
        if sum(len(proposal.chunks) for proposal in found.proposals) > _room(run, skill):
            run.monitor.say(f"{dropped} stays where it is: it adds more chunks than this gate's tasks can tell apart")
            return None
        dropped.replace(archive)
    found = _edits_of(run, skill, read_text(archive))
    write_json(record, to_json(found))
    for note in found.notes:
        run.monitor.say(f"{directory.name}: {note}")
    return found


def _edits_of(run: Run, skill: Skill, text: str) -> PersonsEdits:
    """Compare with the skill named, else the one that differs least, the latest of equals; carry the changes to S_t."""
    named, wanted = _CHANGES.match(text), parse_skill(_CHANGES.sub("", text))
    if empty := [chunk.title for chunk in wanted.chunks if not chunk.body and chunk.id not in skill.ids]:
        raise SkillFormatError(
            f"chunks without text, {offenders(empty)}; write some under each heading, or take it out"
        )
    sealed = {path.name: skill_at(path) for path in finished_rounds(run.root)}
    base = min(reversed(sealed), key=lambda name: len(set(sealed[name].ids) ^ set(wanted.ids)))
    base = named[1] if named and named[1] in sealed else base
    notes: list[str] = []
    proposals: list[Proposal] = []
    refused: list[Refusal] = []
    for edit in changes(sealed[base], wanted):
        gone = [chunk_id for chunk_id in edit.removes if chunk_id not in skill.ids]
        adds = tuple(chunk for chunk in edit.adds if chunk.id not in skill.ids)
        removes = tuple(chunk_id for chunk_id in edit.removes if chunk_id not in gone)
        if gone:
            notes.append(f"{', '.join(gone)} had left the skill after {base}")
        if len(adds) < len(edit.adds):
            notes.append(f"{', '.join(c.title for c in edit.adds if c not in adds)}: already in the skill")
        for one in _tested(removes, adds):
            proposal = Proposal(one.op, one.removes, one.adds, "a person's edit", (PERSON,))
            beside = [chunk for other in proposals for chunk in other.chunks]
            if found := run.firewall.inspect_edit(one.adds, skill, one.removes, beside):
                refused.append(Refusal(proposal, found))
            else:
                proposals.append(proposal)
    if wanted.preamble != sealed[base].preamble:
        notes.append("the preamble is no chunk, so no gate can test it: it stays as it was")
    if not proposals and not refused:
        notes.append(f"{NEXT_SKILL} says what the skill of {base} says: nothing to test")
    return PersonsEdits(base, tuple(proposals), tuple(refused), tuple(notes))


def _tested(removes: tuple[ChunkId, ...], adds: tuple[Chunk, ...]) -> list[Edit]:
    """Return the edit, or one edit per chunk when only one of its sides is left over."""
    if removes and adds:
        return [Edit(removes, adds)]
    return [*(Edit((chunk_id,), ()) for chunk_id in removes), *(Edit((), (chunk,)) for chunk in adds)]


def _meet(proposal: Proposal, others: Sequence[Proposal]) -> bool:
    """Whether a proposal touches a chunk that one of the others touches, or adds what one of them says."""
    for other in others:
        if set(proposal.targets) & set(other.targets):
            return True
        if any(alike(terms_of([a.body]), terms_of([b.body])) for a in proposal.chunks for b in other.chunks):
            return True
    return False


def _room(run: Run, skill: Skill) -> int:
    """Return how many candidate chunks the gate's tasks can tell apart beside those of the skill."""
    gate = run.config.gate
    tasks = len(run.tasks("skill_validation", gate.tasks))
    return tasks - len(skill.chunks) - gate.placebos - NUISANCE_COLUMNS[gate.estimator] - 1
