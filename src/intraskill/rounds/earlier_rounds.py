"""What the sealed rounds of a run say to a later gate: contributions, bare rewards, and how often they were read.

Everything comes from the rounds' own artifacts, so a resumed gate hears exactly what the killed one heard.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from intraskill.method.gate.diagnostics.remeasure import MeasuredRound, QueryCount, Reward
from intraskill.method.gate.regression import Contributions
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import ChunkId
from intraskill.rounds.arms import task_means
from intraskill.rounds.gate.bare_reuse import bare_seed
from intraskill.store.artifacts import BARE_ARM, CONTRIBUTIONS, DECISION, FULL_ARM, MASKS, SEQUENTIAL
from intraskill.store.run_directory import finished_rounds, verify


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


def last_spread(root: Path | None, round_index: int | None = None) -> tuple[float, float | None] | None:
    """Return (σ, corr(R, B)) of the newest gate before ``round_index``, or ``None``.

    σ is the residual SD of `paired_ols`, scaled to one rollout in each arm.
    """
    for _, directory in reversed(rounds_before(root, round_index) if root else []):
        found = CONTRIBUTIONS.sealed(directory)
        bare = MASKS.read(directory).bare_replicates
        if found.chunk_ids and found.paired.residual_sd > 0.0:
            return found.paired.residual_sd / ((1.0 + 1.0 / bare) / 2.0) ** 0.5, found.correlation
    return None


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
