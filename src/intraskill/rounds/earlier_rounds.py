"""What the sealed rounds of a run say to a later gate: contributions, bare rewards, and how often they were read.

Everything comes from the rounds' own artifacts, so a resumed gate hears exactly what the killed one heard.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.method.errors import ArtifactError
from intraskill.method.gate.diagnostics.remeasure import MeasuredRound, QueryCount, Reward
from intraskill.method.gate.power import gate_sigma
from intraskill.method.gate.regression import Contributions
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import ChunkId, Skill, parse_skill
from intraskill.rounds.arms import read_rollouts, task_means
from intraskill.rounds.gate.bare_reuse import bare_seed
from intraskill.store.records import from_json
from intraskill.store.run_directory import finished_rounds, is_sealed, read_json, read_text, verify


def rounds_before(root: Path, round_index: int | None = None) -> list[tuple[int, Path]]:
    """Return number and directory of every sealed round before ``round_index``; of all when it is ``None``."""
    numbered = [(round_number(directory), directory) for directory in finished_rounds(root)]
    return [(number, directory) for number, directory in numbered if round_index is None or number < round_index]


def round_number(directory: Path) -> int:
    """Return t of ``RUN/round_003``."""
    return int(directory.name.rpartition("_")[2])


def skill_at(directory: Path) -> Skill:
    """Return the skill of a round.

    Raises:
        ArtifactError: when it cannot be read.
        SkillFormatError: when it is no skill.
    """
    return parse_skill(read_text(directory / "skill.md"))


def earlier_contributions(root: Path, round_index: int) -> tuple[Contributions, ...]:
    """Return what the gates of earlier rounds measured, oldest first."""
    return tuple(found.contributions for found in measured_rounds(root, round_index))


def measured_rounds(root: Path, round_index: int | None = None) -> tuple[MeasuredRound, ...]:
    """Return the gates of sealed rounds, oldest first.

    Raises:
        ArtifactError: when one of their files changed since it was sealed.
    """
    return tuple(
        MeasuredRound(
            number,
            from_json(Contributions, _sealed(directory, "contributions.json"), directory / "contributions.json"),
            tuple(_sealed(directory, "decision.json")["kept"]),
        )
        for number, directory in rounds_before(root, round_index)
    )


def earlier_bare(root: Path, round_index: int) -> tuple[dict[str, float], ...]:
    """Return each task's mean bare reward in the gates of earlier rounds, oldest first."""
    found = []
    for _, directory in rounds_before(root, round_index):
        verify(directory, "bare.jsonl")
        found.append(task_means(read_rollouts(directory / "bare.jsonl")))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class GateNoise:
    """What a finished gate says about the precision of the next one.

    Attributes:
        sigma: SD of R − B around C β, one rollout in each arm, reward units (`gate_sigma`).
        correlation: corr(R, B); ``None`` where it was not recorded.
        chunks: size of its pool.
    """

    sigma: float
    correlation: float | None
    chunks: int


def noise_of(gate: Path) -> GateNoise | None:
    """Return the noise of one gate, or ``None`` when it fitted no `paired_ols` or its differences did not vary.

    Raises:
        ArtifactError: if its file changed since it was sealed, or lacks the residual SD.
    """
    if is_sealed(gate):
        verify(gate, "contributions.json")
    data = read_json(gate / "contributions.json")
    paired = data.get("beside", {}).get("paired_ols", data)
    if not data.get("chunk_ids") or paired.get("estimator", "paired_ols") != "paired_ols":
        return None
    if "residual_sd" not in paired:
        raise ArtifactError(
            f"{gate / 'contributions.json'} has no residual_sd; restore the file, or give sigma instead"
        )
    plan = read_json(gate / "masks.json") if (gate / "masks.json").exists() else {}
    sigma = gate_sigma(paired["residual_sd"], plan.get("design", {}).get("bare_replicates", 1))
    return GateNoise(sigma, data.get("correlation"), len(data["chunk_ids"])) if sigma > 0.0 else None


def last_noise(root: Path, round_index: int | None = None) -> GateNoise | None:
    """Return the noise of the newest gate of a sealed round before ``round_index``, or ``None``."""
    noises = (noise_of(directory) for _, directory in reversed(rounds_before(root, round_index)))
    return next((noise for noise in noises if noise), None)


def read_noise(source: Path) -> GateNoise:
    """Return the noise of one gate's directory, or of a run's newest gate.

    Raises:
        ArtifactError: if none of them measured a chunk, or a file is no gate's.
    """
    paths = [source] if (source / "contributions.json").exists() else sorted(source.glob("round_*"), reverse=True)
    gates = [path for path in paths if (path / "contributions.json").exists()]
    if not gates:
        raise ArtifactError(f"{source} holds no gate: neither contributions.json nor round_*/contributions.json")
    if noise := next((noise for noise in map(noise_of, gates) if noise), None):
        return noise
    raise ArtifactError(f"no gate under {source} measured a chunk; give sigma instead")


def query_count(root: Path) -> QueryCount:
    """Count how often gates of this run, those run alone included, read each task's validation reward."""
    count = QueryCount()
    for directory in _gates(root):
        shown: list[str] | None = None
        if (directory / "full.jsonl").exists():
            alone = directory.parent.name == "validations"
            plan = read_json(directory / "masks.json")
            kept = sorted(set(plan["chunks"]) - set(plan.get("placebos", ())))
            shown = kept if alone else read_json(directory / "decision.json")["kept"]
        count = count.after(gate_rewards(directory, shown))
    return count


def gate_rewards(gate: Path, full: Collection[ChunkId] | None) -> Iterator[Reward]:
    """Name every reward that a gate reads; gates that share a rollout, such as a reused bare one, share its name.

    Args:
        gate: its directory, with ``masks.json``.
        full: chunks of its full arm; ``None`` without one.
    """
    plan: dict[str, Any] = read_json(gate / "masks.json")
    design, looked, where = plan.get("design", {}), gate / "sequential.json", (plan["checkpoint"], plan["round"])
    bare = bare_seed(plan, gate)
    drawn = plan.get("seeds", {}).get("masks", bare)
    for task_id in read_json(looked)["tasks"] if looked.exists() else plan["visible"]:
        for sample in range(design.get("bare_replicates", 1)):
            yield task_id, content_hash("bare", bare, *where, sample)
        sets = plan["visible"][task_id] if plan["chunks"] else []
        for sample, visible in enumerate(sets if design.get("masked_replicates", 1) > 1 else [sets]):
            if plan["chunks"]:
                yield task_id, content_hash("masked", drawn, *where, sample, sorted(visible))
        if full is not None:
            yield task_id, content_hash("full", bare, *where, sorted(full))


def _gates(root: Path) -> Iterator[Path]:
    yield from (directory for _, directory in rounds_before(root))
    yield from (path.parent for path in sorted(root.glob("validations/*/contributions.json")))


def _sealed(directory: Path, name: str) -> Any:
    verify(directory, name)
    return read_json(directory / name)
