"""``skill revert``: say what was written, and what happens to it next."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intraskill.config.config import unflatten
from intraskill.config.quoting import assignment
from intraskill.environments.protocol import secrets_of
from intraskill.history.diff import Change, Revert, SkillDiff, Word, diff_texts, diff_versions
from intraskill.history.history import History, Version
from intraskill.method.errors import SkillFormatError, counted
from intraskill.method.leakage.filter import REMEDIES, LeakFilter
from intraskill.method.skill.skill import Skill
from intraskill.report.screen import styled
from intraskill.report.skill_source import SkillSource
from intraskill.rounds.setup import environment_of
from intraskill.store.agent_skill import read_reading
from intraskill.store.artifacts import PLAN
from intraskill.store.provenance import plan_record

if TYPE_CHECKING:
    from rich.text import Text

_STYLES = {"added": "green", "removed": "red", "rewritten": "cyan", "merged": "cyan", "split": "cyan", "moved": "blue"}


def difference(old: SkillSource, new: SkillSource) -> SkillDiff:
    """Compare two skills: by lineage when both are versions of one run, else by their texts."""
    if old.history is None or new.history is None or old.version is None or new.version is None:
        return diff_texts(old.skill, new.skill)
    if old.chunk or new.chunk or old.history.root.resolve() != new.history.root.resolve():
        return diff_texts(old.skill, new.skill)
    by_round = {version.round_index: version for version in old.history.versions}
    return diff_versions(old.history, by_round[old.version.round_index], by_round[new.version.round_index])


def diff_json(old: SkillSource, new: SkillSource) -> dict[str, Any]:
    """Return the difference as data."""
    found = difference(old, new)
    return {
        "old": {"name": old.name, "skill": old.skill.hash},
        "new": {"name": new.name, "skill": new.skill.hash},
        "changes": [
            {
                "kind": change.kind,
                "old": [{"id": chunk.id, "title": chunk.title} for chunk in change.old],
                "new": [{"id": chunk.id, "title": chunk.title} for chunk in change.new],
                "words": [list(word) for word in change.words],
            }
            for change in found.changes
        ],
        "preamble": [list(word) for word in found.preamble],
        "same": list(found.same),
    }


def diff_lines(old: SkillSource, new: SkillSource, *, colour: bool) -> Iterator["Text"]:
    """Yield the difference; ``colour`` marks words by colour only, otherwise as ``[-old-]`` and ``{+new+}``."""
    found = difference(old, new)
    yield styled((f"{old.name} {old.skill.hash} → {new.name} {new.skill.hash}", "bold"))
    if not found.changes and not found.preamble:
        yield styled("the same skill")
        return
    if found.preamble:
        yield styled(("preamble", "bold cyan"))
        yield from _body(found.preamble, colour)
    for change in found.changes:
        yield styled("")
        yield styled((_head(change), f"bold {_STYLES[change.kind]}"))
        if change.kind != "moved":
            yield from _body(change.words, colour)
    yield styled("")
    yield styled(f"{counted(len(found.same), 'chunk')} as before")


def _head(change: Change) -> str:
    sides = [" + ".join(chunk.title for chunk in side) for side in (change.old, change.new)]
    names = sides[-1] if sides[0] == sides[1] else " → ".join(side for side in sides if side)
    return f"{change.kind}  {names}"


def _body(words: Sequence[Word], colour: bool) -> Iterator["Text"]:
    marks = {"same": ("", ""), "removed": ("[-", "-]"), "added": ("{+", "+}")}
    styles = {"same": "", "removed": "red strike", "added": "green"}
    text = styled()
    whole = len({mark for mark, _ in words}) == 1  # one side only: the heading says which
    for mark, run in words:
        before, after = ("", "") if colour or whole else marks[mark]
        text.append_text(styled((f"{before}{run}{after}", styles[mark])))
    for line in text.split("\n", allow_blank=True):
        yield styled("    ") + line


MAX_LINES = 500


def lint(path: Path) -> tuple[list[str], Skill | None]:
    """Return what is wrong with a skill, one line each, and the skill when it can be read."""
    reading = read_reading(path)
    problems = reading.said()
    try:
        skill = reading.skill
    except SkillFormatError as error:
        return [*problems, str(error)], None
    if (lines := len(reading.body.splitlines())) > MAX_LINES:
        problems.append(f"{path}: {lines} lines; keep a skill under {MAX_LINES}")
    problems += [f"{path}: chunk {chunk.title!r} has no body" for chunk in skill.chunks if not chunk.body]
    found = _leak_filter_beside(path).inspect_skill(skill)
    problems += [
        f"{path}: {where}: {rejection}; {REMEDIES.get(rejection.rule, 'reword it')}" for where, rejection in found
    ]
    return problems, skill


def _leak_filter_beside(path: Path) -> LeakFilter:
    """Return the leak filter of the run that a round's skill belongs to; a loose file is checked without secrets."""
    root = path.parent.parent
    if not PLAN.exists(root):
        return LeakFilter()
    config = unflatten(plan_record(root)["plan"])
    return LeakFilter(secrets_of(environment_of(config)), config.leak_filter)


def revert_words(history: History, target: Version, found: Revert) -> str:
    """Return what a revert wrote and what follows."""
    lines = [f"Written: {found.path}, {counted(len(found.skill.chunks), 'chunk')}, back to {target.directory.name}:"]
    lines += [f"  {_words(change)}" for change in found.changes]
    if found.pending:
        lines += [
            "No sealed round has changed. The next round whose gate has not begun takes this file as a person's edit:",
            "the leak filter reads it, and the gate measures every chunk at that round's checkpoint and decides. The",
            f"old text may lose again. Continue the run to go on; delete {found.path} to call it off.",
        ]
    else:
        draft = shlex.quote(assignment("coldstart.draft", found.path.resolve()))
        lines.append(f"{history.root} has not changed. Start a run from the file with {draft}")
    return "\n".join(lines)


def _words(change: Change) -> str:
    old, new = (" + ".join(chunk.title for chunk in side) for side in (change.old, change.new))
    if change.kind == "moved":
        return f"moves {new}"
    return f"puts {new} in place of {old}" if old and new else f"brings back {new}" if new else f"takes out {old}"
