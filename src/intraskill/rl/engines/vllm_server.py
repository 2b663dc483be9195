"""Sampling from vLLM servers on this or other machines: data parallel, adapters swapped by name, restarts survived."""

import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from intraskill.config.learning import TESTED_VERSION, RolloutConfig
from intraskill.method.errors import ConfigError, EngineError, offenders
from intraskill.net.exchange import HttpCall, HttpClient
from intraskill.net.failures import HttpFailure
from intraskill.net.retrying import Patience, persist
from intraskill.rl.engines.stateless import ActionRequest, StatelessConversations, generation_of
from intraskill.rl.engines.weight_sync import EngineProbe, HotSwap, ServedVersion
from intraskill.rl.policy import Generation, Policy


def _completion_body(model: str, request: ActionRequest, temperature: float) -> dict[str, Any]:
    """Return the JSON of one action.

    ``ignore_eos`` with the stop token named: else every end token of the model's configuration would end an action.
    """
    return {
        "model": model,
        "prompt": list(request.prompt_ids),
        "seed": request.seed,
        "cache_salt": request.salt,
        "max_tokens": request.max_new_tokens,
        "temperature": temperature,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "n": 1,
        "logprobs": 0,
        "return_token_ids": True,
        "ignore_eos": True,
        "stop_token_ids": [] if request.stop_id is None else [request.stop_id],
        "skip_special_tokens": False,
        "stream": False,
    }


def _read_completion(reply: Any, request: ActionRequest, where: str) -> Generation:
    """Return the action of a reply.

    Raises:
        EngineError: when the reply has another shape, or answers other tokens than were sent.
    """
    try:
        (choice,) = reply["choices"]
        token_ids, prompt_ids = choice["token_ids"], choice["prompt_token_ids"]
        logprobs = choice["logprobs"]["token_logprobs"]
        tokens = [int(token) for token in token_ids]
        echoed = tuple(int(token) for token in prompt_ids)
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"{where} sent no completion with token ids and log-probabilities ({type(error).__name__}: {error}); is it "
            f"vLLM {TESTED_VERSION}?"
        ) from error
    if echoed != request.prompt_ids:
        raise EngineError(
            f"{where} answered other tokens than were sent ({len(echoed)} against {len(request.prompt_ids)}); it must "
            "take token ids as they are"
        )
    return generation_of(tokens, logprobs, request, where)


def check_version(found: str, expected: str, where: str) -> None:
    """Compare a vLLM version with the prefix that the run expects.

    Raises:
        ConfigError: when it is another one.
    """
    if not (found == expected or found.startswith((f"{expected}.", f"{expected}+", f"{expected}rc"))):
        raise ConfigError(
            f"{where} runs vLLM {found or 'of an unknown version'}, but rollout.vllm.version={expected} is expected "
            f"(tested with {TESTED_VERSION}); install that one, or set rollout.vllm.version to accept {found or 'it'}"
        )


def _base_model_of(reply: Any, wanted: str, max_context: int, where: str) -> str:
    """Return the name of the model that a server's ``/v1/models`` offers below all adapters.

    Args:
        reply: its JSON.
        wanted: name that must be there; empty = the only one.
        max_context: tokens that an episode may have.
        where: for messages.

    Raises:
        ConfigError: for another model, or one whose context is too short.
        EngineError: for a reply of another shape.
    """
    try:
        cards: Sequence[Mapping[str, Any]] = [card for card in reply["data"] if not card.get("parent")]
        names = [str(card["id"]) for card in cards]
    except (KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"{where} does not list its models as vLLM does ({error!r})") from error
    fitting = [card for card in cards if card["id"] == wanted] if wanted else list(cards)
    if len(fitting) != 1:
        raise ConfigError(
            f"{where} serves {offenders(names)}, not the model that is wanted; set rollout.vllm.served_model to "
            f"one of them (now {wanted!r}), or start the server with the weights of policy.path"
        )
    longest = fitting[0].get("max_model_len")
    if isinstance(longest, int) and longest < max_context:
        raise ConfigError(
            f"rollout.max_context={max_context} exceeds the {longest} tokens that {where} takes; lower it, or start "
            f"the server with --max-model-len {max_context}"
        )
    return str(fitting[0]["id"])


_CONNECT_S = 10.0
_PATIENCE = Patience(first_s=0.1, longest_s=5.0)


class ForgottenModel(Exception):
    """The server does not know the adapter: it was restarted since."""


