"""Evaluate a checkpoint on a panel of tasks, and compare two evaluations of one panel.

A panel is a split, its tasks and the repeats. Two evaluations are compared task by task and only when panel,
environment and sampling are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from intraskill.method.errors import ArtifactError, ConfigError, PairingError
from intraskill.method.gate.bounded import mcnemar, paired_interval
from intraskill.method.gate.intervals import Interval, PairedCounts, paired_counts, require_two
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import Skill, parse_skill
from intraskill.method.tasks import SPLITS, Task
from intraskill.rl.learner import Learner
from intraskill.rounds.arms import plan_arm, run_scored_arm, task_means, task_success
from intraskill.rounds.run import Run, panel
from intraskill.store.agent_skill import read_skill
from intraskill.store.artifacts import EVALUATION, METRICS, PLAN, ROLLOUTS, SKILL
from intraskill.store.contents import Evaluation, EvaluationFile
from intraskill.store.metrics import Metrics
from intraskill.store.records import from_json
from intraskill.store.run_directory import finished_rounds, is_sealed, read_json, read_text, verify

__all__ = ["Interval", "Skill", "compare", "evaluate", "paired_counts", "paired_interval"]

MODES = ("skill-free", "skill-augmented")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The paired difference of two evaluations of one panel, ``after − before``."""

    reward: Interval
    success: Interval
    tasks: PairedCounts

    @property
    def mcnemar_p(self) -> float:
        """Two-sided p of McNemar's exact test on the tasks gained and lost."""
        return mcnemar(self.tasks.gained, self.tasks.lost)


def compare(before: Evaluation, after: Evaluation) -> Comparison:
    """Compare task by task, with 95 % intervals of the paired differences.

    Raises:
        PairingError: when the panels differ, naming what differs.
    """
    if differing := [key for key, value in before.panel.items() if after.panel[key] != value]:
        pairs = [f"{key}: {before.panel[key]} against {after.panel[key]}" for key in differing]
        raise PairingError(f"the evaluations are of different panels ({'; '.join(pairs)}); evaluate both the same way")
    return Comparison(
        paired_interval(before.rewards, after.rewards, after.bounds),
        paired_interval(before.successes, after.successes),
        paired_counts(before.successes, after.successes),
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint on disk and what stands beside it.

    Attributes:
        checkpoint: directory of the weights.
        skill_path: the skill document of the same round, or ``None``.
        root: the run directory, or ``None`` for loose weights.
    """

    checkpoint: Path
    skill_path: Path | None
    root: Path | None


def find_source(path: Path) -> Source:
    """Find a checkpoint: a run (its last finished round), a round, or a checkpoint directory.

    Raises:
        ArtifactError: when there is none, or a file of its round changed since it was sealed.
    """
    rounds = finished_rounds(path)
    directory = rounds[-1] if rounds else path
    if is_sealed(directory):
        verify(directory)
    checkpoint = directory / "checkpoint" if (directory / "checkpoint").is_dir() else directory
    if not checkpoint.is_dir() or PLAN.exists(path) and not rounds:
        raise ArtifactError(f"{path} holds no checkpoint; give a run with a finished round, a round, or a checkpoint")
    beside, root = checkpoint.parent, checkpoint.parent.parent
    skill = SKILL.path(beside) if SKILL.exists(beside) else None
    return Source(checkpoint, skill, root if PLAN.exists(root) else None)


def skill_of(source: Source, path: str | None) -> Skill:
    """Return the skill to show: the file given, else the one committed with the checkpoint.

    Raises:
        ConfigError: when there is neither.
    """
    if path is not None:
        return read_skill(Path(path))
    if source.skill_path is None:
        raise ConfigError(f"no skill.md stands beside {source.checkpoint}; pass --skill FILE")
    return parse_skill(read_text(source.skill_path))


def evaluate(
    run: Run, checkpoint: Path, *, mode: str, split: str, skill: Skill, repeats: int = 1, tasks: int | None = None
) -> tuple[Evaluation, Path]:
    """Evaluate a checkpoint and save every rollout; the same evaluation is never run twice.

    The seed of the run tells directories apart, since it decides every rollout; it is no part of the panel, so
    evaluations under different seeds may be compared.

    Args:
        run: from `assembly.bench`; files go under its root.
        checkpoint: directory of the weights.
        mode: ``skill-free`` or ``skill-augmented``.
        split: any data role; ``test`` is for the final report only.
        skill: shown whole when augmented.
        repeats: rollouts per task.
        tasks: at most so many tasks; ``None`` = the whole split.

    Returns:
        The evaluation and its directory.

    Raises:
        ConfigError: for an unknown mode or split, or a limit below 1.
        TooFewTasksError: when fewer than two tasks are there, or were scored.
        EnvironmentFault: when every rollout was a fault.
    """
    if mode not in MODES or split not in SPLITS or repeats < 1:
        raise ConfigError(
            f"eval needs a mode of {', '.join(MODES)}, a split of {', '.join(SPLITS)} and repeats ≥ 1; "
            f"got {mode}, {split}, {repeats}"
        )
    chosen = panel(run.environment, split, tasks, run.config.seed)
    require_two(len(chosen))
    run.learner.load(checkpoint)
    shown = skill if mode == "skill-augmented" else Skill("")
    planned = replace(_planned(run.learner, mode, repeats, shown, chosen), bounds=run.bounds)
    run, directory = at_directory(run, f"{planned.name}-{content_hash(planned.panel, run.config.seed)[:6]}")
    episodes = plan_arm(run.config.seed, chosen, shown, frozenset(shown.ids), address=("eval", split), repeats=repeats)
    rollouts = run_scored_arm(run, ROLLOUTS.path(directory), None, episodes)
    found = replace(planned, rewards=task_means(rollouts), successes=task_success(rollouts))
    EVALUATION.write(directory, EvaluationFile(found.reward, found.success, found))
    return found, directory


def _planned(learner: Learner, mode: str, repeats: int, shown: Skill, tasks: Sequence[Task]) -> Evaluation:
    """Return the evaluation before its first rollout: everything but the scores."""
    conditions = learner.conditions
    return Evaluation(
        mode=mode,
        split=tasks[0].split,
        repeats=repeats,
        checkpoint=learner.checkpoint,
        skill=shown.hash if shown.chunks else "",
        sampling=conditions["sampling"],
        prompt=conditions["prompt"],
        environment=conditions["environment"],
        rewards={task.id: 0.0 for task in tasks},
        successes={},
    )


def at_directory(run: Run, name: str) -> tuple[Run, Path]:
    """Return the run with its metrics in a directory of their own: each starts its stages anew at round 0."""
    directory = run.root / name
    directory.mkdir(parents=True, exist_ok=True)
    return replace(run, metrics=Metrics(METRICS.path(directory))), directory


def read_evaluation(path: Path) -> Evaluation:
    """Read what `evaluate` wrote, from its directory or its ``eval.json``.

    Raises:
        ArtifactError: when it is missing or corrupt.
    """
    file = EVALUATION.path(path) if path.is_dir() else path
    return from_json(EvaluationFile, read_json(file), file).evaluation


def comparable(root: Path, evaluation: Evaluation) -> list[Evaluation]:
    """Return the other evaluations under ``root`` of the same panel."""
    others = [read_evaluation(file) for file in sorted(root.glob(f"*/{EVALUATION.name}"))]
    return [other for other in others if other.panel == evaluation.panel and other.name != evaluation.name]
