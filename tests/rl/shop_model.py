"""A tiny random model whose byte-level tokenizer was trained on shop pages: the stand-in for a real language model."""

import functools
import itertools
from pathlib import Path

import torch

from intraskill.environments.shopworld import ShopWorld
from intraskill.recipes.demonstrations import Mix
from intraskill.recipes.shop_demonstrations import demonstrations

# Like the template of SmolLM2: no tools, and a tool's message under a role of its own.
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "{{ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@functools.cache
def shop() -> ShopWorld:
    return ShopWorld("tiny", 0, page_size=2, language="plain")


@functools.cache
def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    shown = itertools.islice(demonstrations([shop()], Mix(), 0), 40)
    texts = [text for demo in shown for text in (demo.skill_text, *(m["content"] for m in demo.messages))]
    words.train_from_iterator([*texts, "system user assistant tool You are a shopping agent."], trainer)
    # As in SmolLM2, the pad token is the token that ends an answer.
    loaded = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|im_end|>", pad_token="<|im_end|>")
    loaded.chat_template = TEMPLATE
    return loaded


def write_shop_model(directory: Path) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer()
    config = LlamaConfig(
        vocab_size=704,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.data.mul_(4)
    words.save_pretrained(directory)
    model.save_pretrained(directory)
    return directory
