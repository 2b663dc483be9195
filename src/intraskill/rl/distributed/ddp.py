"""How an update is shared: not at all, or with all weights in every process (DDP); sharded: `distributed_shards`.

Micro-batches are cut as by one process and then dealt out by tokens, so each of them gives the numbers that it gives
alone; only the order in which gradients are added differs.

The gradients of `Replicated` are summed explicitly, once per optimizer step, and not by torch's
`DistributedDataParallel`: a micro-batch calls the backbone twice and reads the head's weight without the wrapper's
forward; a wrapper would exchange after every micro-batch, average, and wait for ranks that have none; and ``workers``
adds up the gradients of its replicas only after the backward passes. Lost is the overlap with the last backward pass.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from intraskill.method.rollouts import Rollout
from intraskill.rl.checkpoints import load_checkpoint, save_checkpoint
from intraskill.rl.distributed.group import Ranks
from intraskill.rl.logprobs import TokenLogprobs
from intraskill.rl.micro_batches import Layout, by_prompt
from intraskill.rl.policy import Policy
from intraskill.rl.self_check import disagreement

_BUCKET_BYTES = 2**26
"""Most bytes of gradients that one exchange copies."""


class Alone:
    """One process; also what the other ways have in common.

    Attributes:
        parts: among how many processes micro-batches are dealt out.
        scale: factor of a loss whose gradient the exchange will average.
    """

    parts = 1
    scale = 1.0

    def deal(self, costs: Sequence[float]) -> tuple[list[int], int]:
        """Return the indices of this process's micro-batches, and how many of them, at the end, only keep step."""
        return list(range(len(costs))), 0

    def through(self, score: Callable[[], TokenLogprobs]) -> TokenLogprobs:
        """Run a forward pass whose gradient is wanted."""
        return score()

    def gathered(self) -> AbstractContextManager[None]:
        """Within it every weight is whole on every process, and nobody waits for anybody."""
        return nullcontext()

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Give every parameter the sum of its gradients."""

    def total(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all processes."""
        return list(values)

    def disagreement(self, policy: Policy, rollouts: Sequence[Rollout], layout: Layout, **options: Any) -> str | None:
        """Return how a layout differs from the dense one, the same words in every process; see `self_check`."""
        return disagreement(policy, rollouts, layout, **options)

    def save(self, directory: Path, policy: Policy, optimizer: torch.optim.Optimizer, facts: dict[str, Any]) -> None:
        """Write a checkpoint."""
        save_checkpoint(directory, policy.trainable(), optimizer, facts)

    def load(
        self, directory: Path, policy: Policy, optimizer: torch.optim.Optimizer, expected: dict[str, str]
    ) -> dict[str, Any]:
        """Read a checkpoint of any kind; return its facts."""
        return load_checkpoint(directory, policy.trainable(), optimizer, expected)


class Replicated(Alone):
    """All weights in every process; gradients are summed. Only rank 0 touches the disk."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.parts = ranks.size

    def deal(self, costs: Sequence[float]) -> tuple[list[int], int]:
        """Deal the micro-batches out; a rank may get none."""
        return dealt(costs, self.parts)[self.ranks.rank], 0

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Sum in buckets; a parameter without a gradient in any process keeps none, as it does alone."""
        found = torch.tensor([p.grad is not None for p in parameters], dtype=torch.float32, device=parameters[0].device)
        dist.all_reduce(found)
        learning = [p for p, count in zip(parameters, found.tolist(), strict=True) if count]
        for bucket in _buckets(learning):
            flat = torch.cat([torch.zeros_like(p).view(-1) if p.grad is None else p.grad.reshape(-1) for p in bucket])
            dist.all_reduce(flat)
            for p, summed in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad = summed.view_as(p)

    def total(self, values: Sequence[float]) -> list[float]:
        """Sum in double precision over the control group."""
        summed = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(summed, group=self.ranks.control)
        return [float(value) for value in summed]

    def disagreement(self, policy: Policy, rollouts: Sequence[Rollout], layout: Layout, **options: Any) -> str | None:
        """Let every process compare; the first one that finds a difference decides for all."""
        own = disagreement(policy, rollouts, layout, **options)
        return next((found for found in self.ranks.everyone(own) if found is not None), None)

    def save(self, directory: Path, policy: Policy, optimizer: torch.optim.Optimizer, facts: dict[str, Any]) -> None:
        """Write the very files that one process writes."""
        if self.ranks.rank == 0:
            super().save(directory, policy, optimizer, facts)

    def load(
        self, directory: Path, policy: Policy, optimizer: torch.optim.Optimizer, expected: dict[str, str]
    ) -> dict[str, Any]:
        """Read on rank 0 and send weights and optimizer state to the others, which need not see the directory."""
        facts: dict[str, Any] = {}
        if self.ranks.rank == 0:
            facts = super().load(directory, policy, optimizer, expected)
        parameters = policy.trainable()
        held = {name: optimizer.state.get(p, {}) for name, p in parameters.items()}
        slots = [(name, key, tuple(value.shape), value.dtype) for name in held for key, value in held[name].items()]
        facts, slots = self.ranks.broadcast((facts, slots))
        if self.ranks.rank:
            optimizer.state.clear()
        for p in parameters.values():
            dist.broadcast(p.data, src=0)
        for name, key, shape, dtype in slots:
            p = parameters[name]
            if self.ranks.rank:
                # AdamW keeps its step counter on the CPU and its moments beside the weights.
                optimizer.state[p][key] = torch.empty(shape, dtype=dtype, device=p.device if shape else "cpu")
            dist.broadcast(optimizer.state[p][key], src=0)
        return facts


def dealt(costs: Sequence[float], parts: int) -> list[list[int]]:
    """Deal indices out so that the largest sum is small: the dearest first, each to whoever has least so far."""
    shares: list[list[int]] = [[] for _ in range(parts)]
    loads = [0.0] * parts
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        least = loads.index(min(loads))
        shares[least].append(index)
        loads[least] += costs[index]
    return shares


def forwarded_tokens(rollouts: Sequence[Rollout], members: Sequence[int], layout: Layout) -> float:
    """Return about how many tokens a micro-batch forwards."""
    suffixes = sum(len(rollouts[i].token_ids) for i in members)
    if layout == "dense":
        return float(suffixes + sum(len(rollouts[i].prompt_ids) for i in members))
    return float(suffixes + sum(map(len, by_prompt([rollouts[i] for i in members]))))


def _buckets(parameters: Sequence[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Cut parameters into runs of one number type and at most `_BUCKET_BYTES`, one parameter at least."""
    run: list[torch.nn.Parameter] = []
    size = 0
    for p in parameters:
        bytes_of = p.numel() * p.element_size()
        if run and (p.dtype != run[0].dtype or size + bytes_of > _BUCKET_BYTES):
            yield run
            run, size = [], 0
        run.append(p)
        size += bytes_of
    if run:
        yield run
