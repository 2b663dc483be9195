"""The files of a run directory: the one place that knows their names and what they hold (method §12.1).

A descriptor says a file's name and type; the directory is given with each call, so that ``SKILL.read(round_directory)``
returns a `Skill` and ``MASKS.exists(gate_directory)`` is a plain question. What a directory holds twice under one
descriptor differs by directory only: the skill of a round and that of a gate alone are both `SKILL`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from intraskill.method.curriculum.contexts import Curriculum
from intraskill.method.gate.decision import Decision
from intraskill.method.rollouts import Group, Rollout
from intraskill.method.skill.proposals import Ledger
from intraskill.method.skill.skill import Skill, parse_skill
from intraskill.store.contents import (
    BenchmarkFile,
    BoundPair,
    EditorSummary,
    EvaluationFile,
    FinalReport,
    GateContributions,
    GateMasks,
    PersonsEdits,
    PersonsReview,
    ProposedEdits,
    RankingContext,
    RoundRow,
    RunStart,
    SequentialLooks,
    StandaloneContext,
    TrainedGroup,
)
from intraskill.store.records import from_json, to_json
from intraskill.store.run_directory import (
    read_json,
    read_jsonl,
    read_text,
    verify,
    write_json,
    write_jsonl,
    write_text,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file of a run directory.

    Attributes:
        name: of the file.
    """

    name: str

    def path(self, directory: Path) -> Path:
        """Return where it stands in a directory."""
        return directory / self.name

    def exists(self, directory: Path) -> bool:
        """Return whether a directory holds it."""
        return self.path(directory).exists()


@dataclass(frozen=True, slots=True)
class Text(Artifact):
    """A text file, for people or with a format of its own."""

    def read(self, directory: Path) -> str:
        """Return the text.

        Raises:
            ArtifactError: when it is missing or not text.
        """
        return read_text(self.path(directory))

    def write(self, directory: Path, text: str) -> None:
        """Write it whole or not at all."""
        write_text(self.path(directory), text)


@dataclass(frozen=True, slots=True)
class SkillText(Artifact):
    """A skill as Markdown."""

    def read(self, directory: Path) -> Skill:
        """Return the skill.

        Raises:
            ArtifactError: when it cannot be read.
            SkillFormatError: when it is no skill.
        """
        return parse_skill(read_text(self.path(directory)))

    def write(self, directory: Path, skill: Skill) -> None:
        """Write it whole or not at all."""
        write_text(self.path(directory), skill.to_markdown())


@dataclass(frozen=True, slots=True)
class Json(Artifact, Generic[T]):
    """One JSON value.

    Attributes:
        kind: its type. Keys of the file that the type does not name are for people, and are passed over.
    """

    kind: type[T]

    def data(self, directory: Path) -> Any:
        """Return the value as it stands there.

        Raises:
            ArtifactError: when it is missing or corrupt.
        """
        return read_json(self.path(directory))

    def read(self, directory: Path) -> T:
        """Return the record.

        Raises:
            ArtifactError: when it is missing or corrupt, or holds something else.
        """
        return from_json(self.kind, self.data(directory), self.path(directory))

    def sealed(self, directory: Path) -> T:
        """Return the record of a sealed directory.

        Raises:
            ArtifactError: also when it changed since.
        """
        verify(directory, self.name)
        return self.read(directory)

    def write(self, directory: Path, value: T, further: Mapping[str, Any] | None = None) -> None:
        """Write the record, and ``further`` keys after its own, whole or not at all."""
        write_json(self.path(directory), to_json(value) | to_json(further) if further else to_json(value))


