"""Who wrote which line of a skill: the first edit, along the chain of REWRITE, MERGE and SPLIT, whose text holds it."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path

from intraskill.config.config import GateConfig
from intraskill.config.quoting import command
from intraskill.method.errors import ArtifactError, offenders
from intraskill.method.gate.decision import Decision
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.rules import Fate
from intraskill.method.gate.simultaneous import sides
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.proposals import PERSON, LedgerEntry
from intraskill.method.skill.skill import Chunk, ChunkId, Skill
from intraskill.rounds.earlier_rounds import rounds_before
from intraskill.store.artifacts import (
    CONTRIBUTIONS,
    CURRICULUM,
    DECISION,
    DRAFT,
    EDITS,
    LEDGER,
    PERSONS_EDITS,
    PLAN,
    ROUND,
    SKILL,
)
from intraskill.store.contents import RoundRow
from intraskill.store.run_directory import verify

_SHORTEST_PREFIX = 4
"""Characters of a hash or chunk id that name it; fewer would often be a round's number."""


@dataclass(frozen=True, slots=True)
class TriedEdit:
    """An edit that met a gate; at round 0 every draft chunk counts as an ADD.

    Attributes:
        round_index: t of the gate.
        edit: both sides, with its support.
        taken: whether the skill holds its new side, or lacks what it deletes.
        fate: what became of it.
        reason: the same in words, with the numbers.
        author: ``draft`` for text that the run was started with, ``person``, or the proposer's name.
        calls: ids of the proposer calls behind it.
    """

    round_index: int
    edit: Edit
    taken: bool
    fate: Fate
    reason: str
    author: str
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turned:
    """A proposal that never met the gate.

    Attributes:
        entry: its line of the ledger.
        titles: of its new chunks, where the round still holds them.
        author: ``person``, or the proposer's name.
    """

    entry: LedgerEntry
    titles: tuple[str, ...]
    author: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What one gate measured of one chunk: β̂ ± SE in reward units, over ``pairs`` pairs, in round ``round_index``."""

    round_index: int
    beta: float
    se: float
    pairs: int


@dataclass(frozen=True, eq=False)
class Version:
    """The skill that one sealed round committed.

    Attributes:
        round_index: t.
        directory: of the round.
        skill: S_t.
        chunks: the texts that its gate saw, by id.
        edits: those that its gate tested.
        turned: proposals that did not get so far.
        decision: of the gate.
        contributions: of the gate.
        exposure: ρ of every chunk of the skill.
        row: the round's line of ``summary.json``.
    """

    round_index: int
    directory: Path
    skill: Skill
    chunks: Mapping[ChunkId, Chunk]
    edits: tuple[TriedEdit, ...]
    turned: tuple[Turned, ...]
    decision: Decision
    contributions: Contributions
    exposure: Mapping[ChunkId, float]
    row: RoundRow

    @property
    def left(self) -> tuple[ChunkId, ...]:
        """Chunks of the old skill that left by themselves, not on the old side of an edit that was taken."""
        replaced = {chunk_id for tried in self.edits if tried.taken for chunk_id in tried.edit.removes}
        drafts = {chunk_id for tried in self.edits for chunk_id in tried.edit.added_ids}
        return tuple(i for i in self.decision.retired if i not in replaced and i not in drafts)

    @cached_property
    def measured(self) -> Mapping[ChunkId, Measured]:
        """What its gate measured, by chunk."""
        found = self.contributions
        numbers = zip(found.chunk_ids, found.beta_J.tolist(), found.se_J.tolist(), strict=True)
        return {i: Measured(self.round_index, beta, se, found.num_pairs) for i, beta, se in numbers}


@dataclass(frozen=True, eq=False)
class History:
    """Every sealed version of a run's skill, oldest first."""

    root: Path
    versions: tuple[Version, ...]

    @property
    def newest(self) -> Version:
        """The version of the last sealed round."""
        return self.versions[-1]

    @cached_property
    def negligible(self) -> float:
        """``gate.negligible`` of the run, reward units; the default in runs from before there was one."""
        plan = PLAN.read(self.root)["plan"] if PLAN.exists(self.root) else {}
        return float(plan.get("gate.negligible", GateConfig().negligible))

    @cached_property
    def _sides(self) -> dict[int, Mapping[str, tuple[ChunkId, ...]]]:
        return {}

    def sides_of(self, version: Version) -> Mapping[str, tuple[ChunkId, ...]]:
        """Return what a gate may say of its chunks by name; worked out once, since it is simulated."""
        if version.round_index not in self._sides:
            self._sides[version.round_index] = sides(version.contributions, self.negligible)
        return self._sides[version.round_index]

    @cached_property
    def chunks(self) -> Mapping[ChunkId, Chunk]:
        """Every chunk that a gate of the run has seen."""
        return {chunk_id: chunk for version in self.versions for chunk_id, chunk in version.chunks.items()}

    def before(self, version: Version) -> Version | None:
        """Return the version that came just before."""
        earlier = self.until(version)[:-1]
        return earlier[-1] if earlier else None

    def until(self, version: Version) -> tuple[Version, ...]:
        """Return the versions up to and with this one, oldest first."""
        return tuple(one for one in self.versions if one.round_index <= version.round_index)

    def find(self, key: str) -> Version | Chunk:
        """Return what a round (``3``, ``round_003``), a skill hash or a chunk id, or a prefix of one, names.

        A skill that stayed the same over several rounds is found at the first of them.

        Raises:
            ArtifactError: when nothing, or more than one thing, has that name; with the nearest names.
        """
        number = re.fullmatch(r"(?:round_)?(\d{1,3})", key)
        for version in self.versions if number else ():
            if number and version.round_index == int(number[1]):
                return version
        found: dict[str, Version | Chunk] = {}
        for version in reversed(self.versions):
            found[version.skill.hash] = version
        found |= self.chunks
        names = [name for name in found if _is_named(name, key)] if len(key) >= _SHORTEST_PREFIX else []
        if len(names) == 1 or key in found:
            return found[key] if key in found else found[names[0]]
        if names:
            raise ArtifactError(f"{key!r} names {offenders(names)} of {self.root}; write more of the one that you mean")
        raise ArtifactError(f"{self.root} has no version and no chunk {key!r}{self._nearest(key, found)}")

    def chunk(self, key: str, version: Version | None = None) -> Chunk:
        """Return a chunk by id, prefix, hash or title; of several with one title the one in ``version``, or the last.

        Raises:
            ArtifactError: when there is none, with the nearest names.
        """
        titled = [chunk for chunk in self.chunks.values() if chunk.title.lower() == key.lower()]
        present = [chunk for chunk in titled if version is not None and chunk.id in version.skill.ids]
        if titled:
            return (present or titled)[-1]
        found = self.find(key)
        if isinstance(found, Chunk):
            return found
        raise ArtifactError(
            f"{key!r} is a version, not a chunk of {self.root}; `{command('skill', 'log', self.root)}` lists chunks"
        )

    def _nearest(self, key: str, found: Mapping[str, object]) -> str:
        titles = [chunk.title for chunk in self.chunks.values()]
        rounds = [version.directory.name for version in self.versions]
        begins = {name[: len(key)].lower(): name for name in (*found, *titles, *rounds)}  # a key may be a prefix
        near = difflib.get_close_matches(key.lower(), begins, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(repr(begins[start]) for start in near)}?" if near else ""
        return f"{hint}; its rounds are {rounds[0]} to {rounds[-1]}, `{command('skill', 'log', self.root)}` shows all"


