"""A frozen shopper: a small policy plays shop tasks with a skill in its prompt, many at once; the shop pays it.

An episode that broke technically is a fault. One that ran into a limit of actions or tokens, be it for an overlong
skill, was ended by the agent's own doing: the shop pays nothing for it, as everywhere.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from intraskill.config.learning import RolloutConfig
from intraskill.editor.domain import Answer, Job, Query, Worker
from intraskill.environments.protocol import boundary
from intraskill.environments.shopworld import ShopWorld
from intraskill.method.errors import NothingToLearnError, counted
from intraskill.method.randomness import Address, content_hash, shuffled
from intraskill.method.rollouts import Episode, Rollout
from intraskill.method.tasks import Split, Task
from intraskill.rl.rollout import DOES_NOT_FIT, in_batches, run_episodes
from intraskill.store.records import from_json, lean, to_json
from intraskill.store.run_directory import PartialLog, file_hash, make_directory

if TYPE_CHECKING:
    from intraskill.rl.chat import ChatCodec
    from intraskill.rl.engines.torch_engine import TorchEngine


_PAGE_SIZE = 4
_ALIKE = ("axes", "soft")
"""Features that a failed task and its anchors share: how many options there are, how much only the profile tells."""
EVIDENCE: Split = "train"
ANCHORS: Split = "skill_validation"
PROBES: Split = "test"


@lru_cache(maxsize=4)
def plain_shop(preset: str, world: int) -> ShopWorld:
    """Return a shop as the tiny policy can read it; built once."""
    return ShopWorld(preset, world, language="plain", page_size=_PAGE_SIZE)


@lru_cache(maxsize=16)
def tasks_of(preset: str, world: int, split: Split) -> dict[str, Task]:
    """Return query id → task of one split."""
    return {f"world-{world}/{task.id}": task for task in plain_shop(preset, world).tasks(split)}


def query_of(preset: str, world: int, query_id: str) -> Query | None:
    """Return the query of a world's task, ``None`` where the world has none of this id."""
    for split in (EVIDENCE, ANCHORS, PROBES):
        if task := tasks_of(preset, world, split).get(query_id):
            asked = plain_shop(preset, world).shop_task(task.id)
            text = asked.request if asked.persona is None else f"{asked.request}\n{asked.persona}"
            return Query(query_id, text, {"world": world, "task": task})
    return None


def anchors_like(preset: str, world: int, query_id: str, count: int, *where: Address) -> tuple[str, ...]:
    """Return queries on which to try what a failed train task taught: those like it first, in a drawn order.

    Args:
        preset: size of the world.
        world: its seed.
        query_id: the failed task.
        count: at most how many.
        where: address of the draw.
    """
    failed, others = tasks_of(preset, world, EVIDENCE)[query_id], tasks_of(preset, world, ANCHORS)
    order = shuffled(others, world, "anchors", query_id, *where)
    return tuple(sorted(order, key=lambda other: _kind(others[other]) != _kind(failed))[:count])


def _kind(task: Task) -> tuple[str, ...]:
    return tuple(task.features[name] for name in _ALIKE)


ATTEMPTS = 2
_EPISODE_BATCH = 256
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
            for start in range(0, len(missing), _EPISODE_BATCH):
                faults += self._play(missing[start : start + _EPISODE_BATCH], known, log)
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


