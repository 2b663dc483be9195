"""``skill log``: what every round did to the skill, and the life of one chunk, with the numbers that decided it."""

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from intraskill.history import History, TriedEdit, Version
from intraskill.method.errors import counted
from intraskill.method.proposals import PERSON
from intraskill.method.skill import ChunkId
from intraskill.report.skill_words import number, shown, support_words
from intraskill.runtime.records import to_json


def log_json(history: History) -> list[dict[str, Any]]:
    """Return one entry per round, newest first."""
    return [_entry(history, version) for version in reversed(history.versions)]


def log_lines(history: History) -> Iterator[Text]:
    """Yield the log, newest round first: edits with both sides' β ± SE, chunks that left, proposals turned away."""
    for version in reversed(history.versions):
        free, gap = version.row["r_free_interval"], version.row["gap"]
        head = f"{version.directory.name}  {version.skill.hash}  {counted(len(version.skill.chunks), 'chunk')}"
        text = f"  R_free {free['mean']:.3f} ± {free['se']:.3f}"
        text += f", gap {gap['mean']:+.3f} ± {gap['se']:.3f}" if gap else ""
        yield Text.assemble((head, "bold yellow"), text, f", {version.contributions.num_pairs} pairs")
        for tried in version.edits:
            style = "green" if tried.taken else "red"
            yield Text.assemble(
                "  ", ("taken  " if tried.taken else "refused", style), "  ", edit_words(version, tried)
            )
        for chunk_id in version.left:
            title, fate = shown(version.chunks[chunk_id].title), version.decision.fates[chunk_id].value
            yield Text.assemble(
                "  ", ("left   ", "yellow"), f"  {title}  {number(version.measured.get(chunk_id))}  {fate}"
            )
        for turned in version.turned:
            entry, titles = turned.entry, ", ".join(map(shown, turned.titles))
            words = " ".join(
                part for part in (entry.op, titles, _by(turned.author if entry.op else ""), entry.fate.value) if part
            )
            yield Text.assemble("  ", ("no test", "red"), f"  {words}: {shown(entry.reason)}")
        yield Text("")


def life_json(history: History, chunk_id: ChunkId) -> dict[str, Any]:
    """Return what became of one chunk: its text, every gate that saw it, what it was made from and what came of it."""
    chunk = history.chunks[chunk_id]
    seen = [version for version in history.versions if chunk_id in version.chunks]
    tried = [(version, edit) for version in history.versions for edit in version.edits]
    return {
        "id": chunk_id,
        "title": chunk.title,
        "body": chunk.body,
        "made_by": [_edit(version, edit) for version, edit in tried if chunk_id in edit.edit.added_ids],
        "replaced_by": [_edit(version, edit) for version, edit in tried if chunk_id in edit.edit.removes],
        "gates": [
            {
                "round": version.round_index,
                "skill": version.skill.hash,
                "fate": version.decision.fates[chunk_id].value,
                "reason": version.decision.reasons[chunk_id],
                "in_skill": chunk_id in version.skill.ids,
                "exposure": version.exposure.get(chunk_id),
                **_numbers(version, chunk_id),
            }
            for version in seen
        ],
    }


def life_lines(history: History, chunk_id: ChunkId) -> Iterator[Text]:
    """Yield the life of one chunk, newest gate first."""
    yield Text.assemble((chunk_id, "bold yellow"), f"  {shown(history.chunks[chunk_id].title)}")
    for version in reversed(history.versions):
        if chunk_id not in version.chunks:
            continue
        inside = chunk_id in version.skill.ids
        exposure = f", exposure {version.exposure[chunk_id]:.2f}" if inside else ""
        where = ("in the skill", "green") if inside else ("not in it   ", "red")
        fate = version.decision.fates[chunk_id].value
        measured = number(version.measured.get(chunk_id))
        yield Text.assemble(f"  {version.directory.name}  ", where, f"  {measured}  {fate}{exposure}")
        for tried in version.edits:
            if chunk_id in (*tried.edit.added_ids, *tried.edit.removes):
                yield Text(f"    {'taken' if tried.taken else 'refused'} {edit_words(version, tried)}")


def edit_words(version: Version, tried: TriedEdit) -> str:
    """Return ``REWRITE  Old -0.008 ± 0.058 → New +0.016 ± 0.060  by rules  13 rollouts: …``."""
    edit = tried.edit
    sides = [
        " + ".join(f"{shown(version.chunks[i].title)} {number(version.measured.get(i))}" for i in side)
        for side in (edit.removes, edit.added_ids)
    ]
    words = " → ".join(sides) if all(sides) else "".join(sides)
    fate = "" if tried.taken else tried.fate.value
    support = "" if tried.author in ("draft", PERSON) else support_words(edit.support)
    return "  ".join(part for part in (f"{edit.op:7}", words, fate, _by(tried.author), support) if part)


def _by(author: str) -> str:
    return {"draft": "from the draft", PERSON: "by a person", "": ""}.get(author, f"by {author}")


def _entry(history: History, version: Version) -> dict[str, Any]:
    return {
        "round": version.round_index,
        "skill": version.skill.hash,
        "chunks": [{"id": chunk.id, "title": chunk.title} for chunk in version.skill.chunks],
        "r_free": version.row["r_free_interval"],
        "gap": version.row["gap"],
        "edits": [_edit(version, tried) for tried in version.edits],
        "left": [
            {**_side(version, i), "fate": version.decision.fates[i].value, "reason": version.decision.reasons[i]}
            for i in version.left
        ],
        "untested": [{**to_json(turned.entry), "titles": list(turned.titles)} for turned in version.turned],
    }


def _edit(version: Version, tried: TriedEdit) -> dict[str, Any]:
    edit = tried.edit
    return {
        "id": edit.id,
        "round": version.round_index,
        "op": edit.op,
        "author": tried.author,
        "taken": tried.taken,
        "fate": tried.fate.value,
        "reason": tried.reason,
        "cause": edit.reason,
        "removes": [_side(version, i) for i in edit.removes],
        "adds": [_side(version, i) for i in edit.added_ids],
        "support": list(edit.support),
        "calls": list(tried.calls),
    }


def _side(version: Version, chunk_id: ChunkId) -> dict[str, Any]:
    return {"id": chunk_id, "title": version.chunks[chunk_id].title, **_numbers(version, chunk_id)}


def _numbers(version: Version, chunk_id: ChunkId) -> dict[str, Any]:
    found = version.measured.get(chunk_id)
    return {"beta": found and found.beta, "se": found and found.se, "pairs": found and found.pairs}
