"""wandb mirrors metrics offline, for real: no account, no network."""

import time

import pytest

from intraskill.method.errors import ArtifactError
from intraskill.store.metrics import Metrics, WandbMirror

PATIENCE_S = 60.0


def test_wandb_writes_an_offline_run_beside_the_metrics(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    metrics = Metrics(tmp_path / "metrics.jsonl", WandbMirror(tmp_path, "intraskill", "offline", {"seed": 0}))
    metrics.log(1, "train", 0, {"train/reward": 0.5, "train/note": "text"})
    metrics.close()
    (run,) = (tmp_path / "wandb").glob("offline-run-*")
    (log,) = run.glob("*.wandb")
    deadline = time.monotonic() + PATIENCE_S
    while b"train/reward" not in log.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.1)  # wandb's own process may still be writing when finish() returns
    assert b"train/reward" in log.read_bytes() and b"train/note" not in log.read_bytes()
    assert metrics.rows() == [{"round": 1, "stage": "train", "step": 0, "train/reward": 0.5, "train/note": "text"}]


def test_half_a_line_of_a_killed_process_is_no_row_and_a_broken_whole_line_is_one_clear_error(tmp_path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.log(0, "bare", 0, {"eval/reward": 0.5})
    with (tmp_path / "metrics.jsonl").open("a") as stream:
        stream.write('{"round": 4, "sta')
    assert [row["stage"] for row in metrics.rows()] == ["bare"]
    with (tmp_path / "metrics.jsonl").open("a") as stream:
        stream.write("\n")
    with pytest.raises(ArtifactError, match=r"metrics.jsonl, line 2, is not valid JSON .*; remove that line"):
        metrics.rows()
