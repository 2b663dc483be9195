"""``skill diff``: two skills side by side, readable in a terminal and, without colours, in a pipe."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from intraskill.history_diff import Change, SkillDiff, Word, diff_texts, diff_versions
from intraskill.method.errors import counted
from intraskill.report.skill_source import Source
from intraskill.report.skill_words import shown

STYLES = {"added": "green", "removed": "red", "rewritten": "cyan", "merged": "cyan", "split": "cyan", "moved": "blue"}


def difference(old: Source, new: Source) -> SkillDiff:
    """Compare two skills: by lineage when both are versions of one run, else by their texts."""
    if old.history is None or new.history is None or old.version is None or new.version is None:
        return diff_texts(old.skill, new.skill)
    if old.chunk or new.chunk or old.history.root.resolve() != new.history.root.resolve():
        return diff_texts(old.skill, new.skill)
    by_round = {version.round_index: version for version in old.history.versions}
    return diff_versions(old.history, by_round[old.version.round_index], by_round[new.version.round_index])


def diff_json(old: Source, new: Source) -> dict[str, Any]:
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


def diff_lines(old: Source, new: Source, *, colour: bool) -> Iterator[Text]:
    """Yield the difference; ``colour`` marks words by colour only, otherwise as ``[-old-]`` and ``{+new+}``."""
    found = difference(old, new)
    yield Text(f"{shown(old.name)} {old.skill.hash} → {shown(new.name)} {new.skill.hash}", "bold")
    if not found.changes and not found.preamble:
        yield Text("the same skill")
        return
    if found.preamble:
        yield Text("preamble", "bold cyan")
        yield from _body(found.preamble, colour)
    for change in found.changes:
        yield Text("")
        yield Text(_head(change), f"bold {STYLES[change.kind]}")
        if change.kind != "moved":
            yield from _body(change.words, colour)
    yield Text("")
    yield Text(f"{counted(len(found.same), 'chunk')} as before")


def _head(change: Change) -> str:
    sides = [" + ".join(shown(chunk.title) for chunk in side) for side in (change.old, change.new)]
    names = sides[-1] if sides[0] == sides[1] else " → ".join(side for side in sides if side)
    return f"{change.kind}  {names}"


def _body(words: Sequence[Word], colour: bool) -> Iterator[Text]:
    marks = {"same": ("", ""), "removed": ("[-", "-]"), "added": ("{+", "+}")}
    styles = {"same": "", "removed": "red strike", "added": "green"}
    text = Text()
    whole = len({mark for mark, _ in words}) == 1  # one side only: the heading says which
    for mark, run in words:
        before, after = ("", "") if colour or whole else marks[mark]
        text.append(f"{before}{shown(run)}{after}", styles[mark])
    for line in text.split("\n", allow_blank=True):
        yield Text.assemble("    ", line)
