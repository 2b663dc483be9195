"""A frozen worker behind an OpenAI-compatible endpoint: it reads the skill and answers, many jobs at once.

What breaks for one job is that job's fault; an endpoint that is down, a refused key and a used-up budget stop the run,
which the same command continues: every answer that was paid for is kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from intraskill.editor.domain import Answer, Job
from intraskill.environments.protocol import boundary
from intraskill.llm.client import STOPS, BadAnswerError, JsonClient, Message
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import Skill

SEEDS = 2**31
"""Servers that take a seed take at least 31 bits of it."""


def system_text(told: str, skill: Skill) -> str:
    """Return a worker's system message: its instruction, and the skill where one is shown."""
    shown = skill.render()
    return f"{told}\n\n# Skill\n\n{shown}" if shown else told


def endpoint_hash(client: JsonClient, *more: object) -> str:
    """Return the hash of what an endpoint's answers depend on: not its address, nor how it is waited for."""
    endpoint = client.endpoint
    return content_hash(endpoint.model, endpoint.temperature, endpoint.max_tokens, *more)


@dataclass(frozen=True)
class EndpointWorker:
    """An LLM as worker; an `intraskill.editor.domain.Worker`.

    Attributes:
        client: asks the endpoint.
        work: turns one job into its answer with the client's help; called by several threads.
        told: everything besides model and settings that ``work`` says or does, hashed into the version.
    """

    client: JsonClient
    work: Callable[[JsonClient, Job], Answer]
    told: tuple[Any, ...]

    @property
    def version(self) -> str:
        """Hash of model, settings and prompts."""
        return endpoint_hash(self.client, *self.told)

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Answer every job, in order.

        Raises:
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        found = self.client.each(jobs, self._one)
        return [Answer(fault=f"worker: {one}") if isinstance(one, BadAnswerError) else one for one in found]

    def _one(self, job: Job) -> Answer:
        with boundary("worker", passing=(*STOPS, BadAnswerError)) as crossing:
            return self.work(self.client, job)
        return Answer(fault=crossing.fault)


@dataclass(frozen=True)
class WorkerReply:
    """One question, one answer in words: what `EndpointWorker.work` is for tasks without steps.

    Attributes:
        told: the instruction.
        finish: makes the answer of a job and the model's words, and may do more with it.
    """

    told: str
    finish: Callable[[Job, str], Answer]

    def __call__(self, client: JsonClient, job: Job) -> Answer:
        """Ask, and finish."""
        messages: list[Message] = [
            {"role": "system", "content": system_text(self.told, job.skill)},
            {"role": "user", "content": job.query.text},
        ]
        return self.finish(job, client.text(messages, seed=job.seed % SEEDS))
