"""A frozen shopper: a small policy plays shop tasks with a skill in its prompt, many at once; the shop pays it.

An episode that broke technically is a fault. One that ran into a limit of actions or tokens, be it for an overlong
skill, was ended by the agent's own doing: the shop pays nothing for it, as everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from intraskill.editor.domain import Answer, Job, Query
from intraskill.editor.domains.shop_tasks import PAGE_SIZE, plain_shop
from intraskill.method.randomness import content_hash
from intraskill.method.rollouts import Episode, Rollout
from intraskill.runtime.records import lean
from intraskill.runtime.rollout import RolloutLimits, run_episodes
from intraskill.runtime.run_directory import file_hash

if TYPE_CHECKING:
    from intraskill.runtime.chat import ChatCodec
    from intraskill.runtime.torch_engine import TorchEngine

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
        limits = (self.temperature, PAGE_SIZE, MAX_TURNS, MAX_NEW_TOKENS, MAX_CONTEXT)
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
        limits = RolloutLimits(MAX_TURNS, MAX_NEW_TOKENS, MAX_CONTEXT, batch, self.workers)
        return run_episodes(episodes, plain_shop(self.preset, seed), engine, codec, limits, self.version)

    @cached_property
    def _loaded(self) -> "tuple[TorchEngine, ChatCodec]":
        import torch
        from transformers.utils import logging

        from intraskill.environments.shopworld.session import shop_tools
        from intraskill.runtime.chat import ChatCodec
        from intraskill.runtime.policy import load_policy
        from intraskill.runtime.torch_engine import TorchEngine

        logging.disable_progress_bar()
        torch.set_num_threads(self.threads)
        policy = load_policy(self.directory)
        policy.model.requires_grad_(False)
        codec = ChatCodec(policy.tokenizer, shop_tools())
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


def _episode(job: Job) -> Episode:
    return Episode(job.query.facts["task"], job.skill, frozenset(job.skill.ids), 0, job.seed)


def _answer(rollout: Rollout) -> Answer:
    if rollout.fault is not None:
        return Answer(fault=f"worker: {rollout.fault}")
    return Answer(rollout.turns[-1].action if rollout.turns else "", {"rollout": lean(rollout)})
