"""``skill blame``: per line, the round and edit that put it there, who and what speaks for it, and the numbers."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from intraskill.history.history import History, Line, Measured, Origin, TriedEdit, Version, blame, last_measured
from intraskill.method.errors import counted
from intraskill.method.skill.proposals import PERSON
from intraskill.method.skill.skill import ChunkId
from intraskill.report.screen import styled
from intraskill.report.sheet import Cell, Column, Sheet, sheet
from intraskill.report.sheet import number as cell_of
from intraskill.store.records import to_json

if TYPE_CHECKING:
    from rich.text import Text


def number(found: Measured | None) -> str:
    """Return ``+0.104 ± 0.057``, or a dash for what no gate measured."""
    return "–" if found is None else f"{found.beta:+.3f} ± {found.se:.3f}"


def some(items: Sequence[str], noun: str, limit: int = 3) -> str:
    """Return ``13 rollouts: a, b, c, …``; empty for none."""
    if not items:
        return ""
    more = ", …" if len(items) > limit else ""
    return f"{counted(len(items), noun)}: {', '.join(items[:limit])}{more}"


def _support_words(support: Sequence[str]) -> str:
    """Return `some` rollouts, or training groups where the evidence was a round's randomised contexts."""
    return some(support, "rollout" if any("#" in name for name in support) else "group")


def log_json(history: History) -> list[dict[str, Any]]:
    """Return one entry per round, newest first."""
    return [_entry(history, version) for version in reversed(history.versions)]


def log_lines(history: History) -> Iterator["Text"]:
    """Yield the log, newest round first: edits with both sides' β ± SE, chunks that left, proposals turned away."""
    for version in reversed(history.versions):
        free, gap = version.row["r_free_interval"], version.row["gap"]
        head = f"{version.directory.name}  {version.skill.hash}  {counted(len(version.skill.chunks), 'chunk')}"
        text = f"  R_free {free['mean']:.3f} [{free['low']:.3f}, {free['high']:.3f}]"
        text += f", gap {gap['mean']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]" if gap else ""
        yield styled((head, "bold yellow"), text, f", {version.contributions.num_pairs} pairs")
        for tried in version.edits:
            style = "green" if tried.taken else "red"
            yield styled("  ", ("taken  " if tried.taken else "refused", style), "  ", _edit_words(version, tried))
        for chunk_id in version.left:
            title, measured = version.chunks[chunk_id].title, number(version.measured.get(chunk_id))
            words = departure(history, version, chunk_id)
            yield styled("  ", ("left   ", "yellow"), f"  {title}  {measured}  {words}")
        for turned in version.turned:
            entry, titles = turned.entry, ", ".join(turned.titles)
            words = " ".join(
                part for part in (entry.op, titles, _by(turned.author if entry.op else ""), entry.fate.value) if part
            )
            yield styled("  ", ("no test", "red"), f"  {words}: {entry.reason}")
        yield styled("")


def log_table(history: History) -> Sheet:
    """Return the log as a table: a line per side of an edit, per chunk that left, and per proposal turned away."""
    columns = [
        Column("chunk", wraps=True),
        Column("round", parts=("round",)),
        Column("op", 2),
        Column("fate", 1, wraps=True),
        _MEASURED,
        Column("edit", 4),
        Column("by", 3, wraps=True),
    ]
    lines: list[list[Cell | str]] = []
    for version in reversed(history.versions):
        at = cell_of(version.round_index)
        for tried in version.edits:
            for sign, chunk_ids in (("takes out", tried.edit.removes), ("puts in", tried.edit.added_ids)):
                for i in chunk_ids:
                    fate = f"{tried.fate.value}, {sign}" if tried.taken else tried.fate.value
                    title, measured = version.chunks[i].title, _measured(version.measured.get(i))
                    lines.append([title, at, tried.edit.op, fate, measured, tried.edit.id, tried.author])
        for i in version.left:
            fate, measured = departure(history, version, i), _measured(version.measured.get(i))
            lines.append([version.chunks[i].title, at, "left", fate, measured, "", ""])
        for turned in version.turned:
            fate = f"{turned.entry.fate.value}: {turned.entry.reason}"
            lines.append([", ".join(turned.titles) or "–", at, turned.entry.op, fate, Cell("–"), "", turned.author])
    return sheet(f"What every round did to the skill of {history.root}", columns, lines)