MAX_TURNS, MAX_NEW_TOKENS, MAX_CONTEXT = 8, 16, 1024
"""The limits that the tiny policy was trained for; the context has room for skills that grow."""
BATCH = 64
_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True)
class ShopWorker:
    """A policy that is never trained; an `intraskill.editor.domain.Worker`.

    A query's facts are its ``world`` (a seed) and its ``task``; an answer's are the whole ``rollout``, tokens aside.

    Attributes:
        directory: weights, tokenizer and chat template; read at the first job.
        preset: size of the worlds.
        temperature: of its actions; at 0 a skill and a task have one episode, whatever the seed.
        threads: torch threads.
        workers: batches that run at once, each in a thread of its own.
    """

    directory: Path
    preset: str
    temperature: float = 0.0
    threads: int = 1
    workers: int = 1

    @cached_property
    def version(self) -> str:
        """Hash of weights, texts, pages and limits; how many episodes run at once changes nothing but rounding."""
        files = [file_hash(self.directory / name) for name in _FILES]
        limits = (self.temperature, _PAGE_SIZE, MAX_TURNS, MAX_NEW_TOKENS, MAX_CONTEXT)
        return content_hash("shop-worker-1", files, self.preset, limits)

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Play every job's task with its skill in the prompt, all of one world together."""
        found: dict[int, Answer] = {}
        for seed in sorted({job.query.facts["world"] for job in jobs}):
            here = [number for number, job in enumerate(jobs) if job.query.facts["world"] == seed]
            rollouts = self._play(seed, [_episode(jobs[number]) for number in here])
            found |= {number: _answer(rollout) for number, rollout in zip(here, rollouts, strict=True)}
        return [found[number] for number in range(len(jobs))]

    def _play(self, seed: int, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        engine, codec = self._loaded
        batch = -(-BATCH // self.workers)
        limits = RolloutConfig(max_turns=MAX_TURNS, max_new_tokens=MAX_NEW_TOKENS, max_context=MAX_CONTEXT)
        shop, version = plain_shop(self.preset, seed), self.version
        rollouts = in_batches(
            lambda some: run_episodes(some, shop, engine, codec, limits, version), episodes, batch, self.workers
        )
        return tuple(_overlong(rollout, shop.reward_parts) for rollout in rollouts)

    @cached_property
    def _loaded(self) -> "tuple[TorchEngine, ChatCodec]":
        import torch
        from transformers.utils import logging

        from intraskill.environments.shopworld.session import SYSTEM, shop_tools
        from intraskill.rl.chat import ChatCodec
        from intraskill.rl.engines.torch_engine import TorchEngine
        from intraskill.rl.policy import load_policy

        logging.disable_progress_bar()
        torch.set_num_threads(self.threads)
        policy = load_policy(self.directory)
        policy.model.requires_grad_(False)
        codec = ChatCodec(policy.tokenizer, shop_tools(), system=SYSTEM)
        engine = TorchEngine(policy, stop_id=codec.stop_id, temperature=self.temperature, max_new_tokens=MAX_NEW_TOKENS)
        return engine, codec


@dataclass(frozen=True)
class ShopVerifier:
    """What the shop paid; an `intraskill.editor.domain.Verifier`.

    Attributes:
        part: the reward component that counts.
    """

    part: str = "r_strict"

    @property
    def version(self) -> str:
        """Hash of the rule; the shop's own rules belong to the domain's version."""
        return content_hash("shop-reward-1", self.part)

    def score(self, query: Query, answer: Answer) -> float:
        """Return it."""
        return float(answer.facts["rollout"].parts[self.part])


def _overlong(rollout: Rollout, parts: Sequence[str]) -> Rollout:
    """Return an episode whose skill leaves no room for an action as one that earned nothing: the editor wrote it."""
    if rollout.fault is None or rollout.token_ids or not rollout.fault.startswith(DOES_NOT_FIT):
        return rollout
    return dataclasses.replace(rollout, fault=None, reward=0.0, parts=dict.fromkeys(parts, 0.0), truncated=True)


def _episode(job: Job) -> Episode:
    return Episode(job.query.facts["task"], job.skill, frozenset(job.skill.ids), 0, job.seed)


def _answer(rollout: Rollout) -> Answer:
    if rollout.fault is not None:
        return Answer(fault=f"worker: {rollout.fault}")
    return Answer(rollout.turns[-1].action if rollout.turns else "", {"rollout": lean(rollout)})
