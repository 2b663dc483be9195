"""A person in the loop: edits made by hand between rounds, and ``--review``, which asks about every proposal.

The round's directory gets ``proposals.md``, to read, and ``review.yaml``, to fill in. Once every answer is there the
same command puts them into ``review.json`` and goes on; from then on they are an artifact of the round like any other.
"""

import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from intraskill.config.quoting import shown
from intraskill.method.errors import (
    ArtifactError,
    ConfigError,
    EditError,
    SkillFormatError,
    WaitsForPerson,
    counted,
    offenders,
)
from intraskill.method.gate.rules import Fate
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.edits import Edit, changes, check_edits
from intraskill.method.skill.likeness import alike, terms_of
from intraskill.method.skill.proposals import PERSON, Ledger, Proposal
from intraskill.method.skill.skill import Chunk, ChunkId, Skill, parse_skill
from intraskill.rounds.earlier_rounds import round_number
from intraskill.rounds.run import Run
from intraskill.rounds.sizes import NUISANCE_COLUMNS
from intraskill.store.artifacts import (
    ANSWERS,
    ANSWERS_TO_FILL_IN,
    DECISION,
    MASKS,
    NEXT_SKILL,
    PERSONS_EDITS,
    PERSONS_SKILL,
    PROPOSALS_TO_READ,
    SKILL,
)
from intraskill.store.contents import PersonsEdits, PersonsReview, Refusal, ReviewAnswer, Word
from intraskill.store.run_directory import file_hash, finished_rounds, sealed_hashes, verify, write_text
from intraskill.store.user_files import read_user_text

_CHANGES = re.compile(r"\A<!-- changes (round_\d+) -->\s*")


def next_skill_text(base: str, skill: Skill) -> str:
    """Return a ``next_skill.md`` that names the sealed round whose skill it changes."""
    return f"<!-- changes {base} -->\n\n{skill.to_markdown()}"


def with_persons_edits(
    run: Run, directory: Path, skill: Skill, proposals: tuple[Proposal, ...], ledger: Ledger
) -> tuple[tuple[Proposal, ...], Ledger]:
    """Put a person's edits before the round's proposals; they come on top of ``proposer.max_candidates``.

    One of the proposer's that touches the same chunk, says the same, or finds no room among the gate's tasks, waits
    for a later round.

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
        ledger = ledger.record(round_index, refusal.proposal, Fate.LEAK_FILTER, refusal.reason)
    beside = [proposal for proposal in proposals if not _meet(proposal, found.proposals)]
    room = _room(run, skill) - sum(len(proposal.chunks) for proposal in found.proposals)
    kept: list[Proposal] = []
    for proposal in beside:
        if sum(len(other.chunks) for other in (*kept, proposal)) <= room:
            kept.append(proposal)
    for proposal in proposals:
        if proposal not in kept:
            ledger = ledger.record(round_index, proposal, Fate.WAITING, "a person's edit goes first")
    run.monitor.say(
        f"{directory.name}: {counted(len(found.proposals), 'edit')} of a person's {NEXT_SKILL.name} in this gate, "
        f"on top of max_candidates, beside {len(kept)} of the proposer's; {len(found.refused)} refused by the leak "
        f"filter, {len(proposals) - len(kept)} of the proposer's wait"
    )
    return (*found.proposals, *kept), ledger


def say_unread(run: Run) -> None:
    """Say that a file was left over at the end of a run; it stays where it is."""
    if NEXT_SKILL.exists(run.root):
        run.monitor.say(
            f"{NEXT_SKILL.path(run.root)} was not tested: no round follows. Start a run with it as its draft"
        )


def verify_round(directory: Path) -> None:
    """Verify a sealed round; a ``skill.md`` that was moved away is written again from the decision.

    Raises:
        ArtifactError: naming the files that changed, and how to edit a skill properly when it is among them.
    """
    path, files = SKILL.path(directory), sealed_hashes(directory)
    if not path.exists() and DECISION.exists(directory) and SKILL.name in files:
        SKILL.write(directory, DECISION.read(directory).skill)
    try:
        verify(directory)
    except ArtifactError as error:
        if SKILL.name not in files or file_hash(path) == files[SKILL.name]:
            raise
        dropped = NEXT_SKILL.path(directory.parent)
        raise ArtifactError(
            f"{error}. To change the skill of a run, move your text to {dropped} (mv {path} {dropped}) "
            "and run the same command again: the round's own text is written back, and yours goes through the next gate"
        ) from error


def _picked_up(run: Run, directory: Path, skill: Skill) -> PersonsEdits | None:
    """Return the edits of this round's file; a file is moved whole, and never into a gate that has begun."""
    dropped = NEXT_SKILL.path(run.root)
    if PERSONS_EDITS.exists(directory):
        return PERSONS_EDITS.read(directory)
    if not PERSONS_SKILL.exists(directory):
        if not dropped.exists() or MASKS.exists(directory):
            return None
        try:
            found = _edits_of(run, skill, read_user_text(dropped))
        except (SkillFormatError, ArtifactError) as error:
            run.monitor.say(f"{dropped} stays where it is, and this round goes on without it: {error}")
            return None
        if sum(len(proposal.chunks) for proposal in found.proposals) > _room(run, skill):
            run.monitor.say(f"{dropped} stays where it is: it adds more chunks than this gate's tasks can tell apart")
            return None
        dropped.replace(PERSONS_SKILL.path(directory))
    found = _edits_of(run, skill, read_user_text(PERSONS_SKILL.path(directory)))
    PERSONS_EDITS.write(directory, found)
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
    sealed = {path.name: SKILL.read(path) for path in finished_rounds(run.root)}
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
            leaks, remarks = run.leak_filter.inspect_persons_edit(one.adds, skill, one.removes, beside)
            notes += remarks
            if leaks:
                refused.append(Refusal(proposal, leaks))
            else:
                proposals.append(proposal)
    if wanted.preamble != sealed[base].preamble:
        notes.append("the preamble is no chunk, so no gate can test it: it stays as it was")
    if not proposals and not refused:
        notes.append(f"{NEXT_SKILL.name} says what the skill of {base} says: nothing to test")
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


