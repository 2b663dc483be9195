"""The sections on what learns: policy, rollouts, updates, engines and processes."""

from dataclasses import dataclass, field
from typing import Any

from intraskill.config.option import option

LOSSES = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo")
_SELF_CHECKS = ("fallback", "error", "off")


@dataclass
class PolicyConfig:
    """Which weights act and learn."""

    path: str = option("tiny", "'tiny' = the weights shipped in the package, or a model directory")
    lora_rank: int = option(0, "rank of the adapter; 0 trains the full weights", "[0, 1024]")
    lora_alpha: int = option(32, "scale of the adapter: alpha / rank", "[1, inf)")
    lora_targets: list[str] = option(["all-linear"], "module names that get an adapter")
    dtype: str = option("float32", "number type of the weights", choices=("float32", "bfloat16"))
    device: str = option("auto", "auto, cpu, cuda, cuda:0, …")
    template_options: dict[str, Any] = option({}, "variables of the chat template, such as {enable_thinking: false}")


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


@dataclass
class RolloutConfig:
    """How episodes are run."""

    engine: str = option("torch", "what samples the tokens", choices=("torch", "vllm", "vllm_server"))
    temperature: float = option(1.0, "sampling temperature", "(0, 5]")
    max_turns: int = option(12, "actions per episode", "[1, 1000]")
    max_new_tokens: int = option(48, "tokens per action", "[1, inf)")
    max_context: int = option(2048, "tokens per episode, prompt included", "[16, inf)")
    constrained: bool = option(False, "sample only tool calls that the page admits; torch engine, needs llguidance")
    batch: int = option(64, "episodes run together by all workers and processes; a killed batch is re-run", "[1, inf)")
    attempts: int = option(3, "tries per validation episode before its task is set aside as faulted", "[1, 100]")
    max_invalid: float = option(
        0.9, "share of answers that are no call beyond which a run stops at its cold start; 1 = never", "(0, 1]"
    )
    vllm: VllmConfig = field(default_factory=VllmConfig)


@dataclass
class GrpoConfig:
    """Group-consistent masked-skill GRPO (method §5)."""

    group_size: int = option(8, "rollouts per group, G", "[2, 1024]")
    groups_per_step: int = option(8, "groups that one optimizer step uses", "[1, inf)")
    oversample: float = option(1.0, "groups run per group used; groups without reward variance are left out", "[1, 16]")
    reserve_groups: int = option(2, "extra planned groups per step that replace groups lost to a fault", "[0, inf)")
    steps_per_round: int = option(20, "optimizer steps per round", "[0, inf)")
    lr: float = option(3e-4, "learning rate", "(0, 1)")
    part: str = option("", "reward component the policy gradient reads, such as r_success; empty = the main reward")
    mask_truncated: bool = option(
        False, "leave rollouts that a limit cut off out of the loss; their reward still counts in the group's mean"
    )
    loss: str = option("grpo", "loss aggregation and clipping", choices=LOSSES)
    clip_low: float = option(0.2, "lower clip of the probability ratio: 1 − clip_low", "(0, 1)")
    clip_high: float = option(0.28, "upper clip of the ratio: 1 + clip_high; for cispo the weight's cap", "(0, 100)")
    kl_beta: float = option(0.0, "weight of the KL term against the start weights", "[0, 10]")
    entropy_coef: float = option(0.0, "weight of the mean token entropy, which the update then raises", "[0, 1]")
    max_grad_norm: float = option(1.0, "gradient clipping", "(0, inf)")
    weight_decay: float = option(0.0, "AdamW weight decay", "[0, 1]")
    warmup_steps: int = option(0, "steps of linear learning-rate warm-up", "[0, inf)")
    lr_decay: str = option(
        "none",
        "from the end of the warm-up to 0 at the last of all rounds' steps",
        choices=("none", "linear", "cosine"),
    )
    micro_batch_tokens: int = option(4096, "tokens per forward and backward pass", "[1, inf)")
    updates_per_batch: int = option(1, "optimizer steps on the same rollouts", "[1, 64]")
    shared_prefix: bool = option(True, "forward each group's prompt once instead of once per rollout")
    self_check: str = option("fallback", "if sharing changes numbers: go on dense, stop, unchecked", "", _SELF_CHECKS)
    checkpoint_activations: bool = option(False, "keep each layer's input only and recompute the rest backward")
    mismatch_cap: float = option(0.0, "cap of the trainer/engine importance weight per token; 0 = off", "[0, inf)")
    save_every_steps: int = option(10, "steps between two saved training states", "[1, inf)")
    save_every_minutes: float = option(10.0, "longest time without a saved training state", "(0, inf)")


_STRATEGIES = ("auto", "none", "ddp", "fsdp")


@dataclass
class DistributedConfig:
    """What several processes, started by accelerate launch or torchrun, need to know."""

    strategy: str = option(
        "auto", "ddp: weights on every device; fsdp: sharded; auto: what the launcher asks for", choices=_STRATEGIES
    )
    timeout_s: float = option(1800.0, "longest wait for another process inside one update, save or load, s", "(0, inf)")
    patience_s: float = option(86400.0, "longest wait for the next command, or for the slowest rollouts, s", "(0, inf)")
