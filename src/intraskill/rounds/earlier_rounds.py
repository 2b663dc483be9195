"""What the sealed rounds of a run say to a later gate: contributions, bare rewards, and how often they were read.

Everything comes from the rounds' own artifacts, so a resumed gate hears exactly what the killed one heard.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from intraskill.method.errors import ArtifactError
from intraskill.method.gate.diagnostics.remeasure import MeasuredRound, QueryCount, Reward
from intraskill.method.gate.power import gate_sigma
from intraskill.method.gate.regression import Contributions
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import ChunkId
from intraskill.rounds.arms import task_means
from intraskill.rounds.gate.bare_reuse import bare_seed
from intraskill.store.artifacts import BARE_ARM, CONTRIBUTIONS, DECISION, FULL_ARM, MASKS, SEQUENTIAL
from intraskill.store.run_directory import finished_rounds, is_sealed, verify


def rounds_before(root: Path, round_index: int | None = None) -> list[tuple[int, Path]]:
    """Return number and directory of every sealed round before ``round_index``; of all when it is ``None``."""
    numbered = [(round_number(directory), directory) for directory in finished_rounds(root)]
    return [(number, directory) for number, directory in numbered if round_index is None or number < round_index]


def round_number(directory: Path) -> int:
    """Return t of ``RUN/round_003``."""
    return int(directory.name.rpartition("_")[2])


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
            CONTRIBUTIONS.sealed(directory),
            DECISION.sealed(directory).kept,
        )
        for number, directory in rounds_before(root, round_index)
    )


def earlier_bare(root: Path, round_index: int) -> tuple[dict[str, float], ...]:
    """Return each task's mean bare reward in the gates of earlier rounds, oldest first."""
    found = []
    for _, directory in rounds_before(root, round_index):
        verify(directory, BARE_ARM.name)
        found.append(task_means(BARE_ARM.read(directory)))
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
        ArtifactError: if its file changed since it was sealed, or is no gate's.
    """
    measured = CONTRIBUTIONS.sealed(gate) if is_sealed(gate) else CONTRIBUTIONS.read(gate)
    if not measured.chunk_ids or measured.paired.estimator != "paired_ols":
        return None
    bare_replicates = MASKS.read(gate).bare_replicates if MASKS.exists(gate) else 1
    sigma = gate_sigma(measured.paired.residual_sd, bare_replicates)
    return GateNoise(sigma, measured.correlation, len(measured.chunk_ids)) if sigma > 0.0 else None


def last_noise(root: Path, round_index: int | None = None) -> GateNoise | None:
    """Return the noise of the newest gate of a sealed round before ``round_index``, or ``None``."""
    noises = (noise_of(directory) for _, directory in reversed(rounds_before(root, round_index)))
    return next((noise for noise in noises if noise), None)


def read_noise(source: Path) -> GateNoise:
    """Return the noise of one gate's directory, or of a run's newest gate.

    Raises:
        ArtifactError: if none of them measured a chunk, or a file is no gate's.
    """
    paths = [source] if CONTRIBUTIONS.exists(source) else sorted(source.glob("round_*"), reverse=True)
    gates = [path for path in paths if CONTRIBUTIONS.exists(path)]
    if not gates:
        raise ArtifactError(f"{source} holds no gate: neither contributions.json nor round_*/contributions.json")
    if noise := next((noise for noise in map(noise_of, gates) if noise), None):
        return noise
    raise ArtifactError(f"no gate under {source} measured a chunk; give sigma instead")


def query_count(root: Path) -> QueryCount:
    """Count how often gates of this run, those run alone included, read each task's validation reward."""
    count = QueryCount()
    for directory in _gates(root):
        shown: Collection[ChunkId] | None = None
        if FULL_ARM.exists(directory):
            alone, masks = directory.parent.name == "validations", MASKS.read(directory)
            shown = set(masks.chunks) - set(masks.placebos) if alone else DECISION.read(directory).kept
        count = count.after(gate_rewards(directory, shown))
    return count


def gate_rewards(gate: Path, full: Collection[ChunkId] | None) -> Iterator[Reward]:
    """Name every reward that a gate reads; gates that share a rollout, such as a reused bare one, share its name.

    Args:
        gate: its directory, with ``masks.json``.
        full: chunks of its full arm; ``None`` without one.
    """
    plan = MASKS.read(gate)
    bare, where = bare_seed(plan, gate), (plan.checkpoint, plan.round)
    drawn = bare if plan.seeds is None else plan.seeds["masks"]
    for task_id in SEQUENTIAL.read(gate).tasks if SEQUENTIAL.exists(gate) else plan.visible:
        for sample in range(plan.bare_replicates):
            yield task_id, content_hash("bare", bare, *where, sample)
        for sample, visible in enumerate(plan.sets(task_id)):
            yield task_id, content_hash("masked", drawn, *where, sample, sorted(visible))
        if full is not None:
            yield task_id, content_hash("full", bare, *where, sorted(full))


def _gates(root: Path) -> Iterator[Path]:
    yield from (directory for _, directory in rounds_before(root))
    yield from (path.parent for path in sorted(root.glob(f"validations/*/{CONTRIBUTIONS.name}")))
