"""Sampling from vLLM servers on this or other machines: data parallel, adapters swapped by name, restarts survived."""

import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from intraskill.method.errors import ConfigError, EngineError
from intraskill.runtime.engine_probe import PROBE_SEED, PROBE_TOKENS, EngineProbe
from intraskill.runtime.hot_swap import HotSwap, Version
from intraskill.runtime.policy import Generation, Policy
from intraskill.runtime.stateless import ActionRequest, SamplingSettings, StatelessConversations
from intraskill.runtime.vllm_client import ForgottenModel, ServerSettings, VllmClient

_RESTARTS = 5


class VllmServerEngine:
    """Samples from a LoRA policy through one or more servers; implements `policy.Engine`.

    Each batch is shared among the servers by `lanes_of`: by the batch alone, never by load, so a run that is continued
    asks the same servers for the same rows. All servers must stand on the start weights of the policy.

    Args:
        policy: whose adapter is served.
        urls: addresses of the servers.
        sampling: how every action is sampled.
        settings: how the servers are talked to.
        adapter_dir: directory that the servers see under the same path; ``None`` = a temporary one of this machine.
        tolerance: see `EngineProbe`.

    Raises:
        ConfigError: without any address, or for a policy without an adapter.
    """

    def __init__(
        self,
        policy: Policy,
        urls: Sequence[str],
        sampling: SamplingSettings,
        *,
        settings: ServerSettings | None = None,
        adapter_dir: Path | None = None,
        tolerance: float = 0.0,
    ) -> None:
        if not urls:
            raise ConfigError("rollout.engine=vllm_server needs the addresses of its servers in rollout.vllm.urls")
        if not hasattr(policy.model, "peft_config"):
            raise ConfigError(
                "rollout.engine=vllm_server trains an adapter: a server takes no new full weights; set "
                "policy.lora_rank, or use rollout.engine=vllm or torch"
            )
        settings = settings or ServerSettings()
        self.probe = EngineProbe(policy, sampling.temperature, tolerance)
        self._probing = replace(sampling, stop_id=-1, max_new_tokens=PROBE_TOKENS)
        self._clients = [VllmClient(url, settings, sampling) for url in urls]
        self._admitted = [0] * len(urls)
        self._locks = [threading.Lock() for _ in urls]
        self._pool = ThreadPoolExecutor(settings.in_flight)
        self._temporary = None if adapter_dir else tempfile.TemporaryDirectory(prefix="intraskill-adapters-")
        root = Path(self._temporary.name) if self._temporary else adapter_dir
        assert root is not None
        self._swap = HotSwap(policy, root.absolute(), load=self._load, unload=self._unload, verify=self._verify)

    def serve(self, checkpoint: str) -> None:
        """Make every server sample from the policy's weights as they are now; ``checkpoint`` is their hash.

        Raises:
            ConfigError: when a server is not what the run expects.
            EngineError: when one cannot be reached, or does not sample from the policy.
        """
        self._swap.serve(checkpoint)

    def open(self, prompts: Sequence[tuple[int, ...]]) -> StatelessConversations:
        """Start one conversation per prompt; equal prompts go to one server as far as the shares allow."""
        return StatelessConversations(self._sample, prompts, len(self._clients))

    def close(self) -> None:
        """Drop connections and temporary files."""
        self._pool.shutdown(cancel_futures=True)
        for client in self._clients:
            client.close()
        if self._temporary:
            self._temporary.cleanup()

    def _sample(self, requests: Sequence[ActionRequest]) -> list[Generation]:
        version = self._swap.current
        if version is None:
            raise EngineError("no weights are served: call serve first, and do not go on after a failed swap")
        return list(self._pool.map(lambda request: self._ask(request, version), requests))

    def _ask(self, request: ActionRequest, version: Version) -> Generation:
        """Sample one action; a server that was restarted meanwhile is admitted again first."""
        lane = request.lane
        for _ in range(_RESTARTS):
            admitted = self._admitted[lane]
            try:
                return self._clients[lane].complete(version.name, request)
            except ForgottenModel:
                with self._locks[lane]:
                    if self._admitted[lane] == admitted:
                        self._bring(lane, version)
                        self._check(lane, version)
        raise self._forgetful(lane)

    def _load(self, version: Version) -> None:
        list(self._pool.map(lambda lane: self._bring(lane, version), range(len(self._clients))))

    def _verify(self, version: Version) -> None:
        for lane in range(len(self._clients)):
            self._check(lane, version)

    def _unload(self, version: Version) -> None:
        list(self._pool.map(lambda client: client.unload(version), self._clients))

    def _bring(self, lane: int, version: Version) -> None:
        """Check a server and load the adapter there."""
        self._clients[lane].admit()
        self._clients[lane].load(version)

    def _check(self, lane: int, version: Version) -> None:
        """Probe a server; only then do waiting threads see that it was admitted."""
        client = self._clients[lane]
        request = ActionRequest(self.probe.prompt_ids, PROBE_SEED, version.name)
        for _ in range(_RESTARTS):
            try:
                answer = client.complete(version.name, request, self._probing)
            except ForgottenModel:
                self._bring(lane, version)
                continue
            self.probe.check(answer, f"{client.name} ({version.name})")
            self._admitted[lane] += 1
            return
        raise self._forgetful(lane)

    def _forgetful(self, lane: int) -> EngineError:
        return EngineError(f"{self._clients[lane].name} forgets its adapter again and again; look at its log")