def life_table(history: History, chunk_id: ChunkId) -> Sheet:
    """Return the life of one chunk as a table, a line per gate."""
    columns = [
        Column("round", parts=("round",)),
        Column("in the skill", 3),
        _MEASURED,
        Column("fate", 1),
        Column("exposure", 2, right=True, parts=("exposure",)),
    ]
    lines = [
        [
            cell_of(version.round_index),
            "yes" if chunk_id in version.skill.ids else "no",
            _measured(version.measured.get(chunk_id)),
            version.decision.fates[chunk_id].value,
            cell_of(version.exposure.get(chunk_id), "{:.2f}"),
        ]
        for version in reversed(history.versions)
        if chunk_id in version.chunks
    ]
    return sheet(f"{chunk_id}  {history.chunks[chunk_id].title}", columns, lines)


_MEASURED = Column("β ± SE", parts=("β", "SE"))


def _measured(one: Measured | None) -> Cell:
    return Cell("–") if one is None else Cell(number(one), (one.beta, one.se))


def departure(history: History, version: Version, chunk_id: ChunkId) -> str:
    """Say with what right a chunk left: absorbed, as good as nothing, harmful, or only for want of evidence.

    *Absorbed* is a claim of its own: an earlier gate showed that the chunk helps, and this one that it is worth less
    than ``gate.negligible`` either way. A β̂ ≤ 0 alone shows neither.
    """
    small, here = history.negligible, history.sides_of(version)
    helped = [
        earlier.round_index
        for earlier in history.until(version)[:-1]
        if chunk_id in earlier.measured and chunk_id in history.sides_of(earlier)["helps"]
    ]
    if chunk_id in here["negligible"]:
        if helped:
            return f"absorbed: it helped in round {helped[0]} and is worth less than {small:g} either way"
        return f"as good as nothing: worth less than {small:g} either way"
    if chunk_id in here["hurts"]:
        return "harmful"
    return f"for want of evidence ({version.decision.fates[chunk_id].value})"


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


def life_lines(history: History, chunk_id: ChunkId) -> Iterator["Text"]:
    """Yield the life of one chunk, newest gate first."""
    yield styled((chunk_id, "bold yellow"), f"  {history.chunks[chunk_id].title}")
    for version in reversed(history.versions):
        if chunk_id not in version.chunks:
            continue
        inside = chunk_id in version.skill.ids
        exposure = f", exposure {version.exposure[chunk_id]:.2f}" if inside else ""
        where = ("in the skill", "green") if inside else ("not in it   ", "red")
        fate = version.decision.fates[chunk_id].value
        measured = number(version.measured.get(chunk_id))
        yield styled(f"  {version.directory.name}  ", where, f"  {measured}  {fate}{exposure}")
        for tried in version.edits:
            if chunk_id in (*tried.edit.added_ids, *tried.edit.removes):
                yield styled(f"    {'taken' if tried.taken else 'refused'} {_edit_words(version, tried)}")


def _edit_words(version: Version, tried: TriedEdit) -> str:
    """Return ``REWRITE  Old -0.008 ± 0.058 → New +0.016 ± 0.060  by rules  13 rollouts: …``."""
    edit = tried.edit
    sides = [
        " + ".join(f"{version.chunks[i].title} {number(version.measured.get(i))}" for i in side)
        for side in (edit.removes, edit.added_ids)
    ]
    words = " → ".join(sides) if all(sides) else "".join(sides)
    fate = "" if tried.taken else tried.fate.value
    support = "" if tried.author in ("draft", PERSON) else _support_words(edit.support)
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
            {
                **_side(version, i),
                "fate": version.decision.fates[i].value,
                "reason": version.decision.reasons[i],
                "words": departure(history, version, i),
            }
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


