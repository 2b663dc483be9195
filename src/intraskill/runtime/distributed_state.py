"""Sharded checkpoints: every process writes its part, and any number of processes can read them."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from intraskill.method.errors import CheckpointError, offenders
from intraskill.runtime.checkpoints import (
    MANIFEST,
    SHARDED,
    check_files,
    load_checkpoint,
    read_manifest,
    write_manifest,
)
from intraskill.runtime.distributed import Ranks
from intraskill.runtime.run_directory import file_hash

Parameters = Mapping[str, torch.nn.Parameter]


def save_shards(
    directory: Path, parameters: Parameters, optimizer: torch.optim.Optimizer, facts: Mapping[str, Any], ranks: Ranks
) -> None:
    """Write weights and optimizer state, each process its shards, and the manifest last.

    Args:
        directory: exists, and is the same for all processes.
        parameters: trainable parameters by name.
        optimizer: holds exactly these parameters.
        facts: JSON values that loading returns.
        ranks: the processes.

    Raises:
        CheckpointError: when a process does not see the directory.
    """
    (directory / MANIFEST).unlink(missing_ok=True)
    if blind := [rank for rank, sees in enumerate(ranks.everyone(directory.is_dir())) if not sees]:
        raise CheckpointError(
            f"{directory} is not there for ranks {offenders(blind)}; sharded weights need a run_dir on a file system "
            "that all machines share"
        )
    state = {name: p.detach() for name, p in parameters.items()}
    state |= {
        f"{name}/{slot}": value for name, p in parameters.items() for slot, value in optimizer.state.get(p, {}).items()
    }
    save(state, checkpoint_id=directory)
    own = sorted(path.name for path in directory.glob(f"__{ranks.rank}_*.distcp"))
    hashes = ranks.gather({name: file_hash(directory / name) for name in own})
    if ranks.rank == 0:
        files = {name: found for part in hashes for name, found in part.items()}
        files[".metadata"] = file_hash(directory / ".metadata")
        kept = sorted({slot for p in parameters.values() for slot in optimizer.state.get(p, {})})
        write_manifest(directory, {"format": SHARDED, "slots": kept, "shards": ranks.size, **facts}, files)
    ranks.everyone(None)


def load_shards(
    directory: Path, parameters: Parameters, optimizer: torch.optim.Optimizer, expected: Mapping[str, str], ranks: Ranks
) -> dict[str, Any]:
    """Restore a checkpoint of either kind into sharded weights; every process checks its part of the files.

    Raises:
        CheckpointError: if it is missing, corrupt, or of another model.
    """
    manifest = read_manifest(directory, expected)
    if manifest["format"] != SHARDED:
        return load_checkpoint(directory, parameters, optimizer, expected)
    names = sorted(manifest["files"])[ranks.rank :: ranks.size]
    check_files(directory, {name: manifest["files"][name] for name in names})
    ranks.everyone(None)
    _read(directory, parameters, optimizer, manifest, alone=False)
    return manifest


def read_shards(
    directory: Path, parameters: Parameters, optimizer: torch.optim.Optimizer, manifest: Mapping[str, Any]
) -> None:
    """Put a sharded checkpoint together in one process.

    Raises:
        CheckpointError: if it is corrupt or of another model.
    """
    check_files(directory, manifest["files"])
    _read(directory, parameters, optimizer, manifest, alone=True)


def _read(
    directory: Path,
    parameters: Parameters,
    optimizer: torch.optim.Optimizer,
    manifest: Mapping[str, Any],
    *,
    alone: bool,
) -> None:
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
