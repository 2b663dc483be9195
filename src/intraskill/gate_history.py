"""How noisy the earlier gates of a run were: what a plan for the next one starts from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intraskill.method.errors import ArtifactError
from intraskill.runtime.run_directory import read_json


@dataclass(frozen=True, slots=True)
class GateNoise:
    """What earlier gates say about the next one's precision.

    Attributes:
        sigma: root mean square of their residual SDs of R − B, one rollout in each arm, reward units.
        chunks: size of the latest pool.
        tasks: pairs of the latest gate.
        correlation: mean corr(R, B); ``None`` where it was not recorded.
        gates: gates read.
    """

    sigma: float
    chunks: int
    tasks: int
    correlation: float | None
    gates: int


def read_noise(root: Path) -> GateNoise:
    """Read what the gates of a run, or one gate's directory, say about the noise.

    Raises:
        ArtifactError: if none of them measured a chunk, or a file is no gate's.
    """
    paths = [root] if (root / "contributions.json").exists() else sorted(root.glob("round_*"))
    gates = [path for path in paths if (path / "contributions.json").exists()]
    if not gates:
        raise ArtifactError(f"{root} holds no gate: neither contributions.json nor round_*/contributions.json")
    found = [(path, read_json(path / "contributions.json")) for path in gates]
    measured = [(path, data) for path, data in found if data.get("chunk_ids")]
    if not measured:
        raise ArtifactError(f"no gate under {root} measured a chunk; give sigma instead")
    correlations = [data["correlation"] for _, data in measured if data.get("correlation") is not None]
    latest = measured[-1][1]
    return GateNoise(
        sigma=float(np.sqrt(np.mean([_variance(path, data) for path, data in measured]))),
        chunks=len(latest["chunk_ids"]),
        tasks=int(latest["num_pairs"]),
        correlation=float(np.mean(correlations)) if correlations else None,
        gates=len(measured),
    )


def _variance(path: Path, data: Mapping[str, Any]) -> float:
    """Return σ² of ``paired_ols``, which stands beside any other estimator, for one bare rollout per task.

    Raises:
        ArtifactError: if the file lacks the residual SD.
    """
    paired = data.get("beside", {}).get("paired_ols", data)
    plan = read_json(path / "masks.json") if (path / "masks.json").exists() else {}
    bare = plan.get("design", {}).get("bare_replicates", 1)
    if "residual_sd" not in paired:
        raise ArtifactError(
            f"{path / 'contributions.json'} has no residual_sd; restore the file, or give sigma instead"
        )
    return float(paired["residual_sd"] ** 2 / ((1.0 + 1.0 / bare) / 2.0))
