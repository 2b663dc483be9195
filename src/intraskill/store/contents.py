"""What the files of a run directory hold: records where code reads them back, rows of tables as typed dictionaries.

A record may lack what older runs did not write: such a field has a default. Rows hold what `summary.json` documents.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

from intraskill.method.gate.bounded import bounded_interval
from intraskill.method.gate.intervals import Interval
from intraskill.method.gate.regression import Contributions
from intraskill.method.leakage.filter import Rejection
from intraskill.method.randomness import content_hash
from intraskill.method.rollouts import Group, GroupResult, Rollout
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Chunk, ChunkId


class RunStart(TypedDict):
    """``plan.json``: every resolved option by dotted name, and versions, git state and hashes, for the record."""

    plan: dict[str, Any]
    about: dict[str, Any]


class IntervalRow(TypedDict):
    """An `Interval` as JSON."""

    mean: float
    low: float
    high: float
    se: float
    n: int


class ChunkRow(TypedDict):
    """One chunk of a gate's pool in ``round.json``; see `intraskill.rounds.gate.findings.chunk_rows`."""

    id: ChunkId
    title: str
    beta: NotRequired[float]
    se: NotRequired[float]
    low: NotRequired[float]
    high: NotRequired[float]
    shrunk: NotRequired[float]
    shrunk_sd: NotRequired[float]
    probability: NotRequired[float]
    exposure: float | None
    visible_probability: float | None
    status: str
    reason: str


class FrontierCounts(TypedDict):
    """Groups at the frontier of a round, and the verdicts on those that were reviewed."""

    groups: int
    reviewed: int
    model_deficit: int
    skill_deficit: int
    environment: int
    undecided: int


class EditCounts(TypedDict):
    """What became of a round's candidate edits."""

    proposed: int
    taken: int
    refused: int


class RoundRow(TypedDict):
    """``round.json``: the round's line of ``summary.json``."""

    round: int
    checkpoint: str
    skill: str
    skill_free_prob: float
    bare_probability: float
    r_free: float
    r_pair: float | None
    gap: IntervalRow | None
    r_free_interval: IntervalRow
    r_pair_interval: IntervalRow | None
    frontier: FrontierCounts
    edits: EditCounts
    chunks: list[ChunkRow]
    stopped: NotRequired[str]
    no_information: NotRequired[str]


class FinalReport(TypedDict):
    """``final.json``: the closing comparison; arms and successes by arm, comparisons by name of the difference."""

    split: str
    tasks: int
    repeats: int
    arms: dict[str, IntervalRow]
    success: dict[str, IntervalRow]
    comparisons: dict[str, dict[str, Any]]


class EditorSummary(TypedDict):
    """``final/summary.json`` of an editor: held-out score of z_0 and z_T and their difference, and what LLMs cost."""

    streams: int
    before: IntervalRow
    after: IntervalRow
    gain: IntervalRow
    llm: dict[str, Any] | None