def read_history(root: Path) -> History:
    """Read the history of a run from its sealed rounds; every file is compared with its seal first.

    Raises:
        ArtifactError: for a path that is no run, a run without a finished round, or a file that changed.
    """
    rounds = rounds_before(root)
    if not rounds:
        run = PLAN.exists(root)
        raise ArtifactError(
            f"{root} has no finished round yet; its skill has a history once round_000 is sealed"
            if run
            else f"{root} is no run directory: it holds no plan.json and no finished round"
        )
    versions: list[Version] = []
    for number, directory in rounds:
        versions.append(_read_version(number, directory, versions[-1].skill if versions else None))
    return History(root, tuple(versions))


def _read_version(number: int, directory: Path, before: Skill | None) -> Version:
    read = (SKILL, DECISION, CONTRIBUTIONS, CURRICULUM, LEDGER, EDITS, PERSONS_EDITS, ROUND, DRAFT)
    verify(directory, *(artifact.name for artifact in read))
    decision, source, ledger = DECISION.read(directory), EDITS.read(directory), LEDGER.read(directory)
    persons = PERSONS_EDITS.read(directory).refused if PERSONS_EDITS.exists(directory) else ()
    proposals = source.proposals
    turned = [refusal.proposal for refusal in (*source.refused, *persons)]
    turned += [blocked.proposal for blocked in source.blocked]
    entries = [entry for entry in ledger.entries if entry.round_index == number]
    if before is None:
        before = DRAFT.read(directory)
        edits = tuple(_draft(chunk, decision, entries, source.analyst) for chunk in before.chunks)
    else:
        taken = {edit.id for edit in decision.taken}
        edits = tuple(
            _tried(number, edit, edit.id in taken, decision, source.analyst)
            for edit in (*decision.taken, *decision.refused)
        )
    calls = {proposal.to_edit().id: proposal.calls for proposal in proposals}
    edits = tuple(replace(tried, calls=calls.get(tried.edit.id, ())) for tried in edits)
    met = {tried.edit.id for tried in edits}
    titles = {p.to_edit().id: tuple(chunk.title for chunk in p.chunks) for p in (*proposals, *turned)}
    return Version(
        number,
        directory,
        SKILL.read(directory),
        {chunk.id: chunk for chunk in (*before.chunks, *(chunk for tried in edits for chunk in tried.edit.adds))},
        edits,
        tuple(
            Turned(entry, titles.get(entry.edit_id, ()), PERSON if entry.origin == PERSON else source.analyst)
            for entry in entries
            if entry.edit_id not in met
        ),
        decision,
        CONTRIBUTIONS.read(directory),
        CURRICULUM.read(directory).exposure,
        ROUND.read(directory),
    )


