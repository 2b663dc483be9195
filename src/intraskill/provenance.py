"""Where a run comes from: versions, git state and hashes, recorded before anything else."""

import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from intraskill.environments.protocol import Environment
from intraskill.runtime.learner import Learner

VERSIONED = ("intraskill", "numpy", "statsmodels", "torch", "transformers", "peft", "hydra-core", "tokenizers")


def about(learner: Learner, environment: Environment) -> dict[str, Any]:
    """Return versions, git state and hashes, for the record."""
    return {
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in VERSIONED},
        "git": _git_state(),
        "checkpoint": learner.checkpoint,
        "conditions": dict(learner.conditions),
        "environment": environment.version,
    }


def version_of(package: str) -> str | None:
    """Return the installed version, or ``None``."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_state() -> Mapping[str, Any]:
    package = Path(__file__).parent

    def git(*words: str) -> str | None:
        try:
            answer = subprocess.run(["git", *words], cwd=package, capture_output=True, text=True, check=True, timeout=9)
        except (OSError, subprocess.SubprocessError):
            return None
        return answer.stdout.strip()

    return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", str(package)))}