class BenchmarkFile(TypedDict):
    """``benchmark.json`` of Agent Skills: what was measured, both arms and their difference, and notes."""

    metadata: dict[str, Any]
    run_summary: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class TrainedGroup:
    """A line of ``train.jsonl``: a group, its rollouts without tokens, and whether the step learned from it."""

    group: Group
    rollouts: tuple[Rollout, ...]
    used: bool = False

    @property
    def result(self) -> GroupResult:
        """The group as the stages after the training read it."""
        return GroupResult(self.group, self.rollouts)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A proposal that never reached the gate because the leak filter refused it."""

    proposal: Proposal
    rejections: tuple[Rejection, ...]

    @property
    def reason(self) -> str:
        """Every broken rule with its span."""
        return "; ".join(str(rejection) for rejection in self.rejections)


@dataclass(frozen=True, slots=True)
class Blocked:
    """A proposal that the ledger kept away, and why and until when, in words."""

    proposal: Proposal
    reason: str


@dataclass(frozen=True, slots=True)
class ProposedEdits:
    """``edits.json``: what an analyst proposed in a round.

    Attributes:
        proposals: those that go to the gate, best supported first.
        refused: those that the leak filter refused.
        counts: the analyst's counts, ``mapped`` proposals, and how many of them each later stage united or let fall.
        analyst: name of the analyst.
        blocked: those that the ledger kept away.
    """

    proposals: tuple[Proposal, ...]
    refused: tuple[Refusal, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    analyst: str = ""
    blocked: tuple[Blocked, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonsEdits:
    """What became of one file of a person.

    Attributes:
        base: name of the sealed round whose skill it was made from.
        proposals: go to the gate.
        refused: what the leak filter refused.
        notes: what cannot be tested, in words.
    """

    base: str
    proposals: tuple[Proposal, ...]
    refused: tuple[Refusal, ...]
    notes: tuple[str, ...]


Word = Literal["yes", "no", "edit"]


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """A person's word on one proposal.

    Attributes:
        edit_id: of the proposal's edit.
        word: ``yes``, ``no`` or ``edit``.
        reason: why, in the person's words.
        chunks: the text that the person wants instead; only with ``edit``.
    """

    edit_id: str
    word: Word
    reason: str = ""
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonsReview:
    """A person's answers to the proposals of one round, in their order."""

    answers: tuple[ReviewAnswer, ...]


@dataclass(frozen=True, slots=True)
class GateMasks:
    """``masks.json``: what one gate fixed before its first rollout.

    Attributes:
        round: t.
        estimator: the model whose contributions decide.
        inclusion: probability that a chunk is shown.
        checkpoint: hash of the weights.
        conditions: hashes of what else both arms hold fixed.
        chunks: of the pool, and the placebos.
        edits: ids of the candidate edits.
        visible: task → shown chunks; with several masked replicates a list of them.
        policy: the decision rule with its limits.
        design: how the masks are drawn, and the replicates.
        placebos: ids of the placebo chunks.
        sequential: tasks between two looks; 0 when the gate runs to its end.
        slices: hash of the registered slices, if any.
        seeds: of ``masks`` and of the ``bare`` arm; ``None`` in gates that did not write them down.
    """

    round: int
    estimator: str
    inclusion: float
    checkpoint: str
    conditions: Mapping[str, str]
    chunks: tuple[ChunkId, ...]
    edits: tuple[str, ...]
    visible: Mapping[str, Any]
    policy: Mapping[str, Any] = field(default_factory=dict)
    design: Mapping[str, Any] = field(default_factory=dict)
    placebos: tuple[ChunkId, ...] = ()
    sequential: int = 0
    slices: str | None = None
    seeds: Mapping[str, int] | None = None

    @property
    def bare_replicates(self) -> int:
        """Bare rollouts per task."""
        return int(self.design.get("bare_replicates", 1))

    @property
    def masked_replicates(self) -> int:
        """Masked rollouts per task."""
        return int(self.design.get("masked_replicates", 1))

    def sets(self, task_id: str) -> list[list[ChunkId]]:
        """Return the shown chunks of every masked rollout of a task; none without chunks."""
        if not self.chunks:
            return []
        shown = self.visible[task_id]
        return shown if self.masked_replicates > 1 else [shown]


@dataclass(frozen=True, eq=False)
class GateContributions(Contributions):
    """``contributions.json``: the contributions that decide, and what code reads back of what stands beside them.

    Attributes:
        correlation: corr(R, B); ``None`` where it was not recorded.
        beside: contributions of the same pairs by other estimators.
    """

    correlation: float | None = None
    beside: Mapping[str, Contributions] = field(default_factory=dict)

    @property
    def paired(self) -> Contributions:
        """Those of ``paired_ols``, whichever estimator decides."""
        return self.beside.get("paired_ols", self)


@dataclass(frozen=True, slots=True)
class SequentialLooks:
    """``sequential.json``: the rule, the planned looks, the last one, the same in words, and the tasks played."""

    rule: Mapping[str, Any]
    looks: tuple[int, ...]
    last: Mapping[str, Any]
    words: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneContext:
    """``context.json`` of a gate alone: what was seen around it before its first rollout.

    Attributes:
        source: the reused file of bare rollouts, or ``None`` when they were run anew.
        refused: bare runs that were not reused, and why.
        dependence: which gates share rollouts with this one, in words.
        queries: how often gates have read the validation split, in words.
    """

    source: str | None
    refused: tuple[str, ...]
    dependence: str = ""
    queries: str = ""


