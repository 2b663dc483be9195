"""``skill blame``: per line, the round and edit that put it there, who and what speaks for it, and the numbers."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.text import Text

from intraskill.history import History, Measured, Version
from intraskill.history_blame import Line, Origin, blame, last_measured
from intraskill.method.proposals import PERSON
from intraskill.method.skill import ChunkId
from intraskill.report.skill_words import number, shown, some, support_words
from intraskill.runtime.records import to_json


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


def blame_lines(history: History, version: Version, chunk_id: ChunkId | None = None) -> Iterator[Text]:
    """Yield the document with a mark per line, and under each chunk what its marks stand for."""
    lines = _wanted(blame(history, version), chunk_id)
    marks = {line.number: _mark(line.origin) for line in lines}
    width = max(map(len, marks.values()), default=0)
    yield Text(f"{version.directory.name}  {version.skill.hash}", "bold yellow")
    for held, group in groupby(lines, key=lambda line: line.chunk_id):
        block = list(group)
        if held and not block[0].text:
            yield Text("")
        for line in block:
            if line.text or line is not block[0]:
                yield Text.assemble((f"{marks[line.number]:{width}} ", "cyan"), f"│ {shown(line.text)}")
        for origin in dict.fromkeys(line.origin for line in block):
            yield Text(f"{'':{width}}   {_mark(origin)}: {_words(history, origin)}", "dim")
        if held:
            last = last_measured(history, version, held)
            when = f"in round {last.round_index}, {number(last)} on {last.pairs} pairs" if last else "never"
            yield Text(f"{'':{width}}   last measured {when}; exposure {version.exposure[held]:.2f}", "dim")


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
    support = "" if origin.edit.author in who else support_words(edit.support)
    entered = f"entered with {number(measured)}" + (f" on {measured.pairs} pairs" if measured else "")
    parents = " + ".join(shown(history.chunks[i].title) for i in edit.removes)
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
