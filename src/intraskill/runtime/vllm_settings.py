"""The knobs of both vLLM engines; free of vllm and torch, so that a configuration can be read without them."""

from dataclasses import dataclass
from typing import Any

from intraskill.runtime.knobs import knob

TESTED_VERSION = "0.31"


@dataclass
class VllmConfig:
    """What rollout.engine=vllm and rollout.engine=vllm_server need to know."""

    version: str = knob(TESTED_VERSION, f"prefix of the vLLM version that is expected; {TESTED_VERSION} is tested")
    options: dict[str, Any] = knob({}, "engine vllm: further arguments of vllm.LLM, such as tensor_parallel_size")
    probe_tolerance: float = knob(
        0.0, "largest mean log-probability gap of a swap's probe, nats; 0 = 1e-3 in float32, 0.1 in bfloat16", "[0, 10]"
    )
    urls: list[str] = knob([], "engine vllm_server: addresses, such as http://node1:8000; rows are shared among them")
    served_model: str = knob("", "engine vllm_server: name of the start weights there; empty = the only model")
    adapter_dir: str = knob("", "engine vllm_server: where it finds adapters; empty = temporary, same machine")
    api_key_env: str = knob("VLLM_API_KEY", "environment variable that holds the servers' key; it is never written")
    patience_s: float = knob(600.0, "longest wait for one answer, a server's restart included, seconds", "(0, inf)")
