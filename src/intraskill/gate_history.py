"""What the earlier gates of a run measured and decided, read back from its round directories."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from intraskill.method.attribution import Contributions
from intraskill.method.errors import ArtifactError
from intraskill.method.remeasure import MeasuredRound
from intraskill.runtime.records import from_json
from intraskill.runtime.run_directory import read_json


@dataclass(frozen=True, slots=True)
class GateNoise:
    """What earlier gates say about the next one's precision.

    Attributes:
        sigma: root mean square of their residual SDs of R − B, reward units.
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


def read_rounds(root: Path) -> tuple[MeasuredRound, ...]:
    """Read every gate of a run that has decided, oldest first; a single gate's directory is a run of one.

    Raises:
        ArtifactError: if there is none, or a file is corrupt.
    """
    return tuple(
        MeasuredRound(
            index,
            from_json(Contributions, read_json(path / "contributions.json"), path / "contributions.json"),
            tuple(read_json(path / "decision.json")["kept"]),
        )
        for index, path in enumerate(_gates(root))
        if (path / "decision.json").exists()
    )


def read_noise(root: Path) -> GateNoise:
    """Read what the gates of a run, or one gate's directory, say about the noise.

    Raises:
        ArtifactError: if none of them measured a chunk.
    """
    paths = [path / "contributions.json" for path in _gates(root)]
    files = [read_json(path) for path in paths]
    fits: Sequence[tuple[Contributions, float | None]] = [
        (from_json(Contributions, data, path), data.get("correlation"))
        for path, data in zip(paths, files, strict=True)
        if data["chunk_ids"]
    ]
    if not fits:
        raise ArtifactError(f"no gate under {root} measured a chunk; give sigma instead")
    correlations = [value for _, value in fits if value is not None]
    latest = fits[-1][0]
    return GateNoise(
        sigma=float(np.sqrt(np.mean([found.residual_sd**2 for found, _ in fits]))),
        chunks=len(latest.chunk_ids),
        tasks=latest.num_pairs,
        correlation=float(np.mean(correlations)) if correlations else None,
        gates=len(fits),
    )


def _gates(root: Path) -> list[Path]:
    if (root / "contributions.json").exists():
        return [root]
    found = sorted(path.parent for path in root.glob("round_*/contributions.json"))
    if not found:
        raise ArtifactError(f"{root} holds no gate: neither contributions.json nor round_*/contributions.json")
    return found
