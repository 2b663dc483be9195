"""One learner made of several processes: rank 0 runs the loop and commands, the other ranks serve.

The loop sees a `Learner` and knows nothing of ranks: every method of it is one command that all ranks carry out, with
the exchanges inside it in the same order. Episodes are dealt out in runs of one context, so that a group's rollouts
share their prefill; each has its own seed, so the rollouts are those of one process.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

from intraskill.config.config import Config
from intraskill.method.errors import ConfigError, EngineError, RankError, offenders
from intraskill.method.rollouts import Episode, GroupResult, Rollout
from intraskill.rl.chat import ChatCodec
from intraskill.rl.distributed.ddp import Alone, Replicated
from intraskill.rl.distributed.group import Ranks, same
from intraskill.rl.learner import Learner
from intraskill.rl.policy import Policy
from intraskill.rl.trainer import TorchLearner


@runtime_checkable
class _Placed(Protocol):
    """An environment whose tasks are made on rank 0 as it goes, such as the states of an editor."""

    @property
    def placed(self) -> Sequence[Any]:
        """What the tasks are made of now; it can be pickled."""

    def place(self, parts: Iterable[Any]) -> object:
        """Make tasks of ``parts``."""


class DistributedLearner:
    """The learner of rank 0; implements `rl.learner.Learner`.

    Args:
        local: rank 0's own.
        ranks: all processes; the others must be in `serve`.
        elsewhere: rollouts come from servers, which rank 0 alone talks to.

    Raises:
        RankError: when a rank has other weights or another environment than rank 0, or fails.
    """

    def __init__(self, local: TorchLearner, ranks: Ranks, *, elsewhere: bool = False) -> None:
        self._local, self._ranks, self._elsewhere = local, ranks, elsewhere
        self._checkpoint: str | None = None
        with ranks.naming_who_failed():
            same(ranks, "conditions", ranks.gather(local.conditions))
        self._checkpoint = self.checkpoint

    @property
    def checkpoint(self) -> str:
        """Hash of the weights, which every rank computes.

        Raises:
            RankError: when the ranks' weights have drifted apart.
        """
        if self._checkpoint is None:
            found = self._command("checkpoint")
            same(self._ranks, "weights", found)
            self._checkpoint = found[0]
        return self._checkpoint

    @property
    def conditions(self) -> dict[str, str]:
        """Hashes of what else a fair comparison holds fixed."""
        return self._local.conditions

    @property
    def policy(self) -> Policy:
        """Rank 0's policy, for what does not depend on its weights: with FSDP it holds a shard of them only."""
        return self._local.policy

    @property
    def codec(self) -> ChatCodec:
        """How every rank writes prompts."""
        return self._local.codec

    def run(self, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        """Run every episode at the current weights, shared among the ranks; return the rollouts in order."""
        checkpoint = self.checkpoint
        size = self._ranks.size
        if isinstance(self._local.env, _Placed):
            self._command("place", self._local.env.placed)
        shares = [list(episodes), *[[]] * (size - 1)] if self._elsewhere else shared(episodes, size)
        parts = self._command("run", shares)
        rollouts = tuple(rollout for part in parts for rollout in part)
        if stale := [r.task_id for r in rollouts if r.checkpoint != checkpoint]:
            raise RankError(f"rollouts of other weights than {checkpoint}, {offenders(stale)}")
        return rollouts

    def update(self, groups: Sequence[GroupResult]) -> dict[str, Any]:
        """Take one optimizer step per ``updates_per_batch``, shared among the ranks; see `TorchLearner.update`."""
        self._checkpoint = None
        metrics: dict[str, Any] = self._command("update", [_without_turns(group) for group in groups])[0]
        return metrics

    def save(self, directory: Path) -> None:
        """Write weights and optimizer state into ``directory``."""
        self._command("save", directory)

    def load(self, directory: Path) -> None:
        """Restore exactly what `save` wrote, whatever the number of processes then.

        Raises:
            CheckpointError: if it is missing, corrupt, or of another model.
        """
        self._checkpoint = None
        self._command("load", directory)

    def _command(self, name: str, argument: Any = None) -> list[Any]:
        with self._ranks.naming_who_failed():
            self._ranks.broadcast((name, argument))
            return self._ranks.gather(_carry_out(self._local, self._ranks, name, argument))


def led(local: TorchLearner, ranks: Ranks, *, elsewhere: bool) -> Learner:
    """Return the learner that commands all ranks, on rank 0; on the others, the one that serves it."""
    return DistributedLearner(local, ranks, elsewhere=elsewhere) if ranks.rank == 0 else local


def serve(local: TorchLearner, ranks: Ranks) -> None:
    """Carry out rank 0's commands until it says that there are no more.

    Raises:
        RankError: when another rank failed.
    """
    with ranks.naming_who_failed():
        ranks.gather(local.conditions)
        while (message := ranks.broadcast(None)) is not None:
            ranks.gather(_carry_out(local, ranks, *message))


def dismiss(ranks: Ranks) -> None:
    """Let the other ranks end in good order."""
    with ranks.naming_who_failed():
        ranks.broadcast(None)


def _carry_out(local: TorchLearner, ranks: Ranks, name: str, argument: Any) -> Any:
    if name == "checkpoint":
        return local.checkpoint
    if name == "place":
        assert isinstance(local.env, _Placed)
        local.env.place(argument)
        return None
    if name == "run":
        return local.run(argument[ranks.rank])
    if name == "update":
        metrics = local.update(argument)
        return metrics if ranks.rank == 0 else None
    return {"save": local.save, "load": local.load}[name](argument)


def shared(episodes: Sequence[Episode], parts: int) -> list[list[Episode]]:
    """Cut episodes into consecutive shares of about equal length; a group is cut only if there are too few of them."""
    ends = [0]
    for _, group in groupby(episodes, key=lambda episode: (episode.task.id, episode.visible)):
        ends.append(ends[-1] + len(list(group)))
    if len(ends) - 1 < parts:
        ends = list(range(len(episodes) + 1))
    wanted = [round(part * len(episodes) / parts) for part in range(parts + 1)]
    cuts = [min(ends, key=lambda end: (abs(end - want), end)) for want in wanted]
    return [list(episodes[first:last]) for first, last in zip(cuts, cuts[1:], strict=False)]


class NoEngine:
    """The engine of a rank whose rollouts come from servers: rank 0 alone asks them."""

    def serve(self, checkpoint: str) -> None:
        """Publish nothing: rank 0 does."""

    def open(self, prompts: Sequence[tuple[int, ...]]) -> NoReturn:
        """Refuse any rollout but an empty batch, which never comes here.

        Raises:
            EngineError: always.
        """
        raise EngineError(f"{len(prompts)} rollouts for a rank that has no engine; report this")


def together_of(ranks: Ranks | None, policy: Policy, config: Config) -> Alone:
    """Return how updates are shared; for FSDP this shards the policy.

    Raises:
        ConfigError: for what sharded weights do not support.
    """
    if ranks is None:
        return Alone()
    if ranks.strategy == "ddp":
        return Replicated(ranks)
    if config.workers > 1:
        raise ConfigError(
            f"workers={config.workers} threads cannot share sharded weights; set workers=1 and start more processes, "
            "or set distributed.strategy=ddp"
        )
    if config.grpo.kl_beta and not policy.frozen():
        raise ConfigError(
            "grpo.kl_beta needs a second copy of all weights, which distributed.strategy=fsdp does not keep; set "
            "policy.lora_rank, or distributed.strategy=ddp"
        )
    from intraskill.rl.distributed.fsdp import Sharded

    return Sharded(ranks, policy)


def refuse_engine(engine: str, ranks: Ranks | None) -> None:
    """Refuse an engine that cannot be shared.

    Raises:
        ConfigError: for vLLM inside several processes.
    """
    if ranks is not None and engine == "vllm":
        raise ConfigError(
            f"rollout.engine=vllm starts one engine in this process, and there are {ranks.size}; use "
            "rollout.engine=vllm_server with one server per group of GPUs, or rollout.engine=torch"
        )


def _without_turns(group: GroupResult) -> GroupResult:
    """Leave out what an update does not read."""
    return GroupResult(group.group, tuple(dataclasses.replace(r, turns=(), request="") for r in group.rollouts))
