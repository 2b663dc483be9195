"""Exact checkpoints: weights and optimizer state as safetensors, and a manifest with their hashes, written last.

Sharded weights leave another set of files (`distributed_state`) under the same manifest; each kind loads anywhere.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.tensor import DTensor, distribute_tensor

from intraskill.method.errors import CheckpointError, offenders
from intraskill.store.run_directory import file_hash

_FORMAT = "intraskill-checkpoint-1"
SHARDED = "intraskill-checkpoint-sharded-1"
MANIFEST = "manifest.json"
_WEIGHTS = "weights.safetensors"
_OPTIMIZER = "optimizer.safetensors"

Parameters = Mapping[str, torch.nn.Parameter]


def weights_hash(parameters: Mapping[str, torch.Tensor]) -> str:
    """Return a 16-hex-digit hash of names, types, shapes and bytes, the same however the weights are sharded."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        tensor = whole(parameters[name]).detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor itself, or a sharded one put together; then all its processes must come here."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


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
    files = {_WEIGHTS: {name: p.data for name, p in parameters.items()}, _OPTIMIZER: state}
    for name, tensors in files.items():
        save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, directory / name)
        _flush(directory / name)
    write_manifest(directory, {"format": _FORMAT, **facts}, {name: file_hash(directory / name) for name in files})


def write_manifest(directory: Path, facts: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """Write the manifest whole or not at all, with the hash of each file."""
    partial = directory / f"{MANIFEST}.partial"
    manifest = {**facts, "files": dict(files)}
    partial.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _flush(partial)
    os.replace(partial, directory / MANIFEST)


def load_checkpoint(
    directory: Path,
    parameters: Mapping[str, torch.nn.Parameter],
    optimizer: torch.optim.Optimizer,
    expected: Mapping[str, str],
) -> dict[str, Any]:
    """Restore a checkpoint of either kind, in place, and return the manifest's facts.

    Args:
        directory: where.
        parameters: trainable parameters by name.
        optimizer: holds exactly these parameters.
        expected: facts that must be as they were at saving, such as the model's identity.

    Raises:
        CheckpointError: if it is missing, corrupt, or of another model; nothing was changed then.
    """
    manifest = read_manifest(directory, expected)
    if manifest["format"] == SHARDED:
        _read_shards(directory, parameters, optimizer, manifest)
        return manifest
    check_files(directory, manifest["files"])
    try:
        weights, state = load_file(directory / _WEIGHTS), load_file(directory / _OPTIMIZER)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{directory} cannot be read: {error}") from error
    shapes = {name: tuple(p.shape) for name, p in parameters.items()}
    if strange := sorted(set(shapes.items()) ^ {(name, tuple(t.shape)) for name, t in weights.items()}):
        raise CheckpointError(f"{directory} holds other parameters than this model: {offenders(strange)}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(_like(parameter, weights[name]))
    optimizer.state.clear()
    for key, value in state.items():
        name, _, slot = key.rpartition("/")
        # AdamW keeps its step counter on the CPU and its moments beside the weights.
        optimizer.state[parameters[name]][slot] = value if value.ndim == 0 else _like(parameters[name], value)
    return manifest


def _like(parameter: torch.nn.Parameter, value: torch.Tensor) -> torch.Tensor:
    """Put a whole tensor where a parameter is: on its device, and cut as it is."""
    value = value.to(parameter.device)
    held: Any = parameter.data
    return distribute_tensor(value, held.device_mesh, held.placements) if isinstance(held, DTensor) else value


def read_manifest(directory: Path, expected: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts of a finished checkpoint of the expected model.

    Raises:
        CheckpointError: if there is none, or it is of another model.
    """
    manifest = _manifest(directory)
    if odd := [f"{key} {manifest.get(key)} ≠ {value}" for key, value in expected.items() if manifest.get(key) != value]:
        raise CheckpointError(
            f"{directory} belongs to another model, {offenders(odd)}; load it with the model directory and adapter "
            "settings that it was trained with"
        )
    return manifest


def check_files(directory: Path, files: Mapping[str, str]) -> None:
    """Compare files with their recorded hashes.

    Raises:
        CheckpointError: if one is missing or changed.
    """
    for name, recorded in files.items():
        if not (directory / name).is_file():
            raise CheckpointError(f"{directory / name} is missing; the checkpoint is incomplete")
        if file_hash(directory / name) != recorded:
            raise CheckpointError(f"{directory / name} is corrupt (its sha256 differs); use another checkpoint")


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing: {directory} is no finished checkpoint") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    known = isinstance(manifest, dict) and manifest.get("format") in (_FORMAT, SHARDED)
    if not known or (manifest["format"] == _FORMAT and set(manifest.get("files", ())) != {_WEIGHTS, _OPTIMIZER}):
        raise CheckpointError(f"{path} is no manifest of format {_FORMAT} or {SHARDED}")
    facts: dict[str, Any] = manifest
    return facts


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _read_shards(
    directory: Path, parameters: Parameters, optimizer: torch.optim.Optimizer, manifest: Mapping[str, Any]
) -> None:
    """Put a sharded checkpoint together in one process.

    Raises:
        CheckpointError: if it is corrupt or of another model.
    """
    check_files(directory, manifest["files"])
    read_parts(directory, parameters, optimizer, manifest, alone=True)


def read_parts(
    directory: Path,
    parameters: Parameters,
    optimizer: torch.optim.Optimizer,
    manifest: Mapping[str, Any],
    *,
    alone: bool,
) -> None:
    """Read weights and optimizer state from shards; each process its part, or one process all of them (``alone``).

    Raises:
        CheckpointError: if they do not fit the model.
    """
    weights = {name: torch.zeros_like(p.data) for name, p in parameters.items()}
    # AdamW keeps its step counter on the CPU and its moments beside the weights.
    slots = {
        f"{name}/{slot}": torch.tensor(0.0) if slot == "step" else torch.zeros_like(p.data)
        for name, p in parameters.items()
        for slot in manifest["slots"]
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that it loads in one process
            load({**weights, **slots}, checkpoint_id=directory, no_dist=alone)
    except (CheckpointException, RuntimeError, ValueError, OSError) as error:
        raise CheckpointError(f"{directory} does not fit this model: {error}") from error
    with torch.no_grad():
        for name, p in parameters.items():
            p.copy_(weights[name])
    optimizer.state.clear()
    for key, value in slots.items():
        name, _, slot = key.rpartition("/")
        optimizer.state[parameters[name]][slot] = value
