"""Tasks into streams by address; experience evidence from attempts that were recorded, or made once without a skill.

Which task goes where depends on the ids and the seed alone, never on the order of the file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.editor.domain import Answer, Job, Part, Query, Stream, Verifier, Worker
from intraskill.editor.evidence import EvidenceLimits, experience_unit
from intraskill.editor.trials import Trials
from intraskill.method.errors import ArtifactError, ConfigError, SplitError, counted, offenders
from intraskill.method.leakage.filter import Secrets
from intraskill.method.randomness import child_seed, content_hash, shuffled
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import Skill
from intraskill.proposers.trajectories import read_trajectories
from intraskill.store.agent_skill import read_skill
from intraskill.store.run_directory import make_directory, read_jsonl, write_jsonl
from intraskill.store.user_files import MOST_ROWS, read_user_text

EMPTY = Skill("")
SPLIT = {"seed": 0, "held_out": 0.25, "probes": 0.5}
"""Options of every domain made of tasks: seed of the split, share of streams for evaluation, share of probes."""


def held_out(names: Sequence[str], seed: int, share: float) -> frozenset[str]:
    """Return the streams that are kept for evaluation: at least one of two or more, never all.

    Raises:
        ConfigError: for a share outside [0, 1).
    """
    if not 0.0 <= share < 1.0:
        raise ConfigError(f"editor.options.held_out={share} is no share; give a number from 0 to below 1")
    count = min(max(round(len(names) * share), 1 if share else 0), len(names) - 1)
    return frozenset(shuffled(names, seed, "held_out")[:count])


def divided(ids: Sequence[str], seed: int, share: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return ids for evidence and ids for probes, each in its first order; evidence keeps at least one.

    Raises:
        ConfigError: for a share outside [0, 1).
    """
    if not 0.0 <= share < 1.0:
        raise ConfigError(f"editor.options.probes={share} is no share; give a number from 0 to below 1")
    count = min(round(len(ids) * share), len(ids) - 1)
    taken = set(shuffled(ids, seed, "probes")[:count])
    return tuple(i for i in ids if i not in taken), tuple(i for i in ids if i in taken)


def first_skill(path: Path | None) -> Skill:
    """Return z_0: of a file, or the empty one."""
    return EMPTY if path is None else read_skill(path)


