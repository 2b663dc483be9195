"""Sharded weights (FSDP2): each process holds and saves a part of every weight, gradient and optimizer state."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from transformers import DynamicCache

from intraskill.method.errors import CheckpointError, offenders
from intraskill.method.rollouts import Rollout
from intraskill.rl.checkpoints import (
    MANIFEST,
    SHARDED,
    Parameters,
    check_files,
    load_checkpoint,
    read_manifest,
    read_parts,
    weights_hash,
    write_manifest,
)
from intraskill.rl.distributed.ddp import Replicated, dealt
from intraskill.rl.distributed.group import Ranks, same
from intraskill.rl.logprobs import TokenLogprobs, batch_logprobs, unshareable
from intraskill.rl.micro_batches import Layout
from intraskill.rl.policy import Policy
from intraskill.rl.self_check import verdict
from intraskill.store.run_directory import file_hash

_Tensors = tuple[torch.Tensor, ...]


class _Through(torch.nn.Module):
    """Runs any work with this model's weights in reach."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[[], _Tensors]) -> _Tensors:
        return work()


class Sharded(Replicated):
    """Shards a policy's weights in place; build its optimizer after this.

    Raises:
        RankError: when the ranks did not load the same weights.
    """

    def __init__(self, ranks: Ranks, policy: Policy) -> None:
        super().__init__(ranks)
        self.scale = float(ranks.size)  # the exchange averages
        # Before they are sharded: what is put together from shards is the same everywhere, right or wrong.
        same(ranks, "start weights", ranks.everyone(weights_hash(policy.trainable() | policy.frozen())))
        mesh = init_device_mesh(policy.device.type, (ranks.size,))
        for layer in policy.backbone.layers:
            fully_shard(layer, mesh=mesh)
        self._root = _Through(policy.model)
        fully_shard(self._root, mesh=mesh)
        self._sharded = [module for module in self._root.modules() if isinstance(module, FSDPModule)]
        # The first forward pass decides which module is the root; a rollout would make it a layer.
        self._root(lambda: ())
        self._reshard()

    def deal(self, costs: Sequence[float]) -> tuple[list[int], int]:
        """Deal the micro-batches out and fill up with the cheapest one, so that all have equally many."""
        shares = dealt(costs, self.parts)
        own = shares[self.ranks.rank]
        missing = max(map(len, shares)) - len(own)
        return own + [costs.index(min(costs))] * missing, missing

    def through(self, score: Callable[[], TokenLogprobs]) -> TokenLogprobs:
        """Run a forward pass; its backward pass leaves each process its part of the summed gradient."""

        def work() -> _Tensors:
            found = score()
            return found.logprobs, found.entropy, found.mask

        return TokenLogprobs(*self._root(work))

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Hold all weights whole, as rollouts need them: their forward passes are as many as episodes take."""
        for module in self._sharded:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        try:
            yield
        finally:
            for module in self._sharded:
                module.set_reshard_after_forward(not isinstance(module, _Through), recurse=False)
            self._reshard()

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Do nothing: the backward passes summed them."""

    def disagreement(self, policy: Policy, rollouts: Sequence[Rollout], layout: Layout, **options: Any) -> str | None:
        """Compare by two backward passes, all processes on the same rollouts."""
        if odd := unshareable(DynamicCache(config=policy.causal.config)):
            return f"this model caches {', '.join(odd)}"
        shared_BS, shared = self._gradient(policy, rollouts, layout, options)
        dense_BS, dense = self._gradient(policy, rollouts, "dense", options)
        squares = [
            (float((a - b).double().pow(2).sum()), float(b.double().pow(2).sum()))
            for a, b in zip(shared, dense, strict=True)
        ]
        apart, whole = self.total([sum(square) for square in zip(*squares, strict=True)])
        relative = (apart / whole) ** 0.5 if whole else apart**0.5
        largest = float((shared_BS - dense_BS).abs().max())
        own = verdict(largest, relative, policy.causal.dtype, layout)
        return next((found for found in self.ranks.everyone(own) if found is not None), None)

    def save(self, directory: Path, policy: Policy, optimizer: torch.optim.Optimizer, facts: dict[str, Any]) -> None:
        """Let every process write its part; the directory must be one that all of them see."""
        _save_shards(directory, policy.trainable(), optimizer, facts, self.ranks)

    def load(
        self, directory: Path, policy: Policy, optimizer: torch.optim.Optimizer, expected: dict[str, str]
    ) -> dict[str, Any]:
        """Read a checkpoint, sharded among any number of processes or whole; all processes must see it."""
        return _load_shards(directory, policy.trainable(), optimizer, expected, self.ranks)

    def _gradient(
        self, policy: Policy, rollouts: Sequence[Rollout], layout: Layout, options: dict[str, Any]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        logprobs_BS = self.through(lambda: batch_logprobs(policy, rollouts, layout=layout, **options)).logprobs
        # Unequal weights: equal ones would not notice two swapped rows.
        weights_BS = torch.linspace(0.5, 2, logprobs_BS.numel(), device=logprobs_BS.device).view_as(logprobs_BS)
        (logprobs_BS * weights_BS).sum().backward()
        moved = [p for p in policy.trainable().values() if p.grad is not None]
        local = [p.grad.to_local().clone() for p in moved]  # type: ignore[union-attr]  # a DTensor
        for p in moved:
            p.grad = None
        return logprobs_BS.detach(), local

    def _reshard(self) -> None:
        for module in self._sharded:
            module.reshard()


def _save_shards(
    directory: Path, parameters: Parameters, optimizer: torch.optim.Optimizer, facts: Mapping[str, Any], ranks: Ranks
) -> None:
    """Write weights and optimizer state, each process its shards, and the manifest last.

    Args:
        directory: exists, and is the same for all processes.
        parameters: trainable parameters by name.
        optimizer: holds exactly these parameters.
        facts: JSON values that loading returns.
        ranks: the processes.

    Raises:
        CheckpointError: when a process does not see the directory.
    """
    (directory / MANIFEST).unlink(missing_ok=True)
    if blind := [rank for rank, sees in enumerate(ranks.everyone(directory.is_dir())) if not sees]:
        raise CheckpointError(
            f"{directory} is not there for ranks {offenders(blind)}; sharded weights need a run_dir on a file system "
            "that all machines share"
        )
    state = {name: p.detach() for name, p in parameters.items()}
    state |= {
        f"{name}/{slot}": value for name, p in parameters.items() for slot, value in optimizer.state.get(p, {}).items()
    }
    save(state, checkpoint_id=directory)
    own = sorted(path.name for path in directory.glob(f"__{ranks.rank}_*.distcp"))
    hashes = ranks.gather({name: file_hash(directory / name) for name in own})
    if ranks.rank == 0:
        files = {name: found for part in hashes for name, found in part.items()}
        files[".metadata"] = file_hash(directory / ".metadata")
        kept = sorted({slot for p in parameters.values() for slot in optimizer.state.get(p, {})})
        write_manifest(directory, {"format": SHARDED, "slots": kept, "shards": ranks.size, **facts}, files)
    ranks.everyone(None)


def _load_shards(
    directory: Path, parameters: Parameters, optimizer: torch.optim.Optimizer, expected: Mapping[str, str], ranks: Ranks
) -> dict[str, Any]:
    """Restore a checkpoint of either kind into sharded weights; every process checks its part of the files.

    Raises:
        CheckpointError: if it is missing, corrupt, or of another model.
    """
    manifest = read_manifest(directory, expected)
    if manifest["format"] != SHARDED:
        return load_checkpoint(directory, parameters, optimizer, expected)
    names = sorted(manifest["files"])[ranks.rank :: ranks.size]
    check_files(directory, {name: manifest["files"][name] for name in names})
    ranks.everyone(None)
    read_parts(directory, parameters, optimizer, manifest, alone=False)
    return manifest