WORDS: dict[Any, Word] = {"yes": "yes", True: "yes", "no": "no", False: "no", "edit": "edit"}
"""YAML reads a bare yes or no as a truth value."""
HEAD = """\
# One answer per proposal: yes, no or edit. proposals.md shows what each would change.
# edit: change the text under chunks; the leak filter reads it again. reason is yours, and is kept with a no or an edit.
# Then run the same command again.
"""


def reviewed(
    run: Run, directory: Path, skill: Skill, proposals: tuple[Proposal, ...], ledger: Ledger
) -> tuple[tuple[Proposal, ...], Ledger]:
    """Return the proposals that a person lets through, and the ledger with what the person refused.

    A person's own edits are not asked about. Without ``review`` nothing is asked, and answers that were given before
    hold.

    Raises:
        WaitsForPerson: while answers are missing.
        ConfigError: for answers that make no sense, or a text that the leak filter refuses.
    """
    asked = [proposal for proposal in proposals if proposal.origin != PERSON]
    if not ANSWERS.exists(directory):
        if not (run.config.review and asked):
            return proposals, ledger
        if MASKS.exists(directory):
            run.monitor.say(f"{directory.name}: its gate began before --review; the next round will be asked about")
            return proposals, ledger
        ANSWERS.write(directory, _answers(run, directory, skill, proposals, asked))
    answers = {answer.edit_id: answer for answer in ANSWERS.read(directory).answers}
    round_index = round_number(directory) if directory.name.startswith("round_") else 0
    kept: list[Proposal] = []
    for proposal in proposals:
        answer = answers.get(proposal.to_edit().id)
        if answer is None or answer.word == "yes":
            kept.append(proposal)
            continue
        why = answer.reason or "no reason given"
        if answer.word == "edit":
            kept.append(_edited(proposal, answer.chunks))
            why = f"rewritten as {kept[-1].to_edit().id}: {why}"
        ledger = ledger.record(round_index, proposal, Fate.REFUSED_BY_PERSON, why)
    return tuple(kept), ledger


