"""What the stages of one run share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from intraskill.config.config import Config
from intraskill.environments.protocol import Environment, boundary, payment_of
from intraskill.method.errors import ConfigError, SkillFormatError, SplitError, counted, offenders
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.randomness import shuffled
from intraskill.method.rewards import Payment
from intraskill.method.rollouts import Episode, Rollout
from intraskill.method.skill.skill import Skill
from intraskill.method.tasks import Split, Task
from intraskill.proposers.trace2skill import Proposer
from intraskill.rl.learner import Learner
from intraskill.store.metrics import Metrics, Monitor


@dataclass
class Run:
    """Everything that the stages of one run share.

    Attributes:
        config: resolved and checked.
        root: the run directory.
        environment: one task family.
        learner: policy and optimizer.
        proposer: reads rollouts and proposes; ``None`` when the config wants none.
        leak_filter: what no chunk may hold.
        metrics: the metric log.
        monitor: whoever watches.
    """

    config: Config
    root: Path
    environment: Environment
    learner: Learner
    proposer: Proposer | None
    leak_filter: LeakFilter
    metrics: Metrics
    monitor: Monitor

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest reward."""
        return payment_of(self.environment).bounds

    def rollouts(self, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        """Run episodes at the current weights, in order; one that pays what the environment may not is a fault."""
        payment = payment_of(self.environment)
        return tuple(_sound(rollout, payment) for rollout in self.learner.run(episodes))

    def screened(self, skill: Skill, where: str) -> Skill:
        """Return a person's skill: what would give an answer away is refused, what else looks odd is said.

        Args:
            skill: the person's.
            where: the option that named it and its value, for the sentences.

        Raises:
            SkillFormatError: naming place, rule and span.
        """
        refused, remarks = self.leak_filter.inspect_persons(skill)
        if refused:
            raise SkillFormatError(
                f"the leak filter refuses {where} for {offenders(refused)}; "
                "these words give away a task or its answer: take them out and run the same command again"
            )
        for remark in remarks:
            self.monitor.say(f"{where}: {remark}")
        return skill

    def say_faults(self, where: str, faults: Sequence[str | None]) -> None:
        """Tell the monitor how many rollouts were set aside as faults, and the first; nothing where none was.

        Args:
            where: stage or step, for the sentence.
            faults: `Rollout.fault` of every rollout.
        """
        if broken := [fault for fault in faults if fault is not None]:
            self.monitor.say(
                f"{where}: {len(broken)} of {counted(len(faults), 'rollout')} set aside, first: {broken[0]}"
            )

    def round_directory(self, round_index: int) -> Path:
        """Return ``RUN/round_003``."""
        return self.root / f"round_{round_index:03d}"

    def tasks(self, split: Split, limit: int | None = None) -> tuple[Task, ...]:
        """Return the tasks of a split that training and the gate may read; at most ``limit``, drawn by the seed.

        Raises:
            SplitError: for ``test``, which only the final report reads (method §12.4).
        """
        if split == "test":
            raise SplitError("test tasks are for the final report only; use train, skill_validation or model_dev")
        return panel(self.environment, split, limit, self.config.seed)


def _sound(rollout: Rollout, payment: Payment) -> Rollout:
    """Return a rollout, also of an environment's own learner, with numbers that its environment may pay."""
    if rollout.fault is not None:
        return rollout
    with boundary("environment") as crossing:
        reward, parts = payment.sound(rollout.reward, rollout.parts)
        return replace(rollout, reward=reward, parts=parts)
    return replace(rollout, reward=None, parts={}, fault=crossing.fault)


def panel(environment: Environment, split: Split, limit: int | None, seed: int) -> tuple[Task, ...]:
    """Return a split's tasks, at most ``limit`` of them in the order of an addressed shuffle.

    Raises:
        ConfigError: for a limit below 1.
        SplitError: when the split is empty.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"at most {limit} {split} tasks were asked for; ask for 1 or more, or for the whole split")
    tasks = {task.id: task for task in environment.tasks(split)}
    if not tasks:
        raise SplitError(f"the environment has no {split} tasks; choose a larger env.preset")
    if limit is None or limit >= len(tasks):
        return tuple(tasks.values())
    return tuple(tasks[task_id] for task_id in shuffled(tasks, seed, "panel", split)[:limit])
