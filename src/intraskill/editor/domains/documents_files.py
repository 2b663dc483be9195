"""Files of documents with rubrics: our own rows, and chats in the form of CL-Bench, whose context is taken apart.

A chat's last user message asks; what stands before it is the document. Where a chat has nothing before it but a system
message, the paragraphs with which all chats of one ``context_id`` begin are the document too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from intraskill.editor.judges import Criterion, read_rubric
from intraskill.editor.workers_options import existing, read_rows, refuse
from intraskill.method.randomness import content_hash

OWN = {"id", "document", "document_file", "document_id", "question", "rubrics", "metadata"}
CHAT = {"messages", "rubrics", "metadata", "id"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One question about a document.

    Attributes:
        id: unique in its file.
        document: the document's name.
        text: the document.
        question: what a worker is asked.
        rubric: what an answer must hold.
        single: the question comes from a chat without earlier turns, so it may begin with its document.
    """

    id: str
    document: str
    text: str
    question: str
    rubric: tuple[Criterion, ...]
    single: bool = False


def read_documents(path: Path) -> tuple[Asked, ...]:
    """Read every question of a file of JSON lines.

    Raises:
        ArtifactError: naming the lines that cannot be used.
    """

    def read(row: Mapping[str, Any]) -> Asked:
        return _chat(row) if "messages" in row else _own(row, path.parent)

    found = read_rows(path, read, lambda asked: asked.id)
    groups: dict[str, list[Asked]] = {}
    for asked in found.values():
        groups.setdefault(asked.document, []).append(asked)
    made = {one.id: one for group in groups.values() for one in _apart(group)}
    refuse(path, [f"{name}: {why}" for name, one in found.items() if (why := _problem(one, made[name]))])
    return tuple(made[asked_id] for asked_id in found)


def _own(row: Mapping[str, Any], folder: Path) -> Asked:
    _only(row, OWN)
    given = [name for name in ("document", "document_file") if name in row]
    if len(given) != 1:
        raise ValueError("give document (a text) or document_file (a path), one of the two")
    text = row["document"] if given == ["document"] else existing(folder, row["document_file"], "document_file")
    if isinstance(text, Path):
        text = text.read_text(encoding="utf-8")
    name = row.get("document_id") or row.get("document_file") or f"document-{content_hash(text)[:8]}"
    return Asked(
        _text(row, "id"), str(name), _text({"document": text}, "document"), _text(row, "question"),
        read_rubric(row.get("rubrics")),
    )  # fmt: skip


def _chat(row: Mapping[str, Any]) -> Asked:
    _only(row, CHAT)
    metadata, messages = row.get("metadata") or {}, row["messages"]
    if not isinstance(metadata, Mapping):
        raise ValueError(f"metadata must be an object, got {type(metadata).__name__}")
    sound = isinstance(messages, list) and all(
        isinstance(one, Mapping) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str)
        for one in messages
    )
    if not sound or not messages or messages[-1]["role"] != "user":
        raise ValueError("messages must be a chat of roles and texts that ends with the user's question")
    own = _text({"id": row.get("id") or metadata.get("task_id")}, "id")
    before = [one for one in messages[:-1] if one["content"].strip()]
    turns = [one["content"] if one["role"] == "system" else f"{one['role']}: {one['content']}" for one in before]
    single = all(one["role"] == "system" for one in before)
    text, name = "\n\n".join(turns), str(metadata.get("context_id") or own)
    return Asked(own, name, text, messages[-1]["content"], read_rubric(row.get("rubrics")), single)


def _apart(group: Sequence[Asked]) -> list[Asked]:
    """Move the paragraphs with which all questions of a document begin from the questions into the document."""
    if len(group) < 2 or not all(one.single and one.text == group[0].text for one in group):
        return [_joined(one, group) for one in group]
    split = [re.split(r"(?<=\n\n)", one.question) for one in group]
    shared, most = 0, min(len(parts) for parts in split) - 1
    while shared < most and len({parts[shared] for parts in split}) == 1:
        shared += 1
    text = "\n\n".join(part for part in (group[0].text, "".join(split[0][:shared]).strip()) if part)
    return [replace(one, text=text, question="".join(parts[shared:])) for one, parts in zip(group, split, strict=True)]


def _joined(one: Asked, group: Sequence[Asked]) -> Asked:
    """Give every question of a document the longest text that any of them brings: later turns hold the earlier."""
    return replace(one, text=max((other.text for other in group), key=len))


def _problem(one: Asked, made: Asked) -> str:
    """Return why a question cannot be told from its document, as it stood and as it was taken apart."""
    if not made.text.strip() or (one.single and made.question == one.question):
        return (
            "the context cannot be told from the task; give document and question apart, or several rows of one "
            "metadata.context_id that begin alike"
        )
    if one.text not in made.text:
        return f"document {one.document!r} has two different texts; give them different ids"
    return ""


def _only(row: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(set(row) - known):
        raise ValueError(f"unknown keys {', '.join(unknown)}; known are {', '.join(sorted(known))}")


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a text that is not empty")
    return value
