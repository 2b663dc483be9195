"""What the stages of one run share."""

from dataclasses import dataclass
from pathlib import Path

from intraskill.config.config import Config
from intraskill.environments.protocol import Environment
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.randomness import shuffled
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
        leak filter: what no chunk may hold.
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
