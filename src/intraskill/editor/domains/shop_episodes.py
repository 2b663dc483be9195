"""The worker's own episodes as evidence: each played once and kept with its pages, which an analyst reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from intraskill.editor.domain import Answer, Job, Worker
from intraskill.environments.boundary import boundary
from intraskill.method.errors import NothingToLearnError, counted
from intraskill.method.rollouts import Rollout
from intraskill.runtime.records import from_json, to_json
from intraskill.runtime.run_directory import PartialLog, make_directory

ATTEMPTS = 2
BATCH = 256
"""Episodes between two writes: what a killed run loses at most."""
Key = tuple[str, str, int, str]


@dataclass(frozen=True)
class Episodes:
    """Episodes under (skill hash, query, seed, worker's version).

    Attributes:
        worker: plays them; its answers hold a ``rollout``.
        path: where they are kept.
    """

    worker: Worker
    path: Path

    def of(self, jobs: Sequence[Job]) -> tuple[Rollout | None, ...]:
        """Return the episode of every job, in order; ``None`` for one that only faulted.

        Raises:
            NothingToLearnError: when there are jobs and every one of them faulted.
        """
        make_directory(self.path.parent)
        log = PartialLog(self.path)
        known: dict[Key, Rollout] = {}
        for row in log.keep(2**62):
            known[row["skill"], row["query"], row["seed"], row["by"]] = from_json(Rollout, row["rollout"], self.path)
        faults: list[str] = []
        for _ in range(ATTEMPTS):
            missing = [job for job in jobs if self._key(job) not in known]
            for start in range(0, len(missing), BATCH):
                faults += self._play(missing[start : start + BATCH], known, log)
        if jobs and not any(self._key(job) in known for job in jobs):
            raise NothingToLearnError(
                f"none of {counted(len(jobs), 'episode')} for evidence has a reward, first: {faults[0]}; mend that "
                "and run the same command again"
            )
        return tuple(known.get(self._key(job)) for job in jobs)

    def _play(self, jobs: Sequence[Job], known: dict[Key, Rollout], log: PartialLog) -> list[str]:
        """Play and keep some jobs; return what went wrong."""
        answers: Sequence[Answer] = ()
        with boundary("worker") as crossing:
            answers = self.worker.answer(jobs)
        if crossing.fault is not None:
            return [crossing.fault]
        rows = []
        for job, answer in zip(jobs, answers, strict=True):
            if answer.fault is None:
                key = self._key(job)
                known[key] = answer.facts["rollout"]
                named = dict(zip(("skill", "query", "seed", "by"), key, strict=True))
                rows.append(named | {"rollout": to_json(known[key])})
        log.append(rows)
        return [answer.fault for answer in answers if answer.fault is not None]

    def _key(self, job: Job) -> Key:
        return job.skill.hash, job.query.id, job.seed, self.worker.version
