"""From the command line's words to an engine, and what a run without vLLM is told."""

import importlib.metadata
from pathlib import Path

import pytest

from intraskill.config.config import Config, flatten
from intraskill.config.overrides import compose
from intraskill.method.errors import ConfigError
from intraskill.rl.engines.stateless import SamplingSettings
from intraskill.rl.engines.vllm_local import VllmEngine, installed_vllm, vllm_engine_of
from intraskill.rl.engines.vllm_server import VllmServerEngine, check_version
from intraskill.rl.policy import LoraSettings, Policy, load_policy
from intraskill.store.provenance import plan_of

SERVERS = [
    "rollout.engine=vllm_server",
    "policy.lora_rank=8",
    "rollout.vllm.urls=[http://node1:8000,http://node2:8000]",
]


def test_the_engine_is_the_one_that_the_config_names(
    policy: Policy, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = compose(["+exp=tiny_kill", *SERVERS])
    assert isinstance(vllm_engine_of(config.rollout, policy, model_dir), VllmServerEngine)
    config.rollout.engine, config.rollout.vllm.version = "vllm", "0.31"
    monkeypatch.setattr("intraskill.rl.engines.vllm_local.version", {"vllm": "0.31.0"}.__getitem__)
    assert isinstance(vllm_engine_of(config.rollout, policy, model_dir), VllmEngine)
    config.rollout.vllm.version = "0.30"
    with pytest.raises(ConfigError, match=r"this environment runs vLLM 0\.31\.0, but rollout\.vllm\.version=0\.30"):
        vllm_engine_of(config.rollout, policy, model_dir)


def test_further_arguments_of_vllm_are_words_of_the_command_line() -> None:
    config = compose(["rollout.engine=vllm", "rollout.vllm.options.gpu_memory_utilization=0.4"])
    assert config.rollout.vllm.options == {"gpu_memory_utilization": 0.4}
    with pytest.raises(ConfigError, match=r"did you mean 'rollout\.vllm\.patience_s'"):
        compose(["rollout.vllm.patience=4"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rollout.engine=vllm_server"], r"needs addresses in rollout\.vllm\.urls"),
        (["rollout.engine=vllm_server", "rollout.vllm.urls=[http://a]"], r"swaps adapters only; set policy\.lora_rank"),
        (["rollout.vllm.patience_s=0"], r"patience_s=0\.0 is outside"),
    ],
)
def test_a_config_that_cannot_work_is_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(words)


def test_a_run_may_be_continued_with_other_servers_but_not_with_another_engine() -> None:
    plans = [plan_of(compose([*SERVERS, f"rollout.vllm.patience_s={wait}"])) for wait in (5, 50)]
    moved = plan_of(compose([*SERVERS[:2], "rollout.vllm.urls=[http://node3:8000]"]))
    assert plans[0] == plans[1] == moved != plan_of(compose(["policy.lora_rank=8"]))
    assert "rollout.vllm.urls" in flatten(Config())


def test_without_vllm_the_error_says_what_to_do(
    policy: Policy, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("intraskill.rl.engines.vllm_local.version", missing)
    with pytest.raises(ConfigError, match="needs vLLM, which is not installed; run pip install"):
        VllmEngine(policy, model_dir, SamplingSettings(2))
    with pytest.raises(ConfigError, match="make test-vllm"):
        installed_vllm()


@pytest.mark.parametrize("found", ["0.31", "0.31.0", "0.31.1+cpu", "0.31rc1"])
def test_a_version_is_compared_by_its_prefix(found: str) -> None:
    check_version(found, "0.31", "it")


@pytest.mark.parametrize("found", ["0.3", "0.310.0", "0.30.9", "1.0.31", ""])
def test_another_version_is_refused_by_name(found: str) -> None:
    with pytest.raises(ConfigError, match=rf"it runs vLLM {found or 'of an unknown version'}, .*\(tested with 0\.31"):
        check_version(found, "0.31", "it")


def test_a_rank_that_vllm_has_no_room_for_is_refused(model_dir: Path) -> None:
    policy = load_policy(model_dir, lora=LoraSettings(rank=600))
    with pytest.raises(ConfigError, match=r"policy\.lora_rank=600, but vLLM takes at most 512"):
        VllmEngine(policy, model_dir, SamplingSettings(2))
