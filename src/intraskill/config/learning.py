"""Options of rollouts, updates, engines and processes; free of torch, so that a config can be read without it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from intraskill.config.option import option
from intraskill.method.errors import ConfigError

LossKind = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"]
LOSSES: tuple[LossKind, ...] = get_args(LossKind)
SelfCheck = Literal["fallback", "error", "off"]


@dataclass(frozen=True, slots=True)
class TrainerSettings:
    """Every option of rollouts and updates.

    Attributes:
        lr: AdamW's learning rate after warm-up.
        betas: AdamW's moment decays.
        weight_decay: decoupled weight decay.
        max_grad_norm: gradients above this global norm are scaled down to it.
        warmup_steps: optimizer steps of linear warm-up from lr / warmup_steps.
        loss: see `grpo.Objective`.
        epsilon_low: see `grpo.Objective`.
        epsilon_high: see `grpo.Objective`.
        beta: see `grpo.Objective`; the reference is the policy as first loaded.
        entropy_coef: weight of the mean token entropy, which is subtracted from the loss.
        updates_per_batch: optimizer steps on the same rollouts.
        token_budget: most forwarded tokens of one micro-batch, padding included.
        shared_prefix: forward each group's prompt once instead of once per rollout.
        checkpoint_activations: keep only what enters each layer, and recompute the rest backward.
        self_check: what the first update does when a shared prefix gives other numbers than the dense path: go on
            dense (``fallback``) or stop (``error``); ``off`` compares nothing.
        temperature: sampling temperature, > 0.
        max_turns: actions per episode.
        max_new_tokens: tokens per action.
        max_context: tokens per episode, prompt included.
        constrained: sample only what the page admits, and renormalise log-probabilities over the same tokens.
        rollout_batch: episodes that run at once.
        workers: threads that share rollout batches and micro-batches; more than one pays for small models on a CPU
            (`replicas`), and the environment must then serve sessions from several threads.
        mismatch_cap: see `grpo.Objective`.
    """

    lr: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    warmup_steps: int = 0
    loss: LossKind = "grpo"
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    beta: float = 0.0
    entropy_coef: float = 0.0
    updates_per_batch: int = 1
    token_budget: int = 4096
    shared_prefix: bool = True
    checkpoint_activations: bool = False
    self_check: SelfCheck = "fallback"
    temperature: float = 1.0
    max_turns: int = 10
    max_new_tokens: int = 32
    max_context: int = 1024
    constrained: bool = False
    rollout_batch: int = 64
    workers: int = 1
    mismatch_cap: float = 0.0

    def __post_init__(self) -> None:
        positive = ("lr", "max_grad_norm", "updates_per_batch", "token_budget", "temperature", "max_turns")
        for name in (*positive, "max_new_tokens", "max_context", "rollout_batch", "workers"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")
        if min(self.weight_decay, self.warmup_steps, self.entropy_coef) < 0:
            raise ConfigError("weight_decay, warmup_steps and entropy_coef must not be negative")
        if self.loss not in LOSSES:
            raise ConfigError(f"unknown loss {self.loss!r}; use one of {', '.join(LOSSES)}")
        if self.self_check not in get_args(SelfCheck):
            raise ConfigError(f"unknown self_check {self.self_check!r}; use one of {', '.join(get_args(SelfCheck))}")


TESTED_VERSION = "0.31"


@dataclass
class VllmConfig:
    """What rollout.engine=vllm and rollout.engine=vllm_server need to know."""

    version: str = option(TESTED_VERSION, f"prefix of the vLLM version that is expected; {TESTED_VERSION} is tested")
    options: dict[str, Any] = option({}, "engine vllm: further arguments of vllm.LLM, such as tensor_parallel_size")
    probe_tolerance: float = option(
        0.0, "largest mean log-probability gap of a swap's probe, nats; 0 = 1e-3 in float32, 0.1 in bfloat16", "[0, 10]"
    )
    urls: list[str] = option([], "engine vllm_server: addresses, such as http://node1:8000; rows are shared among them")
    served_model: str = option("", "engine vllm_server: name of the start weights there; empty = the only model")
    adapter_dir: str = option("", "engine vllm_server: where it finds adapters; empty = temporary, same machine")
    api_key_env: str = option("VLLM_API_KEY", "environment variable that holds the servers' key; it is never written")
    patience_s: float = option(600.0, "longest wait for one answer, a server's restart included, seconds", "(0, inf)")


STRATEGIES = ("auto", "none", "ddp", "fsdp")


@dataclass
class DistributedConfig:
    """What several processes, started by accelerate launch or torchrun, need to know."""

    strategy: str = option(
        "auto", "ddp: weights on every device; fsdp: sharded; auto: what the launcher asks for", choices=STRATEGIES
    )
    timeout_s: float = option(1800.0, "longest wait for another process inside one update, save or load, s", "(0, inf)")
    patience_s: float = option(86400.0, "longest wait for the next command, or for the slowest rollouts, s", "(0, inf)")


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
