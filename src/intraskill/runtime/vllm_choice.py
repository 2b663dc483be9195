"""From the rollout section of a config to one of the two vLLM engines."""

from pathlib import Path
from typing import Protocol

from intraskill.runtime.policy import Engine, Policy
from intraskill.runtime.stateless import SamplingSettings
from intraskill.runtime.vllm_client import ServerSettings
from intraskill.runtime.vllm_engine import VllmEngine
from intraskill.runtime.vllm_server import VllmServerEngine
from intraskill.runtime.vllm_settings import VllmConfig


class RolloutKnobs(Protocol):
    """The part of `config.RolloutConfig` that is read here."""

    engine: str
    temperature: float
    max_new_tokens: int
    max_context: int
    batch: int
    vllm: VllmConfig


def vllm_engine_of(rollout: RolloutKnobs, policy: Policy, directory: Path) -> Engine:
    """Return the engine that the config names; nothing is started or reached before its first `serve`.

    Args:
        rollout: the config's section.
        policy: what is trained.
        directory: its start weights.

    Raises:
        ConfigError: when the engine cannot take new weights of this policy.
    """
    stop_id = int(policy.tokenizer.eos_token_id)
    sampling = SamplingSettings(stop_id, rollout.temperature, rollout.max_new_tokens, rollout.max_context)
    knobs = rollout.vllm
    if rollout.engine == "vllm":
        return VllmEngine(
            policy,
            directory,
            sampling,
            options=knobs.options,
            expected=knobs.version,
            tolerance=knobs.probe_tolerance,
        )
    settings = ServerSettings(knobs.served_model, knobs.version, knobs.api_key_env, knobs.patience_s, rollout.batch)
    return VllmServerEngine(
        policy,
        knobs.urls,
        sampling,
        settings=settings,
        adapter_dir=Path(knobs.adapter_dir) if knobs.adapter_dir else None,
        tolerance=knobs.probe_tolerance,
    )
