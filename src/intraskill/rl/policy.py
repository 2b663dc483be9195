"""A policy from a directory: model and tokenizer, and what an engine that samples from it must offer.

Any Hugging Face causal language model; all weights are trained, or a LoRA adapter on frozen weights.

Shape letters: B rows, Q new tokens, D hidden width, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from intraskill.config.learning import PolicyConfig
from intraskill.method.errors import CheckpointError, ConfigError
from intraskill.method.randomness import child_seed, content_hash

_HEAD_TOLERANCE = 1e-3
_GROUPED = "sdpa_grouped"


@dataclass(frozen=True, slots=True)
class Generation:
    """One action of one row.

    Attributes:
        token_ids: sampled tokens, the stop token included when it was sampled; never an invented one.
        logprobs: log-probability of each under the sampling distribution.
        stopped: the policy ended the action itself; False when it ran into the length limit.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool


class Conversations(Protocol):
    """A batch of conversations that grow by turns."""

    def generate(self, appended: Mapping[int, Sequence[int]], seeds: Mapping[int, int]) -> dict[int, Generation]:
        """Append tokens to some rows and let the policy act in them; a row left out is never used again.

        Args:
            appended: row → tokens that the environment added since the row's last action (none in the first turn).
            seeds: row → seed of this one action.
        """


class Engine(Protocol):
    """Whatever samples from the policy."""

    def serve(self, checkpoint: str) -> None:
        """Make all that follows sample from the policy's weights as they are now; ``checkpoint`` is their hash."""

    def open(self, prompts: Sequence[tuple[int, ...]]) -> Conversations:
        """Start one conversation per prompt; equal prompts share their prefill."""


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """A LoRA adapter on some linear layers (``target_modules``), with frozen weights below.

    Attributes:
        rank: rank of the update.
        alpha: scale numerator; the update is multiplied by ``alpha / rank``.
        target_modules: names of the adapted modules, or ``all-linear``.
    """

    rank: int
    alpha: int
    target_modules: str | tuple[str, ...]


def lora_of(policy: PolicyConfig) -> LoraSettings | None:
    """Return the adapter that the config asks for, or ``None`` when all weights are trained."""
    if not policy.lora_rank:
        return None
    targets = tuple(policy.lora_targets)
    return LoraSettings(policy.lora_rank, policy.lora_alpha, targets[0] if targets == ("all-linear",) else targets)


class Policy:
    """A loaded model and its tokenizer.

    Attributes:
        model: what is trained and saved; a `peft` model when a LoRA adapter is on.
        causal: the causal language model itself.
        backbone: the part below the head; gives hidden states (B, Q, D).
        head: (…, D) → logits (…, V).
        tokenizer: the tokenizer.
        identity: hash of the architecture and of the adapter's settings, not of the weights.
        directory: the start weights, or ``None`` where they come from no file.
    """

    def __init__(self, model: Any, tokenizer: Any, identity: str, directory: Path | None = None) -> None:
        self.directory = directory
        self.model = model
        self.causal = model.get_base_model() if hasattr(model, "peft_config") else model
        self.backbone = getattr(self.causal, self.causal.base_model_prefix)
        self.head = self.causal.get_output_embeddings()
        self.tokenizer = tokenizer
        self.identity = identity

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        device: torch.device = next(iter(self.causal.parameters())).device
        return device

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """Parameters that the optimizer moves, by name; tied ones once."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def frozen(self) -> dict[str, torch.nn.Parameter]:
        """Parameters that stay as loaded, by name."""
        return {name: p for name, p in self.model.named_parameters() if not p.requires_grad}


def load_policy(
    directory: Path, *, lora: LoraSettings | None = None, device: str = "cpu", dtype: torch.dtype | None = None
) -> Policy:
    """Load a model directory as `save_pretrained` wrote it; weights in float32 on a CPU.

    Raises:
        CheckpointError: if the directory holds no model or tokenizer.
        ConfigError: if the model does something between its hidden states and its logits besides one linear head.
    """
    if not (directory / "config.json").is_file():
        raise CheckpointError(f"{directory} holds no config.json; pass a directory written by save_pretrained")
    dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, local_files_only=True)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{directory} holds no usable model and tokenizer: {error}") from error
    model.to(device)
    if device == "cpu" and model.config._attn_implementation == "sdpa":
        _use_grouped_attention(model)
    if lora is not None:
        model = _with_adapter(model, lora)
    policy = Policy(model.eval(), tokenizer, _identity(directory, lora), directory)
    _check_head(policy)
    return policy


def _identity(directory: Path, lora: LoraSettings | None) -> str:
    config = AutoConfig.from_pretrained(directory, local_files_only=True).to_dict()
    for key in ("transformers_version", "_name_or_path", "dtype", "torch_dtype"):
        config.pop(key, None)
    adapter = None if lora is None else (lora.rank, lora.alpha, lora.target_modules)
    return content_hash({str(key): repr(value) for key, value in config.items()}, adapter)


def _with_adapter(model: Any, lora: LoraSettings) -> Any:
    from peft import LoraConfig, get_peft_model

    targets = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=targets, task_type="CAUSAL_LM")
    # peft draws the adapter from the global generator: give it an address of its own and leave no trace.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(child_seed(0, "adapter"))
        return get_peft_model(model, config)


@torch.no_grad()
def _check_head(policy: Policy) -> None:
    ids = torch.arange(1, 5, device=policy.device)[None]
    ours = policy.head(policy.backbone(input_ids=ids, use_cache=False).last_hidden_state)
    theirs = policy.causal(input_ids=ids, use_cache=False).logits
    worst = (ours.float() - theirs.float()).abs().max().item()
    if not worst <= _HEAD_TOLERANCE:
        raise ConfigError(
            f"{type(policy.causal).__name__} changes its logits after the head (largest difference {worst:.3g}); "
            "models with capped or scaled logits are not supported"
        )


def _use_grouped_attention(model: Any) -> None:
    """Let attention with a mask read grouped keys in place.

    Transformers copies every cached key and value once per query head when a mask is given (`repeat_kv`); on a CPU
    that copy costs 2.4 times the attention itself, and the kernel does not need it.
    """
    ALL_ATTENTION_FUNCTIONS.register(_GROUPED, _grouped_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_GROUPED, sdpa_mask)
    model.set_attn_implementation(_GROUPED)


def _grouped_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, **options: Any
) -> tuple[torch.Tensor, None]:
    """Same result as Transformers' ``sdpa``; query (B, heads, Q, width), key and value (B, groups, K, width)."""
    if attention_mask is None or options.get("position_bias") is not None:
        output: tuple[torch.Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return output
    attended = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=options.get("dropout", 0.0),
        scale=options.get("scaling"),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return attended.transpose(1, 2).contiguous(), None