def _draft(chunk: Chunk, decision: Decision, entries: list[LedgerEntry], proposer: str) -> TriedEdit:
    """Return a draft chunk as the ADD that it was; what no ledger entry accounts for came with the run's start."""
    edit = Edit((), (chunk,))
    entry = next((entry for entry in entries if entry.edit_id == edit.id), None)
    taken = chunk.id in decision.skill.ids
    if entry is None:
        return TriedEdit(0, edit, taken, decision.fates[chunk.id], decision.reasons[chunk.id], "draft")
    edit = replace(edit, support=entry.support)
    return replace(_tried(0, edit, taken, decision, proposer), fate=entry.fate, reason=entry.reason)


def _tried(number: int, edit: Edit, taken: bool, decision: Decision, proposer: str) -> TriedEdit:
    author = PERSON if PERSON in edit.support else proposer
    key = edit.id if edit.id in decision.fates else edit.added_ids[0]
    return TriedEdit(number, edit, taken, decision.fates[key], decision.reasons[key], author)


def _is_named(name: str, key: str) -> bool:
    """Whether ``key`` begins a name, or the hash at its end."""
    return name.startswith(key) or name.rpartition("-")[2].startswith(key)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line came into the skill.

    Attributes:
        round_index: t.
        edit: the edit whose text first held it; ``None`` in the preamble, which no gate tests.
        chunk_id: chunk of that edit; ``""`` in the preamble.
    """

    round_index: int
    edit: TriedEdit | None = None
    chunk_id: ChunkId = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a version's document.

    Attributes:
        number: from 1.
        text: without its line feed.
        chunk_id: chunk of the version that holds it, ``""`` for the preamble.
        origin: where it came from. A blank line goes with the line after it.
    """

    number: int
    text: str
    chunk_id: ChunkId
    origin: Origin


