"""The whole loop on vLLM: it trains an adapter, and a killed run resumes to the same bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from planted_runs import content
from rl.toy import SKILL, write_model
from vllm_engine.real import need_vllm

pytestmark = pytest.mark.vllm
need_vllm()

TESTS = Path(__file__).parents[1]
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from dying import dies_at
from pathlib import Path
from rounds.test_torch_run import letter_config
from intraskill.rounds.loop import run
count = dies_at(int(sys.argv[3]))
config = letter_config(Path(sys.argv[2]), sys.argv[4])
config.rollout.engine, config.policy.lora_rank = "vllm", int(sys.argv[5])
config.grpo.updates_per_batch, config.rollout.max_new_tokens = 2, 24
config.grpo.lr = 1e-3 if config.policy.lora_rank else 1e-4
run(config)
print("syncs", count())
"""


def live(place: Path, name: str, syncs: int, rank: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, str(TESTS), str(place), str(syncs), name, str(rank)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.mark.parametrize("rank", [4, 0], ids=["adapter", "full weights"])
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path: Path, rank: int) -> None:
    write_model(tmp_path / "model", hidden=128, ending=6.0)
    (tmp_path / "draft.md").write_text(SKILL.to_markdown())
    whole = live(tmp_path, "whole", 0, rank)
    assert whole.returncode == 0, whole.stderr[-3000:]
    syncs = int(whole.stdout.split("syncs")[1])
    killed = live(tmp_path, "killed", syncs // 2, rank)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    assert live(tmp_path, "killed", 0, rank).returncode == 0
    expected, found = content(tmp_path / "whole"), content(tmp_path / "killed")
    assert differing(expected, found) == []
    weights = "checkpoint/weights.safetensors"
    assert expected[f"round_000/{weights}"] != expected[f"round_001/{weights}"]


def differing(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
