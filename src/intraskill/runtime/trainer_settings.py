"""Every knob of rollouts and updates; free of torch, so that a configuration can be read without it."""

from dataclasses import dataclass
from typing import Literal, get_args

from intraskill.method.errors import ConfigError

LossKind = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"]
LOSSES: tuple[LossKind, ...] = get_args(LossKind)
SelfCheck = Literal["fallback", "error", "off"]


@dataclass(frozen=True, slots=True)
class TrainerSettings:
    """Every knob of rollouts and updates.

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
        prefix_tree: with ``shared_prefix``, forward once whatever rollouts of a group begin with in common, and put
            several groups into one micro-batch.
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
    prefix_tree: bool = False
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
