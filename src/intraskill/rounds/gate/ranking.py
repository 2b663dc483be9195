"""Does the ranking hold? Top-K, bottom-K, several random-K, full and empty arms on tasks that no gate has read.

Luck that the ranking was chosen for does not come back there, as far as it is known who has read these tasks. All arms
play the same tasks under the same seeds; every difference is paired by task, with Student's t interval.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from intraskill.method.errors import ConfigError
from intraskill.method.gate.bounded import bounded_interval, paired_interval
from intraskill.method.gate.diagnostics.remeasure import QueryCount, audit_slice
from intraskill.method.gate.intervals import Interval, require_two
from intraskill.method.randomness import content_hash, shuffled
from intraskill.method.rewards import UNIT
from intraskill.method.skill.skill import ChunkId, Skill
from intraskill.method.tasks import Task
from intraskill.rounds.arms import plan_arm, run_scored_arm, task_means
from intraskill.rounds.earlier_rounds import query_count
from intraskill.rounds.evaluate import Source, at_directory
from intraskill.rounds.gate.assess import Validation
from intraskill.rounds.run import Run
from intraskill.store.artifacts import RANKING, RANKING_CONTEXT, RANKING_TABLE, arm
from intraskill.store.contents import RankingContext
from intraskill.store.records import to_json
from intraskill.store.run_directory import locked

_ADDRESS = ("ranking",)


@dataclass(frozen=True, slots=True)
class Ranking:
    """What the arms of a ranking earned.

    Attributes:
        order: chunks by falling contribution.
        size: K.
        arms: chunks of every arm.
        rewards: mean reward of every arm.
        differences: paired differences by name.
        num_tasks: audit tasks.
        readers: what is known of earlier readers of these tasks, in words.
    """

    order: tuple[ChunkId, ...]
    size: int
    arms: Mapping[str, tuple[ChunkId, ...]]
    rewards: Mapping[str, Interval]
    differences: Mapping[str, Interval]
    num_tasks: int
    readers: str

    @property
    def verdict(self) -> str:
        """``holds``, ``reversed`` or ``cannot be told``, from top-K minus bottom-K."""
        words = {1: "holds", -1: "is reversed", 0: "cannot be told apart from chance"}
        return words[_side(self.differences["top − bottom"])]

    def words(self) -> str:
        """Say it in plain words."""
        gap, chance = self.differences["top − bottom"], self.differences["top − random"]
        beats = {1: "beats", -1: "loses to", 0: "cannot be told from"}[_side(chance)]
        drawn = sum(arm.startswith("random_") for arm in self.arms)
        return (
            f"The ranking {self.verdict}: on {self.num_tasks:,} audit tasks ({self.readers}), the top {self.size} of "
            f"{len(self.order)} chunks earn {_signed(gap)} more than the bottom {self.size}; the top {self.size} "
            f"{beats} the mean of the {drawn} random sets of {self.size} that were drawn ({_signed(chance)}; this "
            f"speaks of these sets only); the whole skill adds {_signed(self.differences['full − empty'])} to no skill."
        )


def check_ranked(chunks: int) -> None:
    """Refuse to rank a skill of fewer than two chunks.

    Raises:
        ConfigError: for it.
    """
    if chunks < 2:
        raise ConfigError(f"a ranking needs two chunks or more, and this skill has {chunks}")


def validate_ranking(
    run: Run, source: Source, found: Validation, *, size: int | None = None, draws: int = 3
) -> tuple[Ranking, Path]:
    """Run the arms, or what is left of them, and write ``ranking.json`` and ``ranking.csv``.

    Args:
        run: with the checkpoint loaded; files go under its root.
        source: the run whose decisions must not have read the audit tasks.
        found: the gate whose contributions are ranked.
        size: K; half of the chunks, rounded up, by default.
        draws: how many random arms.

    Raises:
        ConfigError: with fewer than two chunks, or a K or a number of draws that makes no sense.
        SplitError: when there are no audit tasks, or a decision has read one.
        TooFewTasksError: with fewer than two of them.
    """
    skill = found.facts.skill
    arms = _arms(found, size, draws, run.config.seed)
    tasks = audit_slice(run.tasks("audit"), query_count(source.root) if source.root else QueryCount())
    require_two(len(tasks))
    fixed = content_hash(to_json(arms), [task.id for task in tasks], run.config.seed, run.learner.conditions)
    name = f"ranking-{run.learner.checkpoint[:8]}-{skill.hash[:8]}-{fixed[:6]}"
    with locked(run.root / name):
        run, directory = at_directory(run, name)
        readers = _readers(directory, source.root, tasks)
        means = {arm: _earned(run, directory, arm, skill, shown, tasks) for arm, shown in arms.items()}
        shared = set.intersection(*(set(mean) for mean in means.values()))
        means = {arm: {task: mean[task] for task in sorted(shared)} for arm, mean in means.items()}
        ranking = _ranking(arms, means, readers, run.bounds)
        RANKING.write(directory, to_json(ranking) | {"verdict": ranking.verdict})
        RANKING_TABLE.write(directory, _csv(ranking))
    return ranking, directory


def _arms(found: Validation, size: int | None, draws: int, seed: int) -> dict[str, tuple[ChunkId, ...]]:
    """Return the chunks of every arm; the order is by β̂ of the estimator that decides, a tie by id."""
    beta = found.contributions.by_chunk
    order = sorted(beta, key=lambda chunk_id: (-beta[chunk_id], chunk_id))
    check_ranked(len(order))
    number = ceil(len(order) / 2) if size is None else size
    if not 1 <= number < len(order) or draws < 1:
        raise ConfigError(
            f"a ranking of {len(order)} chunks needs 1 ≤ K < {len(order)} and at least one random arm, got K {number} "
            f"and {draws} random arms"
        )
    arms: dict[str, tuple[ChunkId, ...]] = {
        "empty": (),
        "full": tuple(order),
        "top": tuple(order[:number]),
        "bottom": tuple(order[-number:]),
    }
    # Different from one another as far as there are so many sets; a shuffle may repeat an earlier one.
    drawn = (tuple(sorted(shuffled(order, seed, "ranking", draw)[:number], key=order.index)) for draw in range(1000))
    different = list(dict.fromkeys(drawn))[:draws]
    return arms | {f"random_{draw}": shown for draw, shown in enumerate(different)}


def _earned(
    run: Run, directory: Path, name: str, skill: Skill, shown: Sequence[ChunkId], tasks: Sequence[Task]
) -> dict[str, float]:
    episodes = plan_arm(run.config.seed, tasks, skill, frozenset(shown), address=_ADDRESS)
    return task_means(run_scored_arm(run, arm(name).path(directory), None, episodes))


def _readers(directory: Path, root: Path | None, tasks: Sequence[Task]) -> str:
    """Say what is known of who has read these tasks; looked up once, so that a resumed ranking says the same."""
    if not RANKING_CONTEXT.exists(directory):
        ids, places = {task.id for task in tasks}, [directory.parent, *([root / "validations"] if root else [])]
        seen = {other.resolve() for place in places for other in place.glob(f"ranking-*/{RANKING_CONTEXT.name}")}
        earlier = sum(not ids.isdisjoint(RANKING_CONTEXT.read(other.parent).tasks) for other in seen)
        words = "no gate of this run has read them" if root else "who has read them is not known: no run is named"
        if earlier:
            words += f"; {earlier} earlier ranking{'s' * (earlier > 1)} {'has' if earlier == 1 else 'have'} read them"
        RANKING_CONTEXT.write(directory, RankingContext(tuple(sorted(ids)), words))
    return RANKING_CONTEXT.read(directory).readers


def _ranking(
    arms: Mapping[str, tuple[ChunkId, ...]],
    means: Mapping[str, Mapping[str, float]],
    readers: str,
    bounds: tuple[float, float] = UNIT,
) -> Ranking:
    randoms = [mean for arm, mean in means.items() if arm.startswith("random_")]
    chance = {task: sum(mean[task] for mean in randoms) / len(randoms) for task in means["top"]}
    compared = {
        "top − bottom": (means["bottom"], means["top"]),
        "top − random": (chance, means["top"]),
        "bottom − random": (chance, means["bottom"]),
        "top − empty": (means["empty"], means["top"]),
        "full − empty": (means["empty"], means["full"]),
        "full − top": (means["top"], means["full"]),
    }
    return Ranking(
        order=arms["full"],
        size=len(arms["top"]),
        arms=arms,
        rewards={arm: bounded_interval(list(mean.values()), bounds) for arm, mean in means.items()},
        differences={name: paired_interval(*sides, bounds) for name, sides in compared.items()},
        num_tasks=len(chance),
        readers=readers,
    )


def _side(found: Interval) -> int:
    """Return 1 above 0, −1 below, 0 when that cannot be told."""
    return int(found.low > 0.0) - int(found.high < 0.0)


def _csv(ranking: Ranking) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["arm_or_difference", "chunks", "mean", "low", "high", "se", "tasks"])
    for name, found in {**ranking.rewards, **ranking.differences}.items():
        chunks = " ".join(ranking.arms.get(name, ()))
        writer.writerow([name, chunks, *to_json(found).values()])
    return stream.getvalue()


def _signed(found: Interval) -> str:
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def ranking_rows(ranking: Ranking) -> list[tuple[str, str, Any]]:
    """Return (arm or difference, chunks, interval) for a table."""
    rows = [(name, str(len(ranking.arms[name])), found) for name, found in ranking.rewards.items()]
    return [*rows, *((name, "", found) for name, found in ranking.differences.items())]