def _answers(
    run: Run, directory: Path, skill: Skill, proposals: Sequence[Proposal], asked: Sequence[Proposal]
) -> PersonsReview:
    path = ANSWERS_TO_FILL_IN.path(directory)
    if not path.exists():
        PROPOSALS_TO_READ.write(directory, readable(directory.name, skill, proposals))
        write_text(path, blank_answers(asked))
    answers = read_answers(path, asked)
    if missing := [edit_id for edit_id, answer in answers.items() if answer is None]:
        raise WaitsForPerson(
            f"{len(missing)} of {counted(len(asked), 'proposal')} of {directory.name} "
            f"{'waits' if len(missing) == 1 else 'wait'} for your answer: read "
            f"{PROPOSALS_TO_READ.path(directory)}, fill in {path}, and run the same command again",
            lambda: ask_in_terminal(path, asked, input),
        )
    given = [answer for answer in answers.values() if answer is not None]
    for remark in _check(run.leak_filter, path, skill, proposals, {answer.edit_id: answer for answer in given}):
        run.monitor.say(f"{directory.name}: {remark}")
    return PersonsReview(tuple(given))


def _edited(proposal: Proposal, chunks: tuple[Chunk, ...]) -> Proposal:
    return replace(proposal, chunks=chunks, support=(*proposal.support, PERSON))


def _check(
    leak_filter: LeakFilter,
    path: Path,
    skill: Skill,
    proposals: Sequence[Proposal],
    answers: Mapping[str, ReviewAnswer],
) -> list[str]:
    """Refuse edited texts that give an answer away, or contradict the skill or one another; return what else to say."""
    edits: list[Edit] = []
    remarks: list[str] = []
    going_on = {p.to_edit().id: p.chunks for p in proposals}
    going_on |= {name: answer.chunks for name, answer in answers.items() if answer.word != "yes"}
    for proposal in proposals:
        answer = answers.get(proposal.to_edit().id)
        if answer is not None and answer.word == "no":
            continue
        if answer is not None and answer.word == "edit":
            beside = [chunk for name, chunks in going_on.items() if name != answer.edit_id for chunk in chunks]
            found, kept = leak_filter.inspect_persons_edit(answer.chunks, skill, proposal.targets, beside)
            remarks += kept
            if found:
                raise ConfigError(
                    f"{path}: the leak filter refuses your text of {answer.edit_id} for {offenders(found)}; change it"
                )
        try:
            edits.append((_edited(proposal, answer.chunks) if answer and answer.word == "edit" else proposal).to_edit())
            check_edits(skill, edits)
        except EditError as error:
            raise ConfigError(f"{path}: your text of {proposal.to_edit().id} does not fit: {error}") from error
    return remarks


def readable(round_name: str, skill: Skill, proposals: Sequence[Proposal]) -> str:
    """Return the proposals of a round for a person: what each would change, why, and how many rollouts say so."""
    by_id = {chunk.id: chunk for chunk in skill.chunks}
    parts = [f"# Proposals of {round_name}", f"{len(proposals)} for the gate. Answer in {ANSWERS_TO_FILL_IN.name}."]
    for number, proposal in enumerate(proposals, start=1):
        old = [line for target in proposal.targets for line in by_id[target].render().splitlines()]
        new = [line for chunk in proposal.chunks for line in chunk.render().splitlines()]
        lines = list(difflib.unified_diff(old, new, lineterm="", n=len(old) + len(new)))[3:]
        fence = "`" * (3 + max((len(line) - len(line.lstrip("`")) for line in (*old, *new)), default=0))
        support = counted(len(proposal.support), "rollout")
        whose = "a person's own, not asked about" if proposal.origin == PERSON else support
        parts += [
            f"## {number}. {proposal.op} `{proposal.to_edit().id}`",
            f"Cause: {proposal.root_cause}\nExpected: {proposal.expected_effect or 'not said'}\nSupport: {whose}",
            "\n".join([f"{fence}diff", *lines, fence]),
        ]
    return "\n\n".join(parts) + "\n"


