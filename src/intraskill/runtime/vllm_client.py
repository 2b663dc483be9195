"""One vLLM server: connections, retries, and what each failure means.

A completion is a function of prompt, seed and weights, and the server keeps nothing of it. So a request whose reply was
lost is sent again with the same seed, and one action still gives exactly one answer: no rollout can be duplicated.
"""

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intraskill.method.errors import ConfigError, EngineError
from intraskill.runtime.hot_swap import Version
from intraskill.runtime.policy import Generation
from intraskill.runtime.stateless import ActionRequest, SamplingSettings
from intraskill.runtime.vllm_settings import TESTED_VERSION
from intraskill.runtime.vllm_wire import (
    base_model_of,
    check_version,
    completion_body,
    read_completion,
    reason_of,
)

if TYPE_CHECKING:
    import httpx

FIRST_PAUSE_S, LONGEST_PAUSE_S, CONNECT_S = 0.1, 5.0, 10.0
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class ForgottenModel(Exception):
    """The server does not know the adapter: it was restarted since."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How servers are talked to.

    Attributes:
        served_model: name of the model below the adapters; empty = the only one that a server has.
        vllm_version: prefix of the version that a server must have.
        api_key_env: environment variable that holds the key, if there is one; it is never written.
        patience_s: longest wait for one answer, a server's restart included, seconds.
        in_flight: most requests that wait for answers at once.
    """

    served_model: str = ""
    vllm_version: str = TESTED_VERSION
    api_key_env: str = "VLLM_API_KEY"
    patience_s: float = 600.0
    in_flight: int = 64


class VllmClient:
    """Talks to one server; safe to share between threads.

    Args:
        url: address, with or without ``/v1``.
        settings: how.
        sampling: how actions are sampled.
    """

    def __init__(self, url: str, settings: ServerSettings, sampling: SamplingSettings) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.settings, self.sampling = settings, sampling
        self._lock = threading.Lock()
        self._http: httpx.Client | None = None

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"the vLLM server at {self.url}"

    def admit(self) -> str:
        """Check version, model and context length; return the name of the model below the adapters.

        Raises:
            ConfigError: when it is not the server that the run expects.
            EngineError: when it cannot be reached, or answers like something else.
        """
        version = self._send("GET", "/version")
        found = str(version.get("version", "")) if isinstance(version, Mapping) else ""
        check_version(found, self.settings.vllm_version, self.name)
        models = self._send("GET", "/v1/models")
        return base_model_of(models, self.settings.served_model, self.sampling.max_context, self.name)

    def load(self, version: Version) -> None:
        """Make the server know an adapter.

        Raises:
            ConfigError: when it takes no adapters.
            EngineError: when it cannot load this one.
        """
        body = {"lora_name": version.name, "lora_path": str(version.directory)}
        try:
            self._send("POST", "/v1/load_lora_adapter", body)
        except _Refused as refused:
            if "already been loaded" in refused.reason:  # the reply to an earlier attempt was lost
                return
            if refused.status in (404, 405) and version.name not in refused.reason:
                raise ConfigError(
                    f"{self.name} takes no adapters at run time; start it with --enable-lora and "
                    "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
                ) from None
            if "lora" in refused.reason.lower() and "enable" in refused.reason.lower():
                raise ConfigError(f"{self.name} has no LoRA ({refused.reason}); start it with --enable-lora") from None
            raise EngineError(
                f"{self.name} cannot load {version.directory}: {refused.reason}; the directory "
                "(rollout.vllm.adapter_dir) must be readable there under the same path, the model must be that of "
                "policy.path, and --max-lora-rank at least policy.lora_rank"
            ) from None

    def unload(self, version: Version) -> None:
        """Let the server forget an adapter; one that it does not know is forgotten already."""
        try:
            self._send("POST", "/v1/unload_lora_adapter", {"lora_name": version.name})
        except _Refused as refused:
            if refused.status != 404:
                raise EngineError(f"{self.name} cannot unload {version.name}: {refused.reason}") from None

    def complete(self, model: str, request: ActionRequest, sampling: SamplingSettings | None = None) -> Generation:
        """Sample one action.

        Raises:
            ForgottenModel: when the server does not know ``model`` any more.
            ConfigError: when the context does not fit.
            EngineError: when the server refuses, or breaks for longer than ``patience_s``.
        """
        sampling = sampling or self.sampling
        try:
            reply = self._send("POST", "/v1/completions", completion_body(model, request, sampling))
        except _Refused as refused:
            if refused.status == 404 and model in refused.reason:
                raise ForgottenModel from None
            if "context length" in refused.reason or "max_model_len" in refused.reason:
                raise ConfigError(
                    f"{self.name} has no room for {len(request.prompt_ids)} + {sampling.max_new_tokens} tokens "
                    f"({refused.reason}); lower rollout.max_context or raise its --max-model-len"
                ) from None
            raise EngineError(f"{self.name} refuses an action: {refused.reason}") from None
        return read_completion(reply, request, sampling, self.name)

    def close(self) -> None:
        """Drop all connections."""
        if self._http is not None:
            self._http.close()

    def _send(self, method: str, route: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send until there is an answer, or until patience ends."""
        deadline, pause = time.monotonic() + self.settings.patience_s, FIRST_PAUSE_S
        while True:
            try:
                return self._once(method, route, body, deadline - time.monotonic())
            except _Passing as failure:
                if time.monotonic() + pause > deadline:
                    raise EngineError(
                        f"{self.name} gave no answer within rollout.vllm.patience_s={self.settings.patience_s:g} "
                        f"({failure}); start it, look at its log, or correct rollout.vllm.urls, and run again"
                    ) from failure
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _once(self, method: str, route: str, body: Mapping[str, Any] | None, seconds: float) -> Any:
        import httpx

        timeout = httpx.Timeout(max(seconds, FIRST_PAUSE_S), connect=min(CONNECT_S, max(seconds, 1.0)), pool=None)
        try:
            reply = self._connections().request(method, self.url + route, json=body, timeout=timeout)
        except httpx.InvalidURL as error:
            raise ConfigError(f"rollout.vllm.urls: {self.url} is no address ({error})") from error
        except httpx.UnsupportedProtocol as error:
            raise ConfigError(f"rollout.vllm.urls: {self.url} must begin with http:// or https://") from error
        except httpx.TransportError as error:
            raise _Passing(f"{type(error).__name__}: {error}") from error
        if reply.status_code in (401, 403):
            raise ConfigError(f"{self.name} refuses the key; put it into the variable {self.settings.api_key_env}")
        try:
            found = reply.json() if reply.content else {}
        except ValueError:
            found = reply.text
        # vLLM answers 500 to an adapter that it cannot load; asking again would not change that.
        if reply.status_code in _PASSING and not (reply.status_code == 500 and "lora" in route):
            raise _Passing(f"status {reply.status_code}: {reason_of(found)}")
        if not reply.is_success:
            raise _Refused(reply.status_code, reason_of(found))
        return found

    def _connections(self) -> "httpx.Client":
        import httpx

        with self._lock:
            if self._http is None:
                key = os.environ.get(self.settings.api_key_env, "")
                self._http = httpx.Client(
                    headers={"Authorization": f"Bearer {key}"} if key else {},
                    limits=httpx.Limits(max_connections=self.settings.in_flight),
                    # A proxy of the surroundings must not stand between this client and a server of the same cluster.
                    trust_env=False,
                )
            return self._http


class _Passing(Exception):
    """A failure that may be gone at the next attempt."""


class _Refused(Exception):
    """The server understood and refuses; asking again changes nothing."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"status {status}: {reason}")
        self.status, self.reason = status, reason
