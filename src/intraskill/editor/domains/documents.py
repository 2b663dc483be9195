"""Documents with rubrics: a document is the evidence, questions about it are anchors and probes, an LLM judges.

One stream per document, in the form of CL-Bench or in one of our own. The skill stands in for the document: a worker
is shown the document only under ``with_document``, which is off.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from intraskill.config.config import Config
from intraskill.editor.domain import Answer, Job, Part, Query, Stream, Workbench
from intraskill.editor.domains.task_streams import SPLIT, divided, first_skill, held_out
from intraskill.editor.evidence import EvidenceLimits, document_units
from intraskill.editor.judges import GRADINGS, Criterion, RubricJudge, read_rubric
from intraskill.editor.setup import evidence_limits
from intraskill.editor.workers import EndpointWorker, WorkerReply
from intraskill.editor.workers_options import client_of, existing, instruction, read_options, read_rows, refuse
from intraskill.method.errors import ConfigError, SplitError, offenders
from intraskill.method.leakage.filter import Secrets
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import Skill
from intraskill.store.user_files import read_user_text

OWN = {"id", "document", "document_file", "document_id", "question", "rubrics", "metadata"}
_CHAT = {"messages", "rubrics", "metadata", "id"}


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
        text = read_user_text(text)
    name = row.get("document_id") or row.get("document_file") or f"document-{content_hash(text)[:8]}"
    return Asked(
        _text(row, "id"), str(name), _text({"document": text}, "document"), _text(row, "question"),
        read_rubric(row.get("rubrics")),
    )  # fmt: skip


def _chat(row: Mapping[str, Any]) -> Asked:
    _only(row, _CHAT)
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


WHERE = "editor.options"
KNOWN: dict[str, Any] = SPLIT | {
    "path": "",
    "skill": "",
    "with_document": False,
    "grading": "all",
    "language": "en",
    "worker": None,
    "judge": None,
}


@dataclass(frozen=True)
class DocumentDomain:
    """Documents and questions about them; an `intraskill.editor.domain.Domain`.

    Attributes:
        asked: every question, in the order of the file.
        limits: sizes of the evidence.
        skill: z_0 of every stream.
        with_document: whether a worker is shown the document.
        split: seed, held_out, probes.
        family: name of the task family.
    """

    asked: tuple[Asked, ...]
    limits: EvidenceLimits
    skill: Skill
    with_document: bool
    split: Mapping[str, Any]
    family: str = "documents"

    @property
    def version(self) -> str:
        """Hash of documents, questions, rubrics, limits and split."""
        rows = [repr(one) for one in self.asked]
        return content_hash(rows, repr(self.limits), self.skill.hash, self.with_document, dict(self.split))

    @property
    def secrets(self) -> Secrets:
        """The ids of all questions, and the texts of those that are probes."""
        probes = {probe for name in self._documents for probe in self._divided(name)[1]}
        texts = tuple(one.question for one in self.asked if one.id in probes)
        return Secrets(task_ids=tuple(one.id for one in self.asked), instructions=texts)

    def streams(self, part: Part) -> tuple[Stream, ...]:
        """Return one stream per document of a part: its paragraphs in order, tried on its first questions."""
        kept = held_out(self._documents, self.split["seed"], self.split["held_out"])
        found = []
        for name in self._documents:
            if (name in kept) is (part == "held_out"):
                anchors, probes = self._divided(name)
                text = next(one.text for one in self.asked if one.document == name)
                units = document_units(name, text, self.limits, anchors=anchors)
                found.append(Stream(name, units, self.skill, probes))
        return tuple(found)

    def query(self, query_id: str) -> Query:
        """Return one question; its rubric is for the verifier alone.

        Raises:
            SplitError: for an id that is not there.
        """
        for one in self.asked:
            if one.id == query_id:
                text = f"{one.text}\n\n{one.question}" if self.with_document else one.question
                return Query(one.id, text, {"rubric": one.rubric, "question": one.question})
        raise SplitError(f"{query_id!r} is no question; there are {offenders([one.id for one in self.asked])}")

    @property
    def _documents(self) -> list[str]:
        return list(dict.fromkeys(one.document for one in self.asked))

    def _divided(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        ids = [one.id for one in self.asked if one.document == name]
        return divided(ids, self.split["seed"], self.split["probes"])


def documents(config: Config, root: Path) -> Workbench:
    """Return documents, an LLM that answers and one that judges; see docs/skill_alpha.md for the options.

    Raises:
        ConfigError: for an option that is none, or an endpoint that is missing.
        ArtifactError: for a file that is missing or rows that cannot be used.
    """
    options = read_options(config.editor.options, KNOWN, WHERE)
    if options["grading"] not in GRADINGS:
        raise ConfigError(f"{WHERE}.grading={options['grading']!r} is unknown; choose {', '.join(GRADINGS)}")
    told = instruction("editor_documents", options["language"])
    skill = existing(Path(), options["skill"], f"{WHERE}.skill") if options["skill"] else None
    domain = DocumentDomain(
        read_documents(existing(Path(), options["path"], f"{WHERE}.path")),
        evidence_limits(config),
        first_skill(skill),
        options["with_document"],
        {name: options[name] for name in SPLIT},
    )
    judge = RubricJudge(
        client_of(options["judge"], root / "llm_judge", f"{WHERE}.judge"), options["grading"], options["language"]
    )

    def finish(job: Job, text: str) -> Answer:
        answer = Answer(text)
        judge.ahead(job.query, answer)
        return answer

    client = client_of(options["worker"], root / "llm_worker", f"{WHERE}.worker")
    worker = EndpointWorker(client, WorkerReply(told, finish), ("documents", told))
    return Workbench(domain, worker, judge, (client, judge.client))