def blank_answers(proposals: Sequence[Proposal], given: Mapping[str, str] | None = None) -> str:
    """Return ``review.yaml`` with an empty place, or the word given so far, for every answer."""
    lines = [HEAD]
    for proposal in proposals:
        edit_id = proposal.to_edit().id
        lines += [f"- edit: {edit_id}", f"  answer: {(given or {}).get(edit_id, '')}".rstrip(), "  reason:"]
        if proposal.chunks:
            text = "\n\n".join(chunk.render() for chunk in proposal.chunks)
            lines += ["  chunks: |2", *(f"    {line}" if line else "" for line in text.split("\n"))]
        lines.append("")
    return "\n".join(lines)


def read_answers(path: Path, proposals: Sequence[Proposal]) -> dict[str, ReviewAnswer | None]:
    """Read a person's answers by edit id, ``None`` where none is given yet.

    Raises:
        ConfigError: for a file that is not a list with one entry per proposal, or an answer that makes no sense.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        rows = yaml.safe_load(read_user_text(path))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"{path} is not YAML ({' '.join(str(error).split())}); mend it, or delete it to begin anew"
        ) from error
    by_id = {proposal.to_edit().id: proposal for proposal in proposals}
    found = [row.get("edit") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if sorted(map(str, found)) != sorted(by_id):
        raise ConfigError(
            f"{path} must hold one entry for each of {offenders(sorted(by_id))}; mend it, or delete it to begin anew"
        )
    return {row["edit"]: _answer(f"{path}: {row['edit']}", row, by_id[row["edit"]]) for row in rows}


def _answer(where: str, row: Mapping[str, Any], proposal: Proposal) -> ReviewAnswer | None:
    given = row.get("answer")
    if given is None or given == "":
        return None
    word = WORDS.get(given.strip().lower() if isinstance(given, str) else given)
    if word is None:
        raise ConfigError(f"{where}: the answer {given!r} is not yes, no or edit")
    try:
        written = parse_skill(str(row.get("chunks") or ""))
    except SkillFormatError as error:
        raise ConfigError(f"{where}: {error}") from error
    chunks = written.chunks
    if written.preamble.strip():
        raise ConfigError(
            f"{where}: {len(written.preamble)} characters under chunks stand before the first '### title' and would be "
            "lost; move them below it"
        )
    if (chunks != proposal.chunks) != (word == "edit") and word != "no":
        changed = "changes nothing in" if word == "edit" else "says yes but changes"
        raise ConfigError(f"{where} {changed} the text under chunks; answer edit to change it, yes to leave it")
    reason = str(row.get("reason") or "").strip()
    if word != "edit":
        return ReviewAnswer(proposal.to_edit().id, word, reason)
    try:
        _edited(proposal, chunks)
    except EditError as error:
        raise ConfigError(f"{where}: an edited {proposal.op} must stay one: {error}") from error
    return ReviewAnswer(proposal.to_edit().id, word, reason, chunks)


def ask_in_terminal(path: Path, proposals: Sequence[Proposal], ask: Callable[[str], str]) -> bool:
    """Ask for one answer after the other and write them to the file; return whether every one is yes or no.

    Whoever wants to edit a text, or stops, goes on in the file.
    """
    sys.stdout.write(shown(PROPOSALS_TO_READ.read(path.parent)))
    given: dict[str, str] = {}
    for proposal in proposals:
        edit_id = proposal.to_edit().id
        try:
            word = ask(f"{edit_id}: yes, no or edit? ").strip().lower()
        except EOFError:
            break
        given[edit_id] = {"y": "yes", "n": "no", "e": "edit"}.get(word, word)
    words = {edit_id: word for edit_id, word in given.items() if word in ("yes", "no", "edit")}
    write_text(path, blank_answers(proposals, words))
    complete = len(words) == len(proposals) and "edit" not in words.values()
    if not complete:
        sys.stdout.write(shown(f"The rest is yours in {path}; then run the same command again\n"))
    return complete
