"""wandb mirrors metrics offline, for real: no account, no network. TensorBoard's own reader reads its files."""

import signal
import sys
import time

import pytest
from planted_runs import planted_config
from rounds.test_resume import run_until

import intraskill.rounds.loop
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.report.summary import summarise
from intraskill.rounds.loop import run
from intraskill.store.metrics import Metrics
from intraskill.store.wandb_mirror import WandbMirror

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


def logged(root, names):
    """Return everything that wandb's own files of a run directory hold, once these names are among it."""
    deadline, content = time.monotonic() + PATIENCE_S, b""
    while time.monotonic() < deadline:
        content = b"".join(path.read_bytes() for path in sorted((root / "wandb").glob("offline-run-*/*.wandb")))
        if not [name for name in names if name.encode() not in content]:
            return content
        time.sleep(0.1)
    raise AssertionError(f"wandb wrote nothing of {[name for name in names if name.encode() not in content]}")


def test_a_run_that_is_continued_stays_one_wandb_run_with_gates_chunks_and_skills(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    config = planted_config(tmp_path / "run")
    config.rounds, config.final.tasks, config.tracking.name, config.tracking.group = 1, 0, "wandb", "planted seeds"
    original = intraskill.rounds.loop.run_round
    with monkeypatch.context() as patch:
        patch.setattr(intraskill.rounds.loop, "run_round", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(config)
    assert intraskill.rounds.loop.run_round is original
    root = run(config)
    kept = (root / ".wandb-id").read_text().strip()
    runs = sorted(path.name for path in (root / "wandb").glob("offline-run-*"))
    assert runs and all(kept in name for name in runs)  # one folder where both starts fall into one second
    names = ["global_step", "train/reward", "bare/reward", "masked/reward", "gate/r_free", "gate/r_pair_low", "round-1"]
    names += [f"chunk/{chunk['title']}/beta" for chunk in summarise(root)["rounds"][1]["chunks"]]
    content = logged(root, [*names, f"skill-{kept}", "planted seeds"])
    assert b"eval/reward" not in content


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


def scalars(root):
    """Return what TensorBoard itself shows of a run: by name, (step, value) in order."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(root / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def watched_config(run_dir):
    config = planted_config(run_dir)
    config.final.tasks, config.tracking.name = 0, "tensorboard"
    return config


def test_tensorboard_shows_each_number_once_over_the_training_steps(tmp_path):
    root = run(watched_config(tmp_path / "run"))
    shown = scalars(root)
    assert [step for step, _ in shown["train/reward"]] == list(range(1, 9))
    assert [step for step, _ in shown["gate/r_free"]] == [0, 4, 8]
    rows = [row for row in Metrics(root / "metrics.jsonl").rows() if row["stage"] == "train"]
    assert [value for _, value in shown["train/reward"]] == pytest.approx([row["train/reward"] for row in rows])
    rounds = summarise(root)["rounds"]
    assert [value for _, value in shown["gate/gap"]] == pytest.approx([row["gap"]["mean"] for row in rounds])
    assert not [name for name in shown if name.startswith("eval/")]
    titles = {chunk["title"].replace(" ", "_") for chunk in rounds[-1]["chunks"]}  # TensorBoard's names have no blanks
    assert {f"chunk/{title}/beta" for title in titles} <= set(shown)


@pytest.mark.parametrize("share", [0.3, 0.55, 0.8, 0.95])
def test_after_a_kill_tensorboard_shows_what_an_undisturbed_run_shows(tmp_path, share):
    whole, killed = watched_config(tmp_path / "whole" / "run"), watched_config(tmp_path / "run")
    assert run_until(whole, 0) == 0
    syncs = int((tmp_path / "whole" / "run" / ".syncs").read_text())
    assert run_until(killed, round(syncs * share)) == -signal.SIGKILL
    assert run_until(killed, 0) == 0
    expected, got = scalars(tmp_path / "whole" / "run"), scalars(tmp_path / "run")
    timeless = {name for name in expected if not name.endswith(("_s", "_per_s"))}
    assert timeless <= set(got)
    assert [name for name in sorted(timeless) if sorted(got[name]) != sorted(expected[name])] == []


def test_without_tensorboardx_nothing_begins(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ConfigError, match=r"needs tensorboardX: pip install 'intraskill\[tensorboard\]'"):
        run(watched_config(tmp_path / "run"))
