"""The loop with a real network: it trains, and a killed run resumes to the same weights."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from planted_runs import content
from rl.toy import SKILL, write_model

from intraskill.config.config import Config

TESTS = Path(__file__).parents[1]
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from dying import dies_at
from rounds.test_torch_run import letter_config
from intraskill.rounds.loop import run
from pathlib import Path
count = dies_at(int(sys.argv[3]))
run(letter_config(Path(sys.argv[2]), sys.argv[4]))
print(count())
"""


def letter_config(place: Path, name: str) -> Config:
    config = Config(run_dir=str(place / name), rounds=1)
    config.env.name, config.policy.path = "letter_world:make", str(place / "model")
    config.coldstart.draft, config.coldstart.tasks, config.proposer.name = str(place / "draft.md"), 0, "none"
    config.rollout.batch, config.rollout.max_turns, config.rollout.max_new_tokens = 8, 4, 12
    config.rollout.max_context = 512
    config.grpo.group_size, config.grpo.groups_per_step, config.grpo.reserve_groups = 4, 3, 1
    config.grpo.steps_per_round, config.grpo.save_every_steps, config.grpo.lr = 4, 2, 1e-3
    config.frontier.max_tasks, config.triage.reruns, config.final.tasks = 2, 2, 6
    config.frontier.max_mean = config.frontier.max_std = 0.2
    if name.startswith("lora"):
        config.policy.lora_rank, config.grpo.updates_per_batch, config.workers = 4, 2, 2
    return config


def live(place, name, syncs=0):
    command = [sys.executable, "-c", CHILD, str(TESTS), str(place), str(syncs), name]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "lora-"], ids=["full weights", "adapter, two steps per batch, two workers"])
def test_a_killed_torch_run_resumes_to_the_same_weights_skill_and_metrics(tmp_path, kind):
    write_model(tmp_path / "model")
    (tmp_path / "draft.md").write_text(SKILL.to_markdown())
    whole = live(tmp_path, f"{kind}whole")
    assert whole.returncode == 0, whole.stderr
    syncs = int(whole.stdout)
    first = live(tmp_path, f"{kind}killed", syncs // 3)
    second = live(tmp_path, f"{kind}killed", syncs // 3)
    assert first.returncode == second.returncode == -signal.SIGKILL
    assert live(tmp_path, f"{kind}killed").returncode == 0
    expected, found = content(tmp_path / f"{kind}whole"), content(tmp_path / f"{kind}killed")
    assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []
    weights = "checkpoint/weights.safetensors"
    assert expected[f"round_000/{weights}"] != expected[f"round_001/{weights}"]