@dataclass(frozen=True)
class Attempts:
    """Earlier attempts at tasks: read from a file of trajectories, or made once with the empty skill and kept.

    Attributes:
        recorded: file of trajectories (`intraskill.proposers.trajectories`); ``None`` makes them.
        kept: where those that are made stand.
        worker: makes them.
        verifier: scores them.
        seed: of the attempts.
    """

    recorded: Path | None
    kept: Path
    worker: Worker
    verifier: Verifier
    seed: int = 0

    @property
    def version(self) -> str:
        """Hash of what the attempts depend on."""
        if self.recorded is not None:
            return content_hash(read_user_text(self.recorded, most=MOST_ROWS))
        return content_hash(self.worker.version, self.verifier.version, self.seed)

    def of(self, queries: Sequence[Query]) -> tuple[Rollout, ...]:
        """Return the attempts at some queries, one or several each; a task whose attempt broke has none.

        Raises:
            ArtifactError: when no attempt is at any of these queries, or those kept are of another worker, verifier or
                seed, or at other tasks.
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        if self.recorded is None:
            self._keep(queries, content_hash(self.version, [(query.id, query.text) for query in queries]))
        path = self.recorded or self.kept
        wanted = {query.id for query in queries}
        found = tuple(one for one in read_trajectories(path) if one.task_id in wanted)
        if not found:
            raise ArtifactError(
                f"{path} holds no attempt at any of the tasks that are evidence, {offenders(sorted(wanted))}; "
                "task_id must be the id of a task"
            )
        return found

    def _keep(self, queries: Sequence[Query], by: str) -> None:
        """Make the attempts, unless they are kept already; ``by`` stands in every row and binds it to what made it."""
        if not self.kept.exists():
            self._make(queries, by)
        elif strangers := sum(not isinstance(row, dict) or row.get("by") != by for row in read_jsonl(self.kept)):
            raise ArtifactError(
                f"{self.kept} holds {counted(strangers, 'attempt')} of another worker, verifier or seed, at other "
                "tasks, or of an earlier version; use another run_dir, or delete it: answers of an LLM that are kept "
                "are not paid again"
            )

    def _make(self, queries: Sequence[Query], by: str) -> None:
        jobs = [Job(query, EMPTY, child_seed(self.seed, "attempt", query.id)) for query in queries]
        answers = list(self.worker.answer(jobs))
        known = dict(zip((job.query.id for job in jobs), answers, strict=True))
        scores = Trials(_Known(known), self.verifier, attempts=1).scores(jobs)
        rows = [
            {
                "task_id": job.query.id,
                "request": job.query.text,
                "reward": score,
                "turns": answer.facts["turns"],
                "by": by,
            }
            for job, answer, score in zip(jobs, answers, scores, strict=True)
            if score is not None
        ]
        if not rows:
            reasons = [answer.fault for answer in answers if answer.fault]
            made = counted(len(jobs), "attempt")
            raise ArtifactError(f"none of {made} has a score, {offenders(reasons)}; mend that first")
        make_directory(self.kept.parent)
        write_jsonl(self.kept, rows)


@dataclass(frozen=True)
class _Known:
    """A worker whose answers are there."""

    answers: Mapping[str, Answer]
    version: str = "known"

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        return [self.answers[job.query.id] for job in jobs]


@dataclass(frozen=True)
class TaskDomain:
    """Tasks with experience as evidence; an `intraskill.editor.domain.Domain`.

    Attributes:
        family: name of the task family.
        queries: id → query, in the order of the file.
        content: hash of the files that the queries come from.
        attempts: earlier attempts at the tasks that are evidence.
        limits: sizes of the evidence.
        skill: z_0 of every stream.
        private: texts of tasks, by id, that no chunk may hold.
        per_stream: tasks per stream; the last one may have fewer.
        split: seed, held_out, probes.
    """

    family: str
    queries: Mapping[str, Query]
    content: str
    attempts: Attempts
    limits: EvidenceLimits
    skill: Skill
    private: Mapping[str, str]
    per_stream: int
    split: Mapping[str, Any]

    @property
    def version(self) -> str:
        """Hash of tasks, attempts, limits and split."""
        tasks = [(query.id, query.text) for query in self.queries.values()]
        plan = [repr(self.limits), self.skill.hash, self.per_stream, dict(self.split)]
        return content_hash(self.family, self.content, tasks, self.attempts.version, plan)

    @property
    def secrets(self) -> Secrets:
        """The ids of tasks, and the texts of those that are probes."""
        probes = [probe for group in self._groups() for probe in group[2]]
        return Secrets(task_ids=tuple(self.queries), instructions=tuple(self.private[probe] for probe in probes))

    def streams(self, part: Part) -> tuple[Stream, ...]:
        """Return the streams of a part: their evidence is what happened in attempts at their own tasks."""
        groups = self._groups()
        kept = held_out([name for name, _, _ in groups], self.split["seed"], self.split["held_out"])
        rollouts: dict[str, list[Rollout]] = {}
        everything = [self.queries[i] for _, evidence, _ in groups for i in evidence]
        for rollout in self.attempts.of(everything):
            rollouts.setdefault(rollout.task_id, []).append(rollout)
        found = []
        for name, evidence, probes in groups:
            if (name in kept) is not (part == "held_out"):
                continue
            made = [experience_unit(one, self.limits) for i in evidence for one in rollouts.get(i, ())]
            if units := tuple(unit for unit in made if unit is not None):
                found.append(Stream(name, units, self.skill, probes))
        return tuple(found)

    def query(self, query_id: str) -> Query:
        """Return one query.

        Raises:
            SplitError: for an id that is not there.
        """
        if query_id not in self.queries:
            raise SplitError(f"{query_id!r} is no task of this domain; it holds {offenders(list(self.queries))}")
        return self.queries[query_id]

    def _groups(self) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Return name, evidence and probes of every stream."""
        seed = self.split["seed"]
        order = shuffled(self.queries, seed, "streams")
        size = self.per_stream or len(order)
        parts = [order[start : start + size] for start in range(0, len(order), size)]
        return [(f"tasks-{i}", *divided(ids, seed, self.split["probes"])) for i, ids in enumerate(parts)]
