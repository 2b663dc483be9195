"""Several processes that end together: how they meet, exchange messages, and name whichever of them failed.

Commands, rollouts and errors travel through a gloo group of their own, on the CPU, whose sockets break at once when a
process dies; gradients and weights travel through the group of their device (NCCL on CUDA). Every process also leaves a
heartbeat, and the first failure, in the store that the launcher set up.
"""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from intraskill.config.learning import DistributedConfig
from intraskill.config.quoting import shown
from intraskill.method.errors import ConfigError, IntraSkillError, RankError, offenders
from intraskill.rl.distributed.launch import Launch, launched, strategy_of

_BEAT_S = 0.5
_SILENCE_S = 4.0
_GRACE_S = 20.0
_FAILURE = "failure"


class Ranks:
    """The processes of one run, seen from one of them.

    Attributes:
        rank: this process; 0 leads.
        size: processes in all.
        local_rank: number of its device on this machine.
        strategy: ``ddp`` or ``fsdp``.
        told: why another rank failed, once it is known; that rank says so itself.
        control: group of the messages.
    """

    def __init__(self, launch: Launch, options: DistributedConfig, *, cuda: bool) -> None:
        self.rank, self.size, self.local_rank = launch.rank, launch.size, launch.local_rank
        self.strategy = strategy_of(options, launch)
        self.told: str | None = None
        if cuda:
            torch.cuda.set_device(self.local_rank)
        if os.environ.get("MASTER_PORT") == "0":
            raise ConfigError(
                "MASTER_PORT=0 is no port where processes could meet; use torchrun --standalone, or name one"
            )
        # accelerate launch --use_fsdp lets transformers load weights on rank 0 only; nobody would spread them here.
        os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
        limit = timedelta(seconds=options.timeout_s)
        try:
            store, _, _ = next(iter(rendezvous("env://", timeout=limit)))
        except (ValueError, KeyError) as error:
            raise ConfigError(f"{error}; start the processes by accelerate launch or torchrun") from error
        except (dist.DistError, RuntimeError) as error:
            raise RankError(f"rank {self.rank} of {self.size} did not meet the others: {error}") from error
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
        self._store = PrefixStore("intraskill", store)
        self._watch = _Watch(self, PrefixStore("intraskill", store.clone()))
        with self.naming_who_failed():
            dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.size, timeout=limit)
            self.control = dist.new_group(backend="gloo", timeout=timedelta(seconds=options.patience_s))
        self._watch.start()

    def broadcast(self, message: Any) -> Any:
        """Return rank 0's message on every rank."""
        box = [message]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def gather(self, part: Any) -> list[Any]:
        """Return the parts of all ranks on rank 0, in order; nothing on the others."""
        parts: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(part, parts, dst=0, group=self.control)
        return parts or []

    def everyone(self, part: Any) -> list[Any]:
        """Return the parts of all ranks on every rank, in order."""
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, part, group=self.control)
        return parts

    def report(self, error: BaseException) -> None:
        """Tell the others why this process ends; only the first report counts."""
        note = json.dumps([self.rank, f"{type(error).__name__}: {error}"])
        try:
            self._store.compare_set(_FAILURE, "", note)
        except (dist.DistError, RuntimeError):
            return  # the store went with rank 0

    def failed_elsewhere(self) -> str | None:
        """Return why another rank ended, as far as it could say so."""
        try:
            if self.told is None and self._store.check([_FAILURE]):
                rank, what = json.loads(self._store.get(_FAILURE))
                self.told = None if rank == self.rank else f"rank {rank} of {self.size} failed: {what}"
        except (dist.DistError, RuntimeError):
            return self.told or f"rank 0 of {self.size} ended without a word"
        return self.told

    @contextmanager
    def naming_who_failed(self) -> Iterator[None]:
        """Turn a broken exchange into one error that names the rank behind it.

        Raises:
            RankError: when another rank failed, or gives no sign of life.
        """
        try:
            yield
        except IntraSkillError:
            raise
        except RuntimeError as error:
            reason = self._reason()
            if reason is None and "timed out" in str(error).lower():
                reason = f"a rank of {self.size} did not answer in time (distributed.timeout_s, distributed.patience_s)"
            if reason is None:
                raise
            raise RankError(f"{reason}; the same command continues from the last saved step") from error

    def leave(self) -> None:
        """End in good order; every rank must come here."""
        self._watch.stop()
        dist.destroy_process_group()

    def abandon(self) -> None:
        """End without the others: they notice that this process's sockets close."""
        self._watch.stop()
        if self.rank == 0:
            time.sleep(3 * _BEAT_S)  # the store often ends with this process: let the others read the report first

    def _reason(self) -> str | None:
        waited_until = time.monotonic() + _SILENCE_S
        before = self._beats()
        while True:
            if reason := self.failed_elsewhere():
                return reason
            if time.monotonic() > waited_until:
                break
            time.sleep(_BEAT_S)
        silent = [rank for rank, beat in self._beats().items() if beat == before.get(rank) and rank != self.rank]
        if not silent:
            return None
        named = ", ".join(map(str, silent[:3]))
        return f"rank {named} of {self.size} ended without a word (killed, out of memory, or its machine is gone)"

    def _beats(self) -> dict[int, int]:
        try:
            return {rank: int(self._store.add(f"beat/{rank}", 0)) for rank in range(self.size)}
        except (dist.DistError, RuntimeError):
            return {}


