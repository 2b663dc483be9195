"""Adapters for checkpoints in the hub's own form, whose layers have other names than the model that is trained.

The checkpoint is made by transformers from the configuration that Qwen3.5 has on the hub, only smaller and with random
weights: a picture tower, and a language model of linear and full attention below it.
"""

from pathlib import Path

import pytest
import torch
from rl.toy import tokenizer
from safetensors.torch import load_file

from intraskill.method.errors import EngineError
from intraskill.rl.engines.adapter_names import engine_names, weight_names
from intraskill.rl.engines.weight_sync import EngineProbe, HotSwap, ServedVersion
from intraskill.rl.policy import LoraSettings, load_policy


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers.models.qwen3_5 import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    directory, words = tmp_path_factory.mktemp("hub"), tokenizer()
    text = {
        "vocab_size": -(-len(words) // 64) * 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
        "tie_word_embeddings": True, "eos_token_id": words.eos_token_id,
    }  # fmt: skip
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
    torch.manual_seed(0)
    model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision))
    model.save_pretrained(directory)
    words.save_pretrained(directory)
    return directory


def test_every_tensor_of_the_adapter_belongs_to_a_weight_of_the_checkpoint(hub: Path, tmp_path: Path) -> None:
    policy = load_policy(hub, lora=LoraSettings(4, 8, "all-linear"))
    assert type(policy.causal).__name__ == "Qwen3_5ForCausalLM"
    loaded: list[ServedVersion] = []
    swap = HotSwap(
        policy, tmp_path, EngineProbe(policy, 1.0, 0.0),
        load=loaded.append, unload=lambda version: None, verify=lambda version: None,
    )  # fmt: skip
    swap.serve("c1")
    names = list(load_file(loaded[-1].directory / "adapter_model.safetensors"))
    weights = weight_names(hub)
    modules = {name.removeprefix("base_model.model.").rpartition(".lora_")[0] for name in names}
    assert len(modules) == 4 * 3 + 3 * 5 + 4  # MLPs, linear attention, full attention
    assert all(f"{module}.weight" in weights for module in modules)
    assert all(module.startswith("model.language_model.layers.") for module in modules)
    own = {name.removeprefix("base_model.model.").rpartition(".lora_")[0] for name in policy.trainable()}
    assert not any(f"{module}.weight" in weights for module in own), "without new names vLLM finds none of them"


def test_names_that_fit_stay_and_a_picture_tower_is_no_language_model() -> None:
    tensor = "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"
    assert engine_names([tensor], {"model.layers.0.mlp.up_proj.weight"}) == {tensor: tensor}
    assert engine_names([tensor], ()) == {tensor: tensor}
    both = {"model.visual.layers.0.mlp.up_proj.weight", "model.language_model.layers.0.mlp.up_proj.weight"}
    assert engine_names([tensor], both)[tensor] == tensor.replace("model.layers", "model.language_model.layers")
    gemma = {"language_model.model.layers.0.mlp.up_proj.weight", "vision_tower.encoder.layers.0.mlp.fc1.weight"}
    assert "base_model.model.language_model.model.layers.0" in engine_names([tensor], gemma)[tensor]


def test_modules_that_the_checkpoint_does_not_have_are_named() -> None:
    tensors = [f"base_model.model.model.layers.{k}.mlp.up_proj.lora_A.weight" for k in range(3)]
    with pytest.raises(EngineError, match=r"does not have, 2: model\.layers\.1\.mlp\.up_proj"):
        engine_names(tensors, {"model.language_model.layers.0.mlp.up_proj.weight"})
    with pytest.raises(EngineError, match="0 candidates"):
        engine_names(tensors, {"transformer.h.0.weight"})
