"""Small runs in the planted world, and what makes two run directories equal."""

import json
from pathlib import Path
from typing import Any

from intraskill.config.config import Config

TASKS = {"train": 40, "skill_validation": 48, "model_dev": 20, "audit": 8, "test": 60}


def planted_config(run_dir: Path, **options: Any) -> Config:
    config = Config(run_dir=str(run_dir), rounds=2)
    config.env.name = "planted"
    config.env.options = {"tasks_per_split": TASKS, "learning_rate": 0.3, **options}
    config.rollout.batch = 16
    config.grpo.steps_per_round, config.grpo.save_every_steps = 4, 2
    config.grpo.groups_per_step, config.grpo.group_size = 4, 4
    config.frontier.max_mean, config.frontier.max_std, config.frontier.max_tasks = 0.3, 0.5, 6
    config.triage.reruns = config.triage.min_valid = 2
    config.coldstart.tasks = 12
    return config


def content(root: Path) -> dict[str, Any]:
    """Every file's bytes; of metrics everything but wall-clock times, of the plan the plan."""
    files: dict[str, Any] = {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }
    files["metrics.jsonl"] = timeless(files["metrics.jsonl"])
    files["plan.json"] = json.loads(files["plan.json"])["plan"]  # the rest is the state of git, which may move
    return files


def timeless(metrics: bytes) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in metrics.splitlines()]
    return [{key: value for key, value in row.items() if not key.endswith("_s")} for row in rows]