class _Watch:
    """A thread that beats, and ends a process which cannot notice by itself that another one failed.

    A process that waits in a kernel for a gradient that never comes hears nothing of a broken socket.
    """

    def __init__(self, ranks: Ranks, store: Store) -> None:
        self._ranks, self._store = ranks, store
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2 * _BEAT_S)

    def _run(self) -> None:
        since: float | None = None
        while not self._over.wait(_BEAT_S):
            if self._broken():
                since = since or time.monotonic()
                if time.monotonic() - since > _GRACE_S:
                    reason = self._ranks.failed_elsewhere() or "this rank failed and did not end"
                    sys.stderr.write(shown(f"intraskill: rank {self._ranks.rank} ends: {reason}\n"))
                    sys.stderr.flush()
                    os._exit(2)

    def _broken(self) -> bool:
        try:
            self._store.add(f"beat/{self._ranks.rank}", 1)
            self._ranks.failed_elsewhere()
            return bool(self._store.check([_FAILURE]))
        except (dist.DistError, RuntimeError):
            return True


_joined: list[Ranks] = []


@contextmanager
def joined(options: DistributedConfig, *, cuda: bool) -> Iterator[Ranks]:
    """Meet the other processes of this launch, and end with them, whatever ends the block.

    Raises:
        ConfigError: without a launcher's environment, or when the config wants one process.
        RankError: when another process failed.
    """
    ranks = Ranks(launched(), options, cuda=cuda)
    _joined.append(ranks)
    try:
        yield ranks
    except BaseException as error:
        ranks.report(error)
        ranks.abandon()
        raise
    else:
        ranks.leave()
    finally:
        _joined.clear()


def present() -> Ranks | None:
    """Return the processes that this one has joined; ``None`` when it is alone.

    Raises:
        ConfigError: when a launcher started several, and this command works in one.
    """
    if _joined:
        return _joined[0]
    if (size := launched().size) > 1:
        raise ConfigError(
            f"a launcher started {size} processes, and only intraskill train and editor train share work; start this "
            "in one"
        )
    return None


def device_of(wanted: str, ranks: Ranks | None) -> str:
    """Return the device of this process's weights; among several, each has the GPU of its number on its machine.

    Args:
        wanted: ``policy.device``.
        ranks: the processes, if there are several.

    Raises:
        ConfigError: when there is no such device, or one for all processes is named.
    """
    here = torch.cuda.is_available()
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?", wanted):
        raise ConfigError(f"policy.device={wanted} is none of auto, cpu, cuda, cuda:0, cuda:1, …; use one of them")
    if wanted.startswith("cuda") and not here:
        raise ConfigError(f"policy.device={wanted}, but this torch finds no CUDA device; use policy.device=cpu")
    if wanted.startswith("cuda:") and int(wanted[5:]) >= torch.cuda.device_count():
        raise ConfigError(
            f"policy.device={wanted}, but this machine shows {torch.cuda.device_count()} GPUs, from cuda:0 on"
        )
    if ranks is None:
        return ("cuda" if here else "cpu") if wanted == "auto" else wanted
    if wanted == "cpu" or not here:
        return "cpu"
    if wanted.startswith("cuda:"):
        raise ConfigError(f"policy.device={wanted} names one device for {ranks.size} processes; use policy.device=cuda")
    if ranks.local_rank >= torch.cuda.device_count():
        raise ConfigError(
            f"local rank {ranks.local_rank} has no GPU, this machine shows {torch.cuda.device_count()}; start one "
            "process per GPU"
        )
    return f"cuda:{ranks.local_rank}"


def same(ranks: Ranks, what: str, found: Sequence[Any]) -> None:
    """Refuse ranks that hold something else than rank 0.

    Raises:
        RankError: naming them.
    """
    if odd := [f"rank {rank}: {value}" for rank, value in enumerate(found) if value != found[0]]:
        raise RankError(
            f"{len(odd)} of {ranks.size} ranks have other {what} than rank 0 ({found[0]}), {offenders(odd)}; start all "
            "of them with the same command, versions and files"
        )