def blame(history: History, version: Version) -> tuple[Line, ...]:
    """Return every line of `Skill.to_markdown` once, in order."""
    preamble = version.skill.preamble.split("\n") if version.skill.preamble else []
    rows = [(text, "", origin) for text, origin in zip(preamble, _preamble(history, version), strict=True)]
    for chunk in version.skill.chunks:
        lines, origins = _text(chunk), _origins(history, version, chunk)
        if rows:
            rows.append(("", chunk.id, origins[0]))
        rows += [(text, chunk.id, origin) for text, origin in zip(lines, origins, strict=True)]
    return tuple(Line(number, *row) for number, row in enumerate(rows or [("", "", Origin(0))], start=1))


def _origin_of(history: History, version: Version, chunk_id: ChunkId) -> TriedEdit:
    """Return the edit that put a chunk of a version there; for one that left and came back, the later one.

    Raises:
        ArtifactError: when no edit accounts for it.
    """
    for one in reversed(history.until(version)):
        made = [tried for tried in one.edits if chunk_id in tried.edit.added_ids]
        earlier = history.before(one)
        if earlier is None or chunk_id not in earlier.skill.ids:
            if made:
                return made[0]
            break
    raise ArtifactError(f"no edit of {history.root} put chunk {chunk_id} into {SKILL.path(version.directory)}")


def last_measured(history: History, version: Version, chunk_id: ChunkId) -> Measured | None:
    """Return the newest measurement of a chunk up to a version, or ``None``."""
    found = (one.measured.get(chunk_id) for one in reversed(history.until(version)))
    return next((measured for measured in found if measured is not None), None)


def _text(chunk: Chunk) -> list[str]:
    return chunk.render().split("\n")


def _origins(history: History, version: Version, chunk: Chunk) -> list[Origin]:
    """Return the origin of every line of a chunk: its parents' where they hold the line, first parent first."""
    made = _origin_of(history, version, chunk.id)
    lines = _text(chunk)
    new = Origin(made.round_index, made, chunk.id)
    found: list[Origin | None] = [None] * len(lines)
    earlier = next((one for one in reversed(history.versions) if one.round_index < made.round_index), None)
    for parent_id in made.edit.removes if earlier else ():
        assert earlier is not None
        parent = history.chunks[parent_id]
        inherited = _origins(history, earlier, parent)
        for old_start, new_start, size in _same(_text(parent), lines):
            for step in range(size):
                found[new_start + step] = found[new_start + step] or inherited[old_start + step]
    return _blank_with_next(lines, [origin or new for origin in found])


def _preamble(history: History, version: Version) -> list[Origin]:
    """Follow the preamble through the versions; a line that changed is of the round that changed it."""
    lines: list[str] = []
    found: list[Origin] = []
    for one in history.until(version):
        text = one.skill.preamble.split("\n") if one.skill.preamble else []
        fresh = [Origin(one.round_index)] * len(text)
        for old_start, new_start, size in _same(lines, text):
            fresh[new_start : new_start + size] = found[old_start : old_start + size]
        lines, found = text, fresh
    return found


def _same(old: list[str], new: list[str]) -> list[tuple[int, int, int]]:
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks]


def _blank_with_next(lines: list[str], origins: list[Origin]) -> list[Origin]:
    for place in reversed(range(len(lines) - 1)):
        if not lines[place].strip():
            origins[place] = origins[place + 1]
    return origins
