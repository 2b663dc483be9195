"""The published speeds are those of the recorded rows."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
KEYS = {
    "update_shared_prefix", "step_vs_trl", "rollout_vs_reprefill", "env_steps_small", "env_steps_paper", "help_seconds",
    "gate_fit_seconds",
}  # fmt: skip


@pytest.fixture
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_table", ROOT / "scripts" / "bench.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_published_speeds_are_the_medians_of_the_recorded_rows(bench: ModuleType) -> None:
    published = json.loads((ROOT / "docs" / "results" / "bench.json").read_text())
    assert published.keys() == KEYS
    assert bench.figures() == published


def test_a_changed_row_changes_the_published_speed(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (bench.RESULTS / "bench_startup.csv").read_text().splitlines()
    slower = [",".join([*row.split(",")[:-1], "77.0"]) if "--help" in row else row for row in rows]
    (tmp_path / "bench_startup.csv").write_text("\n".join(slower))
    before = bench.figures()["help_seconds"]
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    assert bench.figures().keys() == {"help_seconds"}
    assert bench.figures()["help_seconds"] == 77.0 != before
