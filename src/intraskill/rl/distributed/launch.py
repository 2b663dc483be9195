"""How many processes a launcher started, and which of them this one is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from intraskill.config.learning import DistributedConfig
from intraskill.method.errors import ConfigError


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
    variables = os.environ if environment is None else environment
    try:
        size = int(variables.get("WORLD_SIZE", "1"))
        rank = int(variables["RANK"]) if size > 1 else 0
        local = int(variables.get("LOCAL_RANK", rank))
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"WORLD_SIZE={variables.get('WORLD_SIZE')!r} with RANK={variables.get('RANK')!r} does not tell how many "
            "processes were started; use accelerate launch or torchrun, or unset WORLD_SIZE"
        ) from error
    if size < 1 or not 0 <= rank < size:
        raise ConfigError(f"RANK={rank} is not in [0, WORLD_SIZE={size})")
    return Launch(rank, size, local, variables.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true"))


def strategy_of(options: DistributedConfig, launch: Launch) -> str:
    """Return ``none``, ``ddp`` or ``fsdp``.

    Raises:
        ConfigError: when several processes were started although the config wants one.
    """
    if launch.size == 1:
        return "none"
    if options.strategy == "none":
        raise ConfigError(
            f"distributed.strategy=none, but the launcher started {launch.size} processes; start one, or set "
            "distributed.strategy=ddp or fsdp"
        )
    if options.strategy == "auto":
        return "fsdp" if launch.sharded else "ddp"
    return options.strategy


def described(options: DistributedConfig, launch: Launch) -> str:
    """Return one phrase on the processes of this launch.

    Raises:
        ConfigError: as `strategy_of`.
    """
    strategy = strategy_of(options, launch)
    return "1 process" if strategy == "none" else f"{launch.size} processes, {strategy}"
