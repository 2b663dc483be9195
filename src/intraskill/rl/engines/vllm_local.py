"""From the rollout section of a config to one of the two vLLM engines."""

import os
import tempfile
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from intraskill.config.learning import RolloutConfig
from intraskill.method.errors import ConfigError, EngineError
from intraskill.rl.engines.stateless import ActionRequest, StatelessConversations, generation_of
from intraskill.rl.engines.vllm_server import VllmServerEngine, check_version
from intraskill.rl.engines.weight_sync import PROBE_TOKENS, EngineProbe, HotSwap, ServedVersion
from intraskill.rl.policy import Engine, Generation, Policy

_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM reserves room for."""

_SURROUNDINGS = {
    # In another process the order of requests would depend on timing.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}
_CPU_SURROUNDINGS = {
    # Compiling costs a minute and gains nothing where a model is run eagerly.
    "TORCHDYNAMO_DISABLE": "1",
    # vLLM would move this process's threads, the trainer's among them, to cores of its choice.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
_SHARE_OF_GPU = 0.45
"""vLLM would take nearly all of the memory; the trainer lives on the same device."""


class VllmEngine:
    """Samples from the policy with vLLM; implements `policy.Engine`. vLLM starts at the first `serve`.

    Args:
        policy: whose weights are served: an adapter, or full weights (a file of the whole model per swap).
        directory: the start weights.
        rollout: how every action is sampled, and what vLLM is told.

    Raises:
        ConfigError: for an adapter of too large a rank, or when vLLM is missing or of another version.
    """

    def __init__(
        self,
        policy: Policy,
        directory: Path,
        rollout: RolloutConfig,
    ) -> None:
        self._lora_rank = _lora_rank(policy)
        check_version(installed_vllm(), rollout.vllm.version, "this environment")
        self.probe = EngineProbe(policy, rollout.temperature, rollout.vllm.probe_tolerance)
        self._policy, self._directory, self._rollout = policy, directory, rollout
        self._llm: Any = None
        # One batch at a time: the rows of two batches in one forward pass would change each other's rounding.
        self._lock = threading.Lock()
        self._temporary = tempfile.TemporaryDirectory(prefix="intraskill-versions-")
        self._swap = HotSwap(
            policy, Path(self._temporary.name), self.probe, load=self._load, unload=self._unload, verify=self._verify
        )

    def serve(self, checkpoint: str) -> None:
        """Sample from the policy's weights as they are now; ``checkpoint`` is their hash.

        Raises:
            ConfigError: when vLLM cannot serve this policy.
            EngineError: when it does not sample from the policy after the swap.
        """
        with self._lock:
            self._swap.serve(checkpoint)

    def open(self, prompts: Sequence[tuple[int, ...]]) -> StatelessConversations:
        """Start one conversation per prompt; equal prefixes share their prefill."""
        stop_id, limit = int(self._policy.tokenizer.eos_token_id), self._rollout.max_new_tokens
        return StatelessConversations(self._sample, prompts, max_new_tokens=limit, stop_id=stop_id)

    def _sample(self, requests: Sequence[ActionRequest]) -> list[Generation]:
        with self._lock:
            version = self._swap.current
            if version is None:
                raise EngineError("no weights are served: call serve first, and do not go on after a failed swap")
            return self._ask(requests, version)

    def _ask(self, requests: Sequence[ActionRequest], version: ServedVersion) -> list[Generation]:
        from vllm import SamplingParams

        settings = [
            SamplingParams(
                temperature=self._rollout.temperature,
                max_tokens=request.max_new_tokens,
                seed=request.seed,
                logprobs=0,
                ignore_eos=True,
                stop_token_ids=[] if request.stop_id is None else [request.stop_id],
                detokenize=False,
            )
            for request in requests
        ]
        prompts = [{"prompt_token_ids": list(r.prompt_ids), "cache_salt": r.salt} for r in requests]
        answers = self._llm.generate(prompts, settings, use_tqdm=False, lora_request=self._adapter(version))
        return [_generation(answer.outputs[0], r) for answer, r in zip(answers, requests, strict=True)]

    def _adapter(self, version: ServedVersion) -> Any:
        if not self._lora_rank:
            return None
        from vllm.lora.request import LoRARequest

        return LoRARequest(version.name, version.number, str(version.directory))

    def _load(self, version: ServedVersion) -> None:
        if self._llm is None:
            self._llm = self._start(self._directory if self._lora_rank else version.directory)
        elif not self._lora_rank:
            self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(version.directory)})
            self._llm.reset_prefix_cache()
        if self._lora_rank:
            self._llm.llm_engine.add_lora(self._adapter(version))

    def _unload(self, version: ServedVersion) -> None:
        if self._lora_rank:
            self._llm.llm_engine.remove_lora(version.number)

    def _verify(self, version: ServedVersion) -> None:
        self.probe.check(self._ask([self.probe.request(version)], version)[0], f"vLLM ({version.name})")

    def _start(self, directory: Path) -> Any:
        on_cpu = self._policy.device.type == "cpu"
        for name, value in (_SURROUNDINGS | (_CPU_SURROUNDINGS if on_cpu else {})).items():
            os.environ.setdefault(name, value)
        room = len(self.probe.prompt_ids) + PROBE_TOKENS
        arguments: dict[str, Any] = {
            "model": str(directory),
            "dtype": str(self._policy.causal.dtype).removeprefix("torch."),
            "max_model_len": max(self._rollout.max_context, room),
            "logprobs_mode": "processed_logprobs",
            "generation_config": "vllm",
            "enable_prefix_caching": True,
            "skip_tokenizer_init": True,
            "seed": 0,
        }
        if self._lora_rank:
            reserved = next(rank for rank in _LORA_RANKS if rank >= self._lora_rank)
            arguments |= {"enable_lora": True, "max_lora_rank": reserved, "max_loras": 2}
        if on_cpu:
            arguments |= {"enforce_eager": True, "kv_cache_memory_bytes": 1 << 30}
        else:
            arguments["gpu_memory_utilization"] = _SHARE_OF_GPU
        set_threads = torch.set_num_threads
        try:
            from vllm import LLM

            return LLM(**(arguments | self._rollout.vllm.options))
        except (ImportError, ValueError, TypeError, RuntimeError) as error:
            raise ConfigError(
                f"vLLM cannot serve {directory}: {type(error).__name__}: {str(error)[:300]}; see "
                "rollout.vllm.options, or use rollout.engine=torch"
            ) from error
        finally:
            torch.set_num_threads = set_threads  # vLLM replaces it on a CPU


def installed_vllm() -> str:
    """Return the version of vLLM here, whatever its distribution is called.

    Raises:
        ConfigError: when there is none.
    """
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    raise ConfigError(
        "rollout.engine=vllm needs vLLM, which is not installed; run pip install 'intraskill[vllm]' on a machine "
        "with a GPU (for tests on a CPU: make test-vllm), or use rollout.engine=torch"
    )


def _lora_rank(policy: Policy) -> int:
    """Return the adapter's rank, 0 for full weights."""
    if not hasattr(policy.model, "peft_config"):
        return 0
    rank = max(int(adapter.r) for adapter in policy.model.peft_config.values())
    if rank > _LORA_RANKS[-1]:
        raise ConfigError(f"policy.lora_rank={rank}, but vLLM takes at most {_LORA_RANKS[-1]}")
    return rank


def _generation(answer: Any, request: ActionRequest) -> Generation:
    ids = list(answer.token_ids)
    logprobs = [place[token].logprob for token, place in zip(ids, answer.logprobs or [], strict=True)]
    return generation_of(ids, logprobs, request, "vLLM")


def vllm_engine_of(rollout: RolloutConfig, policy: Policy, directory: Path) -> Engine:
    """Return the engine that the config names; nothing is started or reached before its first `serve`.

    Args:
        rollout: the config's section.
        policy: what is trained.
        directory: its start weights.

    Raises:
        ConfigError: when the engine cannot take new weights of this policy.
    """
    return VllmEngine(policy, directory, rollout) if rollout.engine == "vllm" else VllmServerEngine(policy, rollout)