class VllmClient:
    """Talks to one server; safe to share between threads.

    Args:
        url: address, with or without ``/v1``.
        rollout: how actions are sampled; its section ``vllm`` says how the server is talked to.
    """

    def __init__(self, url: str, rollout: RolloutConfig) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.rollout, self.settings = rollout, rollout.vllm
        # A proxy of the surroundings must not stand between this client and a server of the same cluster.
        self._http = HttpClient(self.settings.api_key_env)

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
        stated = self._listed("/version")
        version = str(stated.get("version", "")) if isinstance(stated, Mapping) else ""
        check_version(version, self.settings.version, self.name)
        models = self._listed("/v1/models")
        return _base_model_of(models, self.settings.served_model, self.rollout.max_context, self.name)

    def load(self, version: ServedVersion) -> None:
        """Make the server know an adapter.

        Raises:
            ConfigError: when it takes no adapters.
            EngineError: when it cannot load this one.
        """
        refused = self._send("/v1/load_lora_adapter", {"lora_name": version.name, "lora_path": str(version.directory)})
        if not isinstance(refused, HttpFailure) or "already been loaded" in refused.reason:
            return  # already loaded: the reply to an earlier attempt was lost
        if refused.status in (404, 405) and version.name not in refused.reason:
            raise ConfigError(
                f"{self.name} takes no adapters at run time; start it with --enable-lora and "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
            )
        if "lora" in refused.reason.lower() and "enable" in refused.reason.lower():
            raise ConfigError(f"{self.name} has no LoRA ({refused.reason}); start it with --enable-lora")
        raise EngineError(
            f"{self.name} cannot load {version.directory}: {refused.reason}; the directory "
            "(rollout.vllm.adapter_dir) must be readable there under the same path, the model must be that of "
            "policy.path, and --max-lora-rank at least policy.lora_rank"
        )

    def unload(self, version: ServedVersion) -> None:
        """Let the server forget an adapter; one that it does not know is forgotten already."""
        refused = self._send("/v1/unload_lora_adapter", {"lora_name": version.name})
        if isinstance(refused, HttpFailure) and refused.status != 404:
            raise EngineError(f"{self.name} cannot unload {version.name}: {refused.reason}")

    def complete(self, model: str, request: ActionRequest) -> Generation:
        """Sample one action.

        Raises:
            ForgottenModel: when the server does not know ``model`` any more.
            ConfigError: when the context does not fit.
            EngineError: when the server refuses, or breaks for longer than ``patience_s``.
        """
        reply = self._send("/v1/completions", _completion_body(model, request, self.rollout.temperature))
        if not isinstance(reply, HttpFailure):
            return _read_completion(reply, request, self.name)
        if reply.status == 404 and model in reply.reason:
            raise ForgottenModel
        if "context length" in reply.reason or "max_model_len" in reply.reason:
            raise ConfigError(
                f"{self.name} has no room for {len(request.prompt_ids)} + {request.max_new_tokens} tokens "
                f"({reply.reason}); lower rollout.max_context or raise its --max-model-len"
            )
        raise EngineError(f"{self.name} refuses an action: {reply.reason}")

    def close(self) -> None:
        """Drop all connections."""
        self._http.close()

    def _listed(self, route: str) -> Any:
        """Return what the server says about itself."""
        reply = self._send(route)
        if isinstance(reply, HttpFailure):
            raise EngineError(
                f"{self.name} does not answer {route} as vLLM does ({reply.text}); is it vLLM {TESTED_VERSION}? "
                "Correct rollout.vllm.urls"
            )
        return reply

    def _send(self, route: str, body: Mapping[str, Any] | None = None) -> Any | HttpFailure:
        """Send until the server answers or refuses, or until patience ends."""
        patience = replace(_PATIENCE, total_s=self.settings.patience_s)
        # vLLM answers 500 to an adapter that it cannot load; asking again would not change that.
        lasting = 500 if "lora" in route else None

        def again(failure: HttpFailure) -> bool:
            return failure.passing and failure.status != lasting

        reply, _ = persist(lambda seconds: self._once(route, body, seconds), again, patience, (self.url, route, body))
        if not isinstance(reply, HttpFailure):
            return reply
        if reply.kind == "address":
            raise ConfigError(
                f"rollout.vllm.urls: {self.url} is no address ({reply.text}); it must begin with http:// or https://"
            )
        if reply.kind == "key":
            raise ConfigError(reply.text)
        if reply.status in (401, 403):
            raise ConfigError(f"{self.name} refuses the key; put it into the variable {self.settings.api_key_env}")
        if again(reply):
            raise EngineError(
                f"{self.name} gave no answer within rollout.vllm.patience_s={self.settings.patience_s:g} "
                f"({reply.text}); start it, look at its log, or correct rollout.vllm.urls, and run again"
            )
        return reply

    def _once(self, route: str, body: Mapping[str, Any] | None, seconds: float) -> Any | HttpFailure:
        seconds = max(seconds, _PATIENCE.first_s)
        call = HttpCall(url=self.url + route, body=body, seconds=seconds, connect_s=_CONNECT_S)
        if "lora" not in route:
            return self._http.ask(call)
        reply = self._http.attempt(call)  # vLLM confirms these in words
        return reply if isinstance(reply, HttpFailure) else {}