@dataclass(frozen=True, slots=True)
class RankingContext:
    """``context.json`` of a ranking: its audit tasks, and what was known of their earlier readers, in words."""

    tasks: tuple[str, ...]
    readers: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One checkpoint on one panel.

    Attributes:
        mode: ``skill-free`` or ``skill-augmented`` (method §11).
        split: data role of the tasks.
        repeats: rollouts per task.
        checkpoint: hash of the weights served.
        skill: hash of the document shown, ``""`` when skill-free.
        sampling: decoding parameters, as a hash.
        prompt: system prompt and chat template, as a hash.
        environment: environment version.
        rewards: mean main reward per task.
        successes: mean full success per task.
        bounds: lowest and highest reward.
    """

    mode: str
    split: str
    repeats: int
    checkpoint: str
    skill: str
    sampling: str
    prompt: str
    environment: str
    rewards: Mapping[str, float]
    successes: Mapping[str, float]
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def reward(self) -> Interval:
        """Mean reward over tasks."""
        return bounded_interval(list(self.rewards.values()), self.bounds)

    @property
    def success(self) -> Interval:
        """Mean success over tasks."""
        return bounded_interval(list(self.successes.values()))

    @property
    def panel(self) -> dict[str, object]:
        """What two evaluations must share to be compared."""
        tasks = content_hash(sorted(self.rewards))
        fixed = {"sampling": self.sampling, "prompt": self.prompt, "environment": self.environment}
        return {"split": self.split, "repeats": self.repeats, "tasks": tasks, **fixed}

    @property
    def name(self) -> str:
        """A name that tells it from the others."""
        return f"{self.mode}-{self.split}-{self.checkpoint[:8]}-{self.skill[:8] or 'free'}-x{self.repeats}"


@dataclass(frozen=True, slots=True)
class EvaluationFile:
    """``eval.json``: an evaluation, its means first, for people."""

    reward: Interval
    success: Interval
    evaluation: Evaluation


PAIR_FORMAT = "intraskill-pair-1"


@dataclass(frozen=True, slots=True)
class Identity:
    """One side of the pair.

    Attributes:
        hash: of what it means: the weights, or the skill's chunks; this is what is compared.
        sha256: of the bytes on disk: of ``skill.md``, or of the names and SHA-256 of every checkpoint file.
    """

    hash: str
    sha256: str


@dataclass(frozen=True, slots=True)
class World:
    """Name as in ``env.name``, task family, and version hash of the environment."""

    name: str
    family: str
    version: str


@dataclass(frozen=True, slots=True)
class MeasuredBy:
    """The gate: its round, pairs, tasks and estimator, and the SHA-256 of its ``contributions.json``."""

    round: int
    pairs: int
    tasks: int
    estimator: str
    contributions_sha256: str


@dataclass(frozen=True, slots=True)
class BoundPair:
    """What belongs together.

    Attributes:
        format: of the file.
        checkpoint: the weights.
        skill: the skill document.
        environment: the world.
        gate: what measured the skill at these weights.
        config: hash of every config value that decides the run.
        code: version of intraskill that wrote the run.
    """

    format: str = field(default=PAIR_FORMAT, kw_only=True)
    checkpoint: Identity
    skill: Identity
    environment: World
    gate: MeasuredBy
    config: str
    code: str

    def differences(self, present: Mapping[str, str]) -> dict[str, str]:
        """Return the sides that differ, each with one clause.

        Args:
            present: side → hash of what is here; ``checkpoint``, ``skill`` and ``environment`` may be among them.
        """
        bound = {
            "checkpoint": self.checkpoint.hash,
            "skill": self.skill.hash,
            "environment": self.environment.version,
        }
        return {
            side: f"the {side} is {there} here and {bound[side]} in the pair"
            for side, there in present.items()
            if there != bound[side]
        }
