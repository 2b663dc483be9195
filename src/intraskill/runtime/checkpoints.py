"""Exact checkpoints: weights and optimizer state as safetensors, and a manifest with their hashes, written last."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from intraskill.method.errors import CheckpointError, offenders

FORMAT = "intraskill-checkpoint-1"
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"


def weights_hash(parameters: Mapping[str, torch.Tensor]) -> str:
    """Return a 16-hex-digit hash of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        tensor = parameters[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def save_checkpoint(
    directory: Path,
    parameters: Mapping[str, torch.nn.Parameter],
    optimizer: torch.optim.Optimizer,
    facts: Mapping[str, Any],
) -> None:
    """Write weights, optimizer state and manifest into an existing directory; the manifest last.

    Args:
        directory: where.
        parameters: trainable parameters by name.
        optimizer: holds exactly these parameters.
        facts: JSON values that `load_checkpoint` returns, ``identity`` of the model among them.
    """
    (directory / MANIFEST).unlink(missing_ok=True)
    state = {
        f"{name}/{key}": value
        for name, parameter in parameters.items()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    files = {WEIGHTS: {name: p.data for name, p in parameters.items()}, OPTIMIZER: state}
    for name, tensors in files.items():
        save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, directory / name)
        _flush(directory / name)
    manifest = {"format": FORMAT, **facts, "files": {name: _file_hash(directory / name) for name in sorted(files)}}
    partial = directory / f"{MANIFEST}.partial"
    partial.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _flush(partial)
    os.replace(partial, directory / MANIFEST)


def load_checkpoint(
    directory: Path,
    parameters: Mapping[str, torch.nn.Parameter],
    optimizer: torch.optim.Optimizer,
    expected: Mapping[str, str],
) -> dict[str, Any]:
    """Restore what `save_checkpoint` wrote, in place, and return the manifest's facts.

    Args:
        directory: where.
        parameters: trainable parameters by name.
        optimizer: holds exactly these parameters.
        expected: facts that must be as they were at saving, such as the model's identity.

    Raises:
        CheckpointError: if it is missing, corrupt, or of another model; nothing was changed then.
    """
    manifest = _read_manifest(directory)
    if odd := [f"{key} {manifest.get(key)} ≠ {value}" for key, value in expected.items() if manifest.get(key) != value]:
        raise CheckpointError(
            f"{directory} belongs to another model, {offenders(odd)}; load it with the model directory and adapter "
            "settings that it was trained with"
        )
    for name, recorded in manifest["files"].items():
        if not (directory / name).is_file():
            raise CheckpointError(f"{directory / name} is missing; the checkpoint is incomplete")
        if _file_hash(directory / name) != recorded:
            raise CheckpointError(f"{directory / name} is corrupt (its sha256 differs); use another checkpoint")
    try:
        weights, state = load_file(directory / WEIGHTS), load_file(directory / OPTIMIZER)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{directory} cannot be read: {error}") from error
    shapes = {name: tuple(p.shape) for name, p in parameters.items()}
    if strange := sorted(set(shapes.items()) ^ {(name, tuple(t.shape)) for name, t in weights.items()}):
        raise CheckpointError(f"{directory} holds other parameters than this model: {offenders(strange)}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
    optimizer.state.clear()
    for key, value in state.items():
        name, _, slot = key.rpartition("/")
        target = parameters[name]
        # AdamW keeps its step counter on the CPU and its moments beside the weights.
        optimizer.state[target][slot] = value if value.ndim == 0 else value.to(target.device)
    return manifest


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing: {directory} is no finished checkpoint") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    known = isinstance(manifest, dict) and manifest.get("format") == FORMAT
    if not known or set(manifest.get("files", ())) != {WEIGHTS, OPTIMIZER}:
        raise CheckpointError(f"{path} is no manifest of format {FORMAT}")
    facts: dict[str, Any] = manifest
    return facts


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