@dataclass(frozen=True, slots=True)
class Rows(Artifact, Generic[T]):
    """One JSON value per line.

    Attributes:
        kind: type of a row. Keys that the type does not name are passed over.
    """

    kind: type[T]

    def data(self, directory: Path) -> list[Any]:
        """Return the rows as they stand there.

        Raises:
            ArtifactError: when the file is missing or a line is corrupt.
        """
        return read_jsonl(self.path(directory))

    def read(self, directory: Path) -> tuple[T, ...]:
        """Return the records.

        Raises:
            ArtifactError: also when a line holds something else.
        """
        return tuple(from_json(self.kind, row, self.path(directory)) for row in self.data(directory))

    def write(self, directory: Path, rows: Iterable[T]) -> None:
        """Write one line per record, whole or not at all."""
        write_jsonl(self.path(directory), [to_json(row) for row in rows])


def arm(name: str) -> Rows[Rollout]:
    """Return the file of an arm; its lines hold ``sampled_tokens`` and ``prompt_tokens`` too."""
    return Rows(f"{name}.jsonl", Rollout)


def batch_of(whole: Rows[Rollout], number: int) -> Rows[Rollout]:
    """Return the file of one batch of an arm, before the batches are joined."""
    return arm(f"{whole.name.removesuffix('.jsonl')}_{number:03d}")


# Of a run
PLAN = Json("plan.json", RunStart)
METRICS = Artifact("metrics.jsonl")
SUMMARY = Json("summary.json", dict[str, Any])
NEXT_SKILL = Text("next_skill.md")
PAIR = Json("pair.json", BoundPair)

# Of a round: training, review and proposals
TRAINING_PLAN = Rows("plan.jsonl", Group)
TRAINING = Rows("train.jsonl", TrainedGroup)
FRONTIER = Json("frontier.json", list[Any])
REVIEW_FULL = arm("review_full")
REVIEW_BARE = arm("review_bare")
REVIEWS = Json("reviews.json", list[Any])
COLD_START = arm("cold_start")
ANALYSES = Rows("analyses.jsonl", dict[str, Any])
EDITS = Json("edits.json", ProposedEdits)
DRAFT = SkillText("draft.md")

# Of a round: a person's edits and answers
PERSONS_SKILL = Text("person_skill.md")
PERSONS_EDITS = Json("person_edits.json", PersonsEdits)
PROPOSALS_TO_READ = Text("proposals.md")
ANSWERS_TO_FILL_IN = Text("review.yaml")
ANSWERS = Json("review.json", PersonsReview)

# Of a gate, in a round or alone
MASKS = Json("masks.json", GateMasks)
BARE_ARM = arm("bare")
MASKED_ARM = arm("masked")
FULL_ARM = arm("full")
SEQUENTIAL = Json("sequential.json", SequentialLooks)
CONTRIBUTIONS = Json("contributions.json", GateContributions)
DECISION = Json("decision.json", Decision)
SKILL = SkillText("skill.md")

# Of a round: what it commits
CURRICULUM = Json("curriculum.json", Curriculum)
LEDGER = Json("ledger.json", Ledger)
ROUND = Json("round.json", RoundRow)

# Of a gate alone, and of a ranking
CONTEXT = Json("context.json", StandaloneContext)
GATE = Json("gate.json", dict[str, Any])
GATE_WORDS = Text("summary.md")
CONTRIBUTIONS_TABLE = Text("contributions.csv")
SLICES_TABLE = Text("slices.csv")
PAIRS = Artifact("pairs.parquet")
RANKING_CONTEXT = Json("context.json", RankingContext)
RANKING = Json("ranking.json", dict[str, Any])
RANKING_TABLE = Text("ranking.csv")

# Of an evaluation, and of the closing comparison
ROLLOUTS = arm("rollouts")
EVALUATION = Json("eval.json", EvaluationFile)
BENCHMARK = Json("benchmark.json", BenchmarkFile)
FINAL = Json("final.json", FinalReport)

# Of an editor's run
TRIALS = Artifact("trials.jsonl")
ATTEMPTS = Artifact("attempts.jsonl")
EPISODES = Artifact("episodes.jsonl")
EDITOR_TRAINING = Artifact("train.jsonl")
EDIT_LOG = Rows("edits.jsonl", dict[str, Any])
WORTH = Rows("worth.jsonl", dict[str, Any])
EDITOR_SUMMARY = Json("summary.json", EditorSummary)
