"""Trials: the worker answers with a skill, the verifier scores; every call is made once.

A score is kept under (skill hash, query, seed) together with the versions of worker and verifier, so the control is
shared by its group, equal edits are tried once, and a resumed run pays nothing twice. A fault is not kept.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from intraskill.editor.domain import Answer, Job, Verifier, Worker
from intraskill.environments.protocol import boundary
from intraskill.llm.client import STOPS
from intraskill.method.errors import ArtifactError, counted
from intraskill.method.randomness import content_hash
from intraskill.store.run_directory import PartialLog

Key = tuple[str, str, int]


class Trials:
    """Scores of jobs, each asked of the worker at most once.

    Args:
        worker: the frozen agent.
        verifier: judges its answers.
        path: where scores are kept, ``trials.jsonl`` say; ``None`` keeps them in memory only.
        attempts: tries per job before its score is a fault.

    Attributes:
        asked: jobs that the worker was given.
        found: jobs whose score was known.
        faults: jobs that ended without a score, the last reason first.

    Raises:
        ArtifactError: when ``path`` holds scores of another worker or verifier.
    """

    def __init__(self, worker: Worker, verifier: Verifier, path: Path | None = None, *, attempts: int = 2) -> None:
        self.worker, self.verifier, self.attempts = worker, verifier, attempts
        self.asked = self.found = 0
        self.faults: list[str] = []
        self._versions = content_hash(worker.version, verifier.version)
        self._log = None if path is None else PartialLog(path)
        rows: list[Any] = [] if self._log is None else self._log.keep(2**62)
        if strangers := sum(row["by"] != self._versions for row in rows):
            raise ArtifactError(
                f"{path} holds {counted(strangers, 'score')} of another worker or verifier; use another run_dir, or "
                "delete it"
            )
        self._scores: dict[Key, float] = {(row["skill"], row["query"], row["seed"]): row["score"] for row in rows}

    def scores(self, jobs: Sequence[Job]) -> tuple[float | None, ...]:
        """Return the score of every job, in order; ``None`` for one that only faulted.

        Raises:
            EndpointError: when an endpoint gives no answers at all; what is scored is kept.
            BudgetError: when a limit of an endpoint is reached; what is scored is kept.
        """
        wanted = {_key(job): job for job in jobs}
        self.found += len(jobs) - len(wanted) + sum(key in self._scores for key in wanted)
        for _ in range(self.attempts):
            missing = {key: job for key, job in wanted.items() if key not in self._scores}
            if not missing:
                break
            self._ask(missing)
        return tuple(self._scores.get(_key(job)) for job in jobs)

    def _ask(self, missing: dict[Key, Job]) -> None:
        jobs = list(missing.values())
        self.asked += len(jobs)
        answers: Sequence[Answer] = ()
        with boundary("worker", passing=STOPS) as crossing:
            answers = self.worker.answer(jobs)
        if len(answers) != len(jobs):
            self.faults.insert(0, crossing.fault or f"worker: {len(answers)} answers to {len(jobs)} jobs")
            return
        rows = []
        try:
            for key, job, answer in zip(missing, jobs, answers, strict=True):
                score = self._judge(job, answer)
                if score is not None:
                    self._scores[key] = score
                    skill, query, seed = key
                    rows.append({"skill": skill, "query": query, "seed": seed, "score": score, "by": self._versions})
        finally:
            if self._log is not None and rows:
                self._log.append(rows)

    def _judge(self, job: Job, answer: Answer) -> float | None:
        if answer.fault is not None:
            self.faults.insert(0, answer.fault)
            return None
        score = -1.0
        with boundary("verifier", passing=STOPS) as crossing:
            score = float(self.verifier.score(job.query, answer))
        if crossing.fault is None and not 0.0 <= score <= 1.0:
            crossing.fault = f"verifier: the score {score} of {job.query.id} is outside [0, 1]"
        if crossing.fault is not None:
            self.faults.insert(0, crossing.fault)
            return None
        return score


def _key(job: Job) -> Key:
    return job.skill.hash, job.query.id, job.seed
