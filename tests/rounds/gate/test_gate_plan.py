"""`intraskill gate plan` at the command line, and what it reads from earlier runs."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from method_records import contributions

from intraskill.cli import main
from intraskill.method.errors import ArtifactError
from intraskill.rounds.earlier_rounds import read_noise
from intraskill.store.artifacts import MASKS
from intraskill.store.contents import GateMasks
from intraskill.store.records import to_json
from intraskill.store.run_directory import write_json


def test_the_plan_says_in_words_what_the_gate_cannot_see(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "plan", "--chunks", "12", "--tasks", "400", "1600", "--sigma", "0.44"]) == 0
    printed = capsys.readouterr().out
    assert "the gate can only see effects of 0.122 or more" in printed
    assert "1,600 tasks would see 0.060" in printed
    assert "a useless chunk passes with probability 50 %" in printed
    assert all(name in printed for name in ("positive_topk", "probability", "fdr"))


def test_the_same_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        "gate plan --tasks 400 800 --slots 1:1 --policy fdr --rollouts-per-second 2 --tokens-per-rollout 1000 --json"
    )
    assert main(options.split()) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["tasks"], second["tasks"], first["rollouts"]) == (400, 800, 800)
    assert first["tokens"] == 800_000 and first["hours"] == pytest.approx(800 / 2 / 3600)
    assert first["se"][0] > first["se"][-1]
    assert [policy["policy"] for policy in first["policies"]] == ["fdr"]


def test_a_correlation_that_nobody_measured_is_the_published_one(capsys: pytest.CaptureFixture[str]) -> None:
    effects = []
    for correlation in ([], ["--correlation", "0.6"], ["--correlation", "0"], ["--correlation", "-0.3"]):
        assert main(["gate", "plan", "--tasks", "400", "--estimator", "masked_ols", "--json", *correlation]) == 0
        effects.append(json.loads(capsys.readouterr().out)[0]["smallest_effect"])
    assert effects[0] == effects[1] > effects[2] == effects[3]


def test_an_underpowered_gate_fails_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["gate", "plan", "--tasks", "400", "--policy", "positive_topk", "--top-k", "12"]
    assert main(options) == 0
    assert main([*options, "--require-power"]) == 2
    assert "UnderpoweredError" in capsys.readouterr().err
    assert main([*options, "--require-power", "--effect", "0.123"]) == 0


def test_overrides_and_misspelt_slots_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "plan", "gate.tasks=3"]) == 2
    assert main(["gate", "plan", "--slots", "one"]) == 2
    errors = capsys.readouterr().err
    assert "takes no overrides, got gate.tasks=3" in errors and "got 'one'" in errors


def test_planning_loads_neither_a_model_s_packages_nor_pandas() -> None:
    code = (
        "import sys; from intraskill.cli import main; main(['gate', 'plan', '--tasks', '400']);"
        "print([name for name in ('torch', 'transformers', 'statsmodels', 'pandas', 'hydra') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip().splitlines()[-1] == "[]"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two rounds and an empty one."""
    for index, beta in enumerate([{"a": 0.05, "b": 0.02}, {"a": 0.01, "c": 0.03}, {}]):
        found = replace(contributions(beta), residual_sd=0.3 + 0.1 * index, num_pairs=200 + index)
        directory = tmp_path / f"round_{index:03d}"
        directory.mkdir()
        write_json(directory / "contributions.json", to_json(found) | {"correlation": 0.5 + 0.1 * index})
    return tmp_path


def test_noise_and_pool_come_from_the_newest_gate_that_measured_a_chunk(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = read_noise(run)
    assert (noise.sigma, noise.correlation, noise.chunks) == (pytest.approx(0.4), pytest.approx(0.6), 2)
    assert read_noise(run / "round_000").sigma == pytest.approx(0.3)
    assert main(["gate", "plan", "--from", str(run), "--estimator", "ancova", "--tasks", "300"]) == 0
    assert "with 300 tasks, 2 chunks and σ = 0.40" in capsys.readouterr().out


def test_the_noise_is_that_of_one_paired_rollout_whatever_the_gate_fitted(run: Path) -> None:
    path = run / "round_000" / "contributions.json"
    row = json.loads(path.read_text())
    write_json(path, row | {"beside": {"paired_ols": row | {"residual_sd": 0.6}}})
    assert read_noise(run / "round_000").sigma == pytest.approx(0.6)
    masks = GateMasks(0, "ancova", 0.5, "theta", {}, (), (), {}, design={"bare_replicates": 2})
    MASKS.write(run / "round_000", masks)
    assert read_noise(run / "round_000").sigma == pytest.approx(0.6 / np.sqrt(0.75))
    write_json(path, {"chunk_ids": ["a"], "num_pairs": 3})
    with pytest.raises(ArtifactError, match=r"contributions\.json .*it lacks .*residual_sd.*restore the file"):
        read_noise(run / "round_000")


def test_the_residual_sd_of_another_estimator_is_no_sigma(run: Path) -> None:
    path = run / "round_001" / "contributions.json"
    write_json(path, json.loads(path.read_text()) | {"estimator": "ancova"})
    assert read_noise(run).sigma == pytest.approx(0.3)
    with pytest.raises(ArtifactError, match="measured a chunk; give sigma instead"):
        read_noise(run / "round_001")


def test_a_directory_without_a_gate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="holds no gate"):
        read_noise(tmp_path)
    write_json(tmp_path / "contributions.json", to_json(contributions({})))
    with pytest.raises(ArtifactError, match="measured a chunk; give sigma instead"):
        read_noise(tmp_path)
