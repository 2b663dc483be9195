"""How many processes train together, from the launcher's environment, and the knobs for it; free of torch."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from intraskill.method.errors import ConfigError
from intraskill.runtime.knobs import knob

STRATEGIES = ("auto", "none", "ddp", "fsdp")


@dataclass
class DistributedConfig:
    """What several processes, started by accelerate launch or torchrun, need to know."""

    strategy: str = knob(
        "auto", "ddp: weights on every device; fsdp: sharded; auto: what the launcher asks for", choices=STRATEGIES
    )
    timeout_s: float = knob(1800.0, "longest wait for another process inside one update, save or load, s", "(0, inf)")
    patience_s: float = knob(86400.0, "longest wait for the next command, or for the slowest rollouts, s", "(0, inf)")


@dataclass(frozen=True, slots=True)
class Launch:
    """This process among those that a launcher started together.

    Attributes:
        rank: 0 runs the loop, all others serve it.
        size: processes in all.
        local_rank: number on this machine, which is the number of its GPU.
        sharded: the launcher was asked for FSDP (``accelerate launch --use_fsdp``).
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    sharded: bool = False


def launched(environment: Mapping[str, str] | None = None) -> Launch:
    """Read what torchrun and accelerate launch put into the environment.

    Raises:
        ConfigError: for numbers that make no sense.
    """
    found = os.environ if environment is None else environment
    try:
        size = int(found.get("WORLD_SIZE", "1"))
        rank = int(found["RANK"]) if size > 1 else 0
        local = int(found.get("LOCAL_RANK", rank))
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"WORLD_SIZE={found.get('WORLD_SIZE')!r} with RANK={found.get('RANK')!r} does not tell how many processes "
            "were started; use accelerate launch or torchrun, or unset WORLD_SIZE"
        ) from error
    if size < 1 or not 0 <= rank < size:
        raise ConfigError(f"RANK={rank} is not in [0, WORLD_SIZE={size})")
    return Launch(rank, size, local, found.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true"))


def strategy_of(knobs: DistributedConfig, launch: Launch) -> str:
    """Return ``none``, ``ddp`` or ``fsdp``.

    Raises:
        ConfigError: when several processes were started although the config wants one.
    """
    if launch.size == 1:
        return "none"
    if knobs.strategy == "none":
        raise ConfigError(
            f"distributed.strategy=none, but the launcher started {launch.size} processes; start one, or set "
            "distributed.strategy=ddp or fsdp"
        )
    if knobs.strategy == "auto":
        return "fsdp" if launch.sharded else "ddp"
    return knobs.strategy


def described(knobs: DistributedConfig, launch: Launch) -> str:
    """Return one phrase on the processes of this launch.

    Raises:
        ConfigError: as `strategy_of`.
    """
    strategy = strategy_of(knobs, launch)
    return "1 process" if strategy == "none" else f"{launch.size} processes, {strategy}"
