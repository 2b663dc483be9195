"""Evidence from files on disk: documents and recorded trajectories, as one stream for one pass without a reward."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from intraskill.editor.domain import Answer, Job, Part, Query, Stream, Workbench
from intraskill.editor.evidence import EvidenceLimits, Unit, document_units, experience_unit
from intraskill.method.errors import ConfigError, SplitError, counted
from intraskill.method.leakage.filter import Secrets
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import Skill
from intraskill.proposers.trajectories import read_trajectories
from intraskill.store.user_files import read_user_text

DOCUMENTS, TRAJECTORIES = (".md", ".txt"), ".jsonl"


@dataclass(frozen=True, slots=True)
class FileDomain:
    """One stream of evidence without queries; an `intraskill.editor.domain.Domain`.

    Attributes:
        units: the evidence.
        skill: z_0.
        secrets: ids of the tasks that the trajectories are of.
        family: name of the task family.
    """

    units: tuple[Unit, ...]
    skill: Skill
    secrets: Secrets
    family: str = "files"

    @property
    def version(self) -> str:
        """Hash of skill and evidence."""
        return content_hash("files-1", self.skill.hash, *[(unit.id, unit.text) for unit in self.units])

    def streams(self, part: Part) -> tuple[Stream, ...]:
        """Return the one stream, whatever is asked for."""
        return (Stream("files", self.units, self.skill),)

    def query(self, query_id: str) -> Query:
        """Refuse: files come without queries."""
        raise SplitError(f"evidence from files holds no query {query_id!r}")


class NoWorker:
    """Stands where a worker and a verifier would: a pass without reward asks neither."""

    version = "none"

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Return faults."""
        return [Answer(fault="evidence from files comes without a worker") for _ in jobs]

    def score(self, query: Query, answer: Answer) -> float:
        """Refuse."""
        raise SplitError(f"evidence from files comes without a verifier, and {query.id} was to be scored")


def file_workbench(paths: Sequence[Path], skill: Skill, limits: EvidenceLimits) -> Workbench:
    """Return a domain of some files, in the order given.

    Args:
        paths: documents (``.md``, ``.txt``) and trajectories (``.jsonl``, see docs/proposers.md).
        skill: z_0.
        limits: sizes of the units.

    Raises:
        ConfigError: for a file that does not exist, is of another kind, or when all are empty.
        ArtifactError: for lines that are no trajectories.
    """
    units: list[Unit] = []
    tasks: list[str] = []
    for path in paths:
        if not path.is_file() or path.suffix not in (*DOCUMENTS, TRAJECTORIES):
            raise ConfigError(f"{path} is no evidence; give documents (.md, .txt) or trajectories (.jsonl) that exist")
        if path.suffix in DOCUMENTS:
            units += document_units(path.name, read_user_text(path), limits)
        else:
            rollouts = read_trajectories(path)
            units += [unit for rollout in rollouts if (unit := experience_unit(rollout, limits)) is not None]
            tasks += [rollout.task_id for rollout in rollouts]
    if not units:
        given = counted(len(paths), "file")
        raise ConfigError(f"no evidence in {given}: no paragraph, and no trajectory with a reward")
    domain = FileDomain(tuple(units), skill, Secrets(task_ids=tuple(dict.fromkeys(tasks))))
    return Workbench(domain, NoWorker(), NoWorker())
