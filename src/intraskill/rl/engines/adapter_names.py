"""Names of an adapter's tensors as an engine knows its modules: those of the checkpoint that it serves.

A hub checkpoint that also sees pictures, such as ``Qwen3_5ForConditionalGeneration``, calls its layers
``model.language_model.layers…``; trained as a causal language model they are ``model.layers…``. vLLM loads an adapter
whose names match nothing without a word, and serves the start weights.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from intraskill.method.errors import EngineError, offenders
from intraskill.store.run_directory import read_json

PEFT = "base_model.model."
_ADAPTED = ".weight"


def weight_names(directory: Path) -> frozenset[str]:
    """Return the names of a checkpoint's weights; none for one that is not in safetensors."""
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        return frozenset(read_json(index)["weight_map"])
    from safetensors import safe_open

    names: set[str] = set()
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(str(path), "pt") as file:
            names |= set(file.keys())
    return frozenset(names)


def engine_names(tensors: Iterable[str], weights: Collection[str]) -> Mapping[str, str]:
    """Return adapter tensor → its name for an engine that serves a checkpoint with these weights.

    Args:
        tensors: such as ``base_model.model.model.layers.0.mlp.down_proj.lora_A.weight``.
        weights: names of the checkpoint's weights; none leaves all names as they are.

    Raises:
        EngineError: for modules that the checkpoint does not have under one common name.
    """
    names = list(tensors)
    modules = {name: name.removeprefix(PEFT).rpartition(".lora_")[0] for name in names}
    if not weights or all(f"{module}{_ADAPTED}" in weights for module in modules.values()):
        return {name: name for name in names}
    ours, theirs = _prefixes(next(iter(modules.values())), weights)
    found = {name: module.replace(ours, theirs, 1) for name, module in modules.items()}
    if strangers := sorted({modules[name] for name, module in found.items() if f"{module}{_ADAPTED}" not in weights}):
        raise EngineError(
            f"the adapter changes modules that the checkpoint of the engine does not have, {offenders(strangers)}; set "
            "policy.lora_targets to modules that both have"
        )
    return {name: name.replace(modules[name], found[name], 1) for name in names}


def _prefixes(module: str, weights: Collection[str]) -> tuple[str, str]:
    """Return what a module's name begins with here and in the checkpoint, in front of ``layers.``."""
    ours, _, rest = module.partition("layers.")
    ends = [
        name.removesuffix(f"layers.{rest}{_ADAPTED}") for name in weights if name.endswith(f"layers.{rest}{_ADAPTED}")
    ]
    # A picture tower has layers as well; the language model's are those that say so, else the only ones.
    spoken = [end for end in ends if "language_model" in end] or ends
    if not rest or len(spoken) != 1:
        raise EngineError(
            f"the adapter changes {module}, of which the checkpoint of the engine has {len(spoken)} candidates; set "
            "policy.lora_targets to modules that both have"
        )
    return ours, spoken[0]
