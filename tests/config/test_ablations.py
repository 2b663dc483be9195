"""`ablate=NAME`: a file of configs/ablate on top of any experiment, under single options."""

from pathlib import Path

import pytest

from intraskill.config.config import Config, flatten
from intraskill.config.overrides import compose, override
from intraskill.config.shipped import CONFIGS
from intraskill.method.errors import ConfigError

NAMES = sorted(path.stem for path in (CONFIGS / "ablate").glob("*.yaml"))


def changed(config: Config, base: Config) -> dict[str, object]:
    before = flatten(base)
    return {key: value for key, value in flatten(config).items() if before[key] != value and key != "run_dir"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("experiment", ["quickstart", "shopsim", "planted"])
def test_every_ablation_fits_every_experiment_and_changes_what_its_file_says(name: str, experiment: str) -> None:
    options = ["proposer.model=m"] if experiment == "shopsim" else []
    base = compose([f"+exp={experiment}", *options])
    config = compose([f"ablate={name}", f"+exp={experiment}", *options])
    differing = changed(config, base)
    text = (CONFIGS / "ablate" / f"{name}.yaml").read_text()
    assert differing and all(key.rpartition(".")[2] in text for key in differing)
    assert config.run_dir == f"{base.run_dir}_{name}"
    budget = ("rounds", "grpo.steps_per_round", "grpo.groups_per_step", "grpo.group_size", "final.tasks")
    assert not set(budget) & set(differing), "equal training rollouts"


@pytest.mark.parametrize("name", NAMES)
def test_every_ablation_says_what_it_takes_out(name: str) -> None:
    first, second, *_ = (CONFIGS / "ablate" / f"{name}.yaml").read_text().splitlines()
    assert first == "# @package _global_" and second.startswith("# ") and len(second) > 20


def test_single_options_win_over_the_ablation_wherever_they_stand() -> None:
    config = compose(["gate.policy=fdr", "ablate=no_gate", "run_dir=runs/mine"])
    assert (config.gate.policy, config.curriculum.rho_max, config.run_dir) == ("fdr", 0.55, "runs/mine")


def test_plain_grpo_is_the_same_as_an_experiment_and_as_an_ablation() -> None:
    assert not changed(compose(["+exp=plain_grpo"]), compose(["ablate=plain_grpo"]))


def test_an_unknown_ablation_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="no ablation 'nogate', did you mean 'no_gate'.*choose fdr, fixed_skill"):
        compose(["ablate=nogate"])


@pytest.mark.parametrize("word", ["ablate=no_gate", "+exp=quickstart"])
def test_a_run_that_exists_takes_no_other_preset(word: str) -> None:
    with pytest.raises(ConfigError, match="is chosen already; give single options"):
        override(Config(), [word])


def test_presets_are_files_that_the_package_ships() -> None:
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert NAMES and '"**/*.yaml"' in pyproject
