"""Recompute a gate from its ``pairs.parquet``: no model, no environment, the same numbers bit for bit.

Another estimator or policy may be asked of the same rows; what the rows already fix, such as the design, may not.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intraskill.config import Config, check
from intraskill.gate_findings import Findings, find
from intraskill.gate_outputs import write_outputs
from intraskill.method.errors import ArtifactError, ConfigError, offenders
from intraskill.method.randomness import content_hash
from intraskill.pairs_file import read_pairs
from intraskill.runtime.run_directory import make_directory, read_json
from intraskill.validation import Validation

FACTS = {
    "estimator": "estimator",
    "policy": "policy",
    "top_k": "top_k",
    "admit": "admit",
    "retire": "retire",
    "fdr": "rate",
    "effect": "effect",
}
"""Knobs of the section ``gate`` that a refit may set, and the fact that each becomes."""


def refit(path: Path, changes: Mapping[str, Any], out: Path | None = None) -> tuple[Validation, Findings, Path]:
    """Recompute everything from recorded rows and write it.

    Args:
        path: ``pairs.parquet`` of a gate.
        changes: knobs of the section ``gate`` by name; those of `FACTS` only.
        out: where to write; a directory beside ``path`` by default, named by the changes.

    Raises:
        ConfigError: for a knob that the rows have already fixed, or a value that makes no sense.
        ArtifactError: when ``path`` is not the file of a gate, or ``out`` holds the results of another one.
        PairingError: when its rows are not pairs, each kind by name.
        SplitError: for a row of another split.
    """
    if fixed := sorted(set(changes) - set(FACTS)):
        names = [f"gate.{name}" for name in fixed]
        raise ConfigError(
            f"a refit cannot change what its rows have fixed, {offenders(names)}; it can set "
            + ", ".join(f"gate.{name}" for name in FACTS)
        )
    config = Config()
    for name, value in changes.items():
        setattr(config.gate, name, value)
    check(config)
    found = read_pairs(path, **{FACTS[name]: value for name, value in changes.items()})
    findings = find(found)
    name = f"refit-{content_hash(dict(changes))[:6]}" if changes else "refit"
    directory = out if out is not None else path.parent / name
    _refuse_another_gate(directory, path)
    make_directory(directory)
    write_outputs(directory, found, findings, tasks=None, further={"refitted_from": str(path)})
    return found, findings, directory


def _refuse_another_gate(directory: Path, path: Path) -> None:
    """A refit replaces an earlier refit of the same rows, and nothing else."""
    held = directory / "gate.json"
    if (directory / "masks.json").exists() or held.exists() and read_json(held).get("refitted_from") != str(path):
        raise ArtifactError(f"{directory} holds the results of another gate; choose another --out")
