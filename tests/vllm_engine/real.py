"""What the tests on real vLLM share: when they are skipped, how a server is started, and the slow reference."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from vllm_engine.completion_server import sampled

from intraskill.config.learning import RolloutConfig
from intraskill.method.errors import ConfigError
from intraskill.rl.engines.vllm_local import installed_vllm
from intraskill.rl.policy import Generation, Policy

START_S = 900.0
SETTINGS = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
FLAGS = (
    *("--dtype", "float32", "--enforce-eager", "--generation-config", "vllm", "--max-model-len", "600"),
    *("--enable-lora", "--max-lora-rank", "8", "--max-loras", "2", "--logprobs-mode", "processed_logprobs"),
)


def need_vllm() -> None:
    """Skip the calling module, with the reason, where vLLM is not installed."""
    try:
        installed_vllm()
    except ConfigError as missing:
        pytest.skip(str(missing), allow_module_level=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class VllmServer:
    """A vLLM server of its own process group on 127.0.0.1."""

    def __init__(self, model: Path, log: Path, flags: Sequence[str] = FLAGS) -> None:
        self.model, self.log, self.flags, self.port = model, log, flags, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # `vllm serve` asks for a distribution of the name "vllm", which the CPU build does not have.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.model)]
        place = ["--served-model-name", "start", "--host", "127.0.0.1", "--port", str(self.port), *self.flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *place], stdout=log, stderr=log, env=os.environ | SETTINGS, start_new_session=True
            )

    def wait(self) -> "VllmServer":
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            try:
                if httpx.get(f"{self.url}/health", timeout=5).is_success:
                    return self
            except httpx.TransportError:
                time.sleep(0.5)
        raise AssertionError(f"no server after {START_S} s: {self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """End this server and the engine process that it started, at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


Turn = Mapping[int, Generation]
PROMPTS: Sequence[tuple[int, ...]] = [(5, 6, 7, 8), (9, 10), (5, 6, 7, 8), tuple(range(10, 90))]


def play(engine: Any, turns: int, prompts: Sequence[tuple[int, ...]] = PROMPTS) -> list[Turn]:
    """Every row acts in every turn, after two tokens of the environment's."""
    conversations = engine.open(prompts)
    rows = range(len(prompts))
    return [
        conversations.generate(
            {row: (100 + row, 101) if turn else () for row in rows}, {row: 2**62 + 10 * row + turn for row in rows}
        )
        for turn in range(turns)
    ]


def reference(policy: Policy, rollout: RolloutConfig, found: Sequence[Turn]) -> list[dict[int, Generation]]:
    """What the trainer's own weights say: each action sampled anew after the history that was found."""
    told = [list(prompt) for prompt in PROMPTS]
    turns = []
    for number, turn in enumerate(found):
        answers = {}
        for row in turn:
            told[row] += [100 + row, 101] if number else []
            body: dict[str, Any] = {"prompt": told[row], "seed": 2**62 + 10 * row + number}
            body |= {"temperature": rollout.temperature, "max_tokens": rollout.max_new_tokens}
            ids, logprobs = sampled(policy, body | {"stop_token_ids": [policy.tokenizer.eos_token_id]})
            answers[row] = Generation(tuple(ids), tuple(logprobs), ids[-1] == policy.tokenizer.eos_token_id)
            told[row] += turn[row].token_ids
        turns.append(answers)
    return turns


def worst_difference(found: Sequence[Turn], wanted: Sequence[Turn]) -> float:
    """Largest difference of a log-probability; the tokens must be the same."""
    assert [{row: g.token_ids for row, g in turn.items()} for turn in found] == [
        {row: g.token_ids for row, g in turn.items()} for turn in wanted
    ]
    return max(
        abs(ours - theirs)
        for turn, other in zip(found, wanted, strict=True)
        for row in turn
        for ours, theirs in zip(turn[row].logprobs, other[row].logprobs, strict=True)
    )
