"""Where a run comes from: versions, git state and hashes, recorded before anything else.

The plan and the draft are what a run starts from; the rest is what they were started with.
"""

import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from intraskill.config.config import Config, as_this_version, flatten
from intraskill.config.proposing import WHERE_AND_HOW_MUCH
from intraskill.config.shipped import CONFIGS, PACKAGE
from intraskill.method.errors import ArtifactError, ConfigError, offenders
from intraskill.method.skill.skill import Skill
from intraskill.store.agent_skill import Say, read_skill, to_stderr
from intraskill.store.artifacts import PLAN
from intraskill.store.contents import RunStart
from intraskill.store.run_directory import make_directory

_WHERE = ("urls", "adapter_dir", "api_key_env", "patience_s")
_WHERE_NOT_WHAT = (
    *("run_dir", "review", "tracking.", "distributed."),
    *(f"rollout.vllm.{name}" for name in _WHERE),
    *(f"proposer.{name}" for name in WHERE_AND_HOW_MUCH),
)
_MUST_MATCH = ("environment", "domain", "conditions", "checkpoint", "prompts")
"""Facts that decide what a run computes, ``domain`` in an editor's only; versions and git state are for the record."""
VERSIONED = ("intraskill", "numpy", "statsmodels", "torch", "transformers", "peft", "hydra-core", "tokenizers")


def plan_of(config: Config) -> dict[str, Any]:
    """Return every value that decides what a run computes, by dotted name."""
    plan = {key: value for key, value in flatten(config).items() if not key.startswith(_WHERE_NOT_WHAT)}
    options = plan["editor.options"].items()
    plan["editor.options"] = {key: _without_where(value) for key, value in options}
    return plan


def _without_where(option: Any) -> Any:
    """Return an option; of an endpoint only what decides its answers."""
    if not isinstance(option, Mapping):
        return option
    return {key: value for key, value in option.items() if key not in WHERE_AND_HOW_MUCH}


def _unsaid(_: str) -> None:
    """Say nothing: the run itself says it when it takes the draft in."""


def draft_of(config: Config, say: Say = _unsaid) -> Skill:
    """Read the skill document that the run starts from; none is an empty skill.

    Raises:
        ConfigError: when the file does not exist.
        SkillFormatError: when it is not a skill.
    """
    if config.coldstart.draft is None:
        return Skill("")
    return named_skill(config.coldstart.draft, say)


def named_skill(path: str, say: Say = to_stderr) -> Skill:
    """Read the skill of a file, a folder or an archive, or one shipped in ``configs``.

    Args:
        path: of the skill.
        say: is told what no policy will see.

    Raises:
        ConfigError: when there is none.
        ArtifactError: when it cannot be read.
        SkillFormatError: when it holds no chunk.
    """
    return read_skill(_skill_file(path), say)


def _skill_file(path: str) -> Path:
    """Find a skill: the path of a file or a folder, or the name of one shipped in ``configs``.

    Raises:
        ConfigError: when neither exists.
    """
    for candidate in (Path(path), CONFIGS / path):
        if candidate.exists():
            return candidate
    raise ConfigError(f"there is no skill file {path}, neither as a path nor in {CONFIGS}")


def about(
    checkpoint: str, conditions: Mapping[str, str], environment_version: str, prompts_hash: str = ""
) -> dict[str, Any]:
    """Return versions, git state and hashes, for the record; ``prompts`` are the proposer's, empty without any."""
    return {
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in VERSIONED},
        "git": _git_state(),
        "checkpoint": checkpoint,
        "conditions": dict(conditions),
        "environment": environment_version,
        "prompts": prompts_hash,
    }


def claim(
    root: Path,
    plan: Mapping[str, Any],
    about: Mapping[str, Any],
    *,
    check: Callable[[], object] = lambda: None,
    kept: Sequence[str] = (),
) -> None:
    """Take a run directory for ``plan``: new, or one that was started with exactly this plan.

    Args:
        root: the run directory.
        plan: every resolved config value by dotted name; where the run is written does not belong to it.
        about: versions, git state and hashes, recorded once and not compared here.
        check: called before a new directory is taken; what it raises leaves the directory free for another plan.
        kept: glob patterns of what an earlier ``check`` may have left in a directory that nobody took.

    A stored plan of an earlier version lacks newer options; it is taken to have had their defaults.

    Raises:
        ArtifactError: when the directory belongs to another plan, naming the keys that differ. An option that this
            version no longer has differs only if it asked for something else than this version does.
    """
    if root.exists() and not root.is_dir():
        raise ArtifactError(f"{root} is a file, not a directory; choose another run_dir")
    if not PLAN.exists(root):
        known = {item for pattern in (".*", *kept) for item in root.glob(pattern)}
        if root.exists() and any(item not in known for item in root.iterdir()):
            raise ArtifactError(f"{root} is not empty and holds no plan.json; choose another run_dir or empty it")
        check()
        make_directory(root)
        PLAN.write(root, {"plan": dict(plan), "about": dict(about)})
        return
    defaults = {key: value for key, value in plan_of(Config()).items() if key in plan}
    stored = defaults | as_this_version(plan_record(root)["plan"])
    asked = as_this_version(plan)
    keys = sorted(key for key in {*asked, *stored} if asked.get(key) != stored.get(key))
    if keys:
        differing = [f"{key}: {stored.get(key)!r} there, {asked.get(key)!r} here" for key in keys]
        raise ArtifactError(
            f"{root} was started with another plan; it differs in {offenders(differing)}. "
            "Use another run_dir, or the values it was started with"
        )


def check_provenance(root: Path, present: Mapping[str, Any]) -> None:
    """Compare the facts that decide a run with those that ``plan.json`` recorded at its start.

    Args:
        root: the run directory.
        present: from `about`, at the start weights; an editor's also say ``domain``.

    Raises:
        ArtifactError: naming the facts that differ.
    """
    recorded = plan_record(root)["about"]
    differing = []
    for name in _MUST_MATCH:
        if name not in present:
            continue
        there, here = _by_name(name, recorded.get(name, present[name])), _by_name(name, present[name])
        keys = [key for key in sorted({*there, *here}) if there.get(key) != here.get(key)]
        differing += [f"{key}: {there.get(key)!r} there, {here.get(key)!r} here" for key in keys]
    if differing:
        raise ArtifactError(
            f"{root} was started in another world, from other weights or with other prompts; it differs in "
            f"{offenders(differing)}. Restore what it was started with, or use another run_dir"
        )


def plan_record(root: Path) -> RunStart:
    """Read ``plan.json`` of a run.

    Raises:
        ArtifactError: when it is missing, or holds something else.
    """
    start: RunStart = PLAN.data(root)
    if not isinstance(start, dict) or not all(isinstance(start.get(part), dict) for part in ("plan", "about")):
        raise ArtifactError(f"{PLAN.path(root)} does not hold the plan of a run; restore the file from a copy")
    return start


def _by_name(name: str, fact: Any) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in fact.items()} if isinstance(fact, Mapping) else {name: fact}


def version_of(package: str) -> str | None:
    """Return the installed version, or ``None``."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_state() -> Mapping[str, Any]:
    def git(*words: str) -> str | None:
        try:
            answer = subprocess.run(["git", *words], cwd=PACKAGE, capture_output=True, text=True, check=True, timeout=9)
        except (OSError, subprocess.SubprocessError):
            return None
        return answer.stdout.strip()

    return {
        "commit": git("rev-parse", "HEAD"),
        "dirty": bool(git("status", "--porcelain", "--", str(PACKAGE), str(CONFIGS))),
    }
