"""Documents with rubrics: a document is the evidence, questions about it are anchors and probes, an LLM judges.

One stream per document, in the form of CL-Bench or in one of our own. The skill stands in for the document: a worker
is shown the document only under ``with_document``, which is off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.config import Config
from intraskill.editor.assembly import evidence_limits
from intraskill.editor.domain import Answer, Job, Part, Query, Stream, Workbench
from intraskill.editor.domains.documents_files import Asked, read_documents
from intraskill.editor.domains.task_streams import SPLIT, divided, first_skill, held_out
from intraskill.editor.judges import GRADINGS, RubricJudge
from intraskill.editor.workers import EndpointWorker, Reply
from intraskill.editor.workers_options import client_of, existing, instruction, read_options
from intraskill.method.errors import ConfigError, SplitError, offenders
from intraskill.method.evidence import EvidenceLimits, document_units
from intraskill.method.firewall import Secrets
from intraskill.method.randomness import content_hash
from intraskill.method.skill import Skill

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
    """Return documents, an LLM that answers and one that judges; see docs/editor_domains.md for the options.

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
    worker = EndpointWorker(client, Reply(told, finish), ("documents", told))
    return Workbench(domain, worker, judge, (client, judge.client))
