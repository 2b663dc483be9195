"""The shared prefix equals the dense path in three families of models, with and without an adapter."""

from collections.abc import Callable

import pytest
import torch
from rl.toy import logprobs_of
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from intraskill.method.errors import ConfigError
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import BARE
from intraskill.rl.logprobs import prefix_cache
from intraskill.rl.policy import LoraSettings, Policy, _with_adapter

LOGPROB_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-5
"""Relative, of the global norm."""
SMALL = {
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
FAMILIES: dict[str, Callable[[], PreTrainedConfig]] = {
    "qwen3": lambda: Qwen3Config(num_hidden_layers=2, **SMALL),
    "llama": lambda: LlamaConfig(num_hidden_layers=2, **SMALL),
    "qwen3.5 (3 of 4 layers linear)": lambda: Qwen3_5TextConfig(num_hidden_layers=4, **LINEAR, **SMALL),
}


def made(family: str, adapted: bool) -> Policy:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(FAMILIES[family]()).eval()
    if adapted:
        model = _with_adapter(model, LoraSettings(4, 8, "all-linear"))
        with torch.no_grad():  # a fresh adapter is the identity and would test nothing
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(0, 0.1)
    return Policy(model, None, family)


def rollout(prompt: int, length: int, start: int) -> Rollout:
    ids = tuple((start + 7 * i) % 250 for i in range(length))
    return Rollout("t", BARE, "", 0, tuple(range(5, 5 + prompt)), ids, (1,) * length, (-1.0,) * length, 0.5)


def scored(policy: Policy, group: list[Rollout], *, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities, and all gradients of a weighted sum of them, flat."""
    policy.model.zero_grad()
    found = logprobs_of(policy, group, layout=layout)
    weights = torch.linspace(0.5, 2, found.logprobs.numel()).view_as(found.logprobs)
    (found.logprobs * weights).sum().backward()
    moved = policy.trainable().values()
    return found.logprobs.detach(), torch.cat([p.grad.flatten() for p in moved if p.grad is not None])


@pytest.mark.parametrize("adapted", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("lengths", [(1, 1), (2, 9, 25)], ids=str)
def test_a_shared_prefix_changes_neither_logprobs_nor_gradients(
    family: str, adapted: bool, lengths: tuple[int, ...]
) -> None:
    policy = made(family, adapted)
    group = [rollout(70, length, 11 * i + 1) for i, length in enumerate(lengths)]
    dense, expected = scored(policy, group, layout="dense")
    shared, found = scored(policy, group, layout="prefix")
    torch.testing.assert_close(shared, dense, atol=LOGPROB_TOLERANCE, rtol=0)
    assert (found - expected).norm() / expected.norm() <= GRADIENT_TOLERANCE
    _, other = scored(policy, [rollout(69, length, 11 * i + 1) for i, length in enumerate(lengths)], layout="prefix")
    assert (other - expected).norm() / expected.norm() > 100 * GRADIENT_TOLERANCE


def test_a_prefix_shorter_than_the_convolution_is_padded_as_transformers_does() -> None:
    policy = made("qwen3.5 (3 of 4 layers linear)", adapted=False)
    group = [rollout(2, length, length) for length in (3, 8)]
    dense, _ = scored(policy, group, layout="dense")
    shared, _ = scored(policy, group, layout="prefix")
    torch.testing.assert_close(shared, dense, atol=LOGPROB_TOLERANCE, rtol=0)


def test_a_cache_that_cannot_be_repeated_is_refused_with_the_knob_to_turn() -> None:
    sliding = MistralConfig(num_hidden_layers=1, sliding_window=8, **SMALL)
    assert type(DynamicCache(config=sliding).layers[0]).__name__ == "DynamicSlidingWindowLayer"
    with pytest.raises(ConfigError, match="DynamicSlidingWindowLayer; set grpo.shared_prefix=false"):
        prefix_cache(sliding)