def blame_json(history: History, version: Version, chunk_id: ChunkId | None = None) -> dict[str, Any]:
    """Return every line with its origin, and every chunk with its newest measurement and exposure."""
    lines = _wanted(blame(history, version), chunk_id)
    chunks = [chunk for chunk in version.skill.chunks if chunk_id in (None, chunk.id)]
    return {
        "round": version.round_index,
        "skill": version.skill.hash,
        "chunks": [
            {
                "id": chunk.id,
                "title": chunk.title,
                "last_measured": _data(last_measured(history, version, chunk.id)),
                "exposure": version.exposure.get(chunk.id),
            }
            for chunk in chunks
        ],
        "lines": [
            {"line": line.number, "text": line.text, "chunk": line.chunk_id or None, **_origin(history, line.origin)}
            for line in lines
        ],
    }


def blame_lines(history: History, version: Version, chunk_id: ChunkId | None = None) -> Iterator["Text"]:
    """Yield the document with a mark per line, and under each chunk what its marks stand for."""
    lines = _wanted(blame(history, version), chunk_id)
    marks = {line.number: _mark(line.origin) for line in lines}
    width = max(map(len, marks.values()), default=0)
    yield styled((f"{version.directory.name}  {version.skill.hash}", "bold yellow"))
    for held, group in groupby(lines, key=lambda line: line.chunk_id):
        block = list(group)
        if held and not block[0].text:
            yield styled("")
        for line in block:
            if line.text or line is not block[0]:
                yield styled((f"{marks[line.number]:{width}} ", "cyan"), f"│ {line.text}")
        for origin in dict.fromkeys(line.origin for line in block):
            yield styled((f"{'':{width}}   {_mark(origin)}: {_words(history, origin)}", "dim"))
        if held:
            last = last_measured(history, version, held)
            when = f"in round {last.round_index}, {number(last)} on {last.pairs} pairs" if last else "never"
            yield styled((f"{'':{width}}   last measured {when}; exposure {version.exposure[held]:.2f}", "dim"))


def _wanted(lines: tuple[Line, ...], chunk_id: ChunkId | None) -> list[Line]:
    return [line for line in lines if chunk_id in (None, line.chunk_id)]


def _mark(origin: Origin) -> str:
    if origin.edit is None:
        return f"round {origin.round_index}"
    name = origin.edit.author if origin.edit.author in ("draft", PERSON) else origin.edit.edit.op
    return f"round {origin.round_index} {name}"


def _words(history: History, origin: Origin) -> str:
    if origin.edit is None:
        return "the draft's preamble, which no gate tests" if origin.round_index == 0 else "the preamble was changed"
    edit, measured = origin.edit.edit, _admission(history, origin)
    who = {"draft": "text the run started from", PERSON: "a person's edit"}
    support = "" if origin.edit.author in who else _support_words(edit.support)
    entered = f"entered with {number(measured)}" + (f" on {measured.pairs} pairs" if measured else "")
    parents = " + ".join(history.chunks[i].title for i in edit.removes)
    words = [
        who.get(origin.edit.author, f"{edit.id} by {origin.edit.author}"),
        f"in place of {parents}" if parents else "",
        entered,
        support,
        some(origin.edit.calls, "call"),
    ]
    return "; ".join(word for word in words if word)


def _admission(history: History, origin: Origin) -> Measured | None:
    version = next(one for one in history.versions if one.round_index == origin.round_index)
    return version.measured.get(origin.chunk_id)


def _origin(history: History, origin: Origin) -> dict[str, Any]:
    if origin.edit is None:
        return {"round": origin.round_index, "op": None, "author": "draft" if origin.round_index == 0 else None}
    return {
        "round": origin.round_index,
        "op": origin.edit.edit.op,
        "author": origin.edit.author,
        "edit": origin.edit.edit.id,
        "from": list(origin.edit.edit.removes),
        "entered_as": origin.chunk_id,
        "admission": _data(_admission(history, origin)),
        "support": list(origin.edit.edit.support),
        "calls": list(origin.edit.calls),
    }


def _data(found: Measured | None) -> Any:
    return to_json(found)