_RESTARTS = 5


class VllmServerEngine:
    """Samples from a LoRA policy through one or more servers; implements `policy.Engine`.

    Each batch is shared among the servers by `lanes_of`: by the batch alone, never by load, so a run that is continued
    asks the same servers for the same rows. All servers must stand on the start weights of the policy.

    Args:
        policy: whose adapter is served.
        rollout: how every action is sampled; its section ``vllm`` says where servers and adapters are. As many requests
            wait for answers at once as there are episodes in a batch.

    Raises:
        ConfigError: without any address, or for a policy without an adapter.
    """

    def __init__(
        self,
        policy: Policy,
        rollout: RolloutConfig,
    ) -> None:
        vllm = rollout.vllm
        if not vllm.urls:
            raise ConfigError("rollout.engine=vllm_server needs the addresses of its servers in rollout.vllm.urls")
        if not hasattr(policy.model, "peft_config"):
            raise ConfigError(
                "rollout.engine=vllm_server trains an adapter: a server takes no new full weights; set "
                "policy.lora_rank, or use rollout.engine=vllm or torch"
            )
        self.probe = EngineProbe(policy, rollout.temperature, vllm.probe_tolerance)
        self._limit, self._stop_id = rollout.max_new_tokens, int(policy.tokenizer.eos_token_id)
        self._clients = [VllmClient(url, rollout) for url in vllm.urls]
        self._admitted = [0] * len(vllm.urls)
        self._locks = [threading.Lock() for _ in vllm.urls]
        self._pool = ThreadPoolExecutor(rollout.batch)
        self._temporary = None if vllm.adapter_dir else tempfile.TemporaryDirectory(prefix="intraskill-adapters-")
        root = Path(self._temporary.name if self._temporary else vllm.adapter_dir).absolute()
        self._swap = HotSwap(policy, root, self.probe, load=self._load, unload=self._unload, verify=self._verify)

    def serve(self, checkpoint: str) -> None:
        """Make every server sample from the policy's weights as they are now; ``checkpoint`` is their hash.

        Raises:
            ConfigError: when a server is not what the run expects.
            EngineError: when one cannot be reached, or does not sample from the policy.
        """
        self._swap.serve(checkpoint)

    def open(self, prompts: Sequence[tuple[int, ...]]) -> StatelessConversations:
        """Start one conversation per prompt; equal prompts go to one server as far as the shares allow."""
        return StatelessConversations(
            self._sample, prompts, max_new_tokens=self._limit, stop_id=self._stop_id, lanes=len(self._clients)
        )

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

    def _ask(self, request: ActionRequest, version: ServedVersion) -> Generation:
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

    def _load(self, version: ServedVersion) -> None:
        list(self._pool.map(lambda lane: self._bring(lane, version), range(len(self._clients))))

    def _verify(self, version: ServedVersion) -> None:
        for lane in range(len(self._clients)):
            self._check(lane, version)

    def _unload(self, version: ServedVersion) -> None:
        list(self._pool.map(lambda client: client.unload(version), self._clients))

    def _bring(self, lane: int, version: ServedVersion) -> None:
        """Check a server and load the adapter there."""
        self._clients[lane].admit()
        self._clients[lane].load(version)

    def _check(self, lane: int, version: ServedVersion) -> None:
        """Probe a server; only then do waiting threads see that it was admitted."""
        client = self._clients[lane]
        for _ in range(_RESTARTS):
            try:
                answer = client.complete(version.name, self.probe.request(version))
            except ForgottenModel:
                self._bring(lane, version)
                continue
            self.probe.check(answer, f"{client.name} ({version.name})")
            self._admitted[lane] += 1
            return
        raise self._forgetful(lane)

    def _forgetful(self, lane: int) -> EngineError:
        return EngineError(f"{self._clients[lane].name} forgets its adapter again and again; look at its log")
