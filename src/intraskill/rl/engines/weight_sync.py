"""New weights into a running engine: written aside, loaded under a new name, probed; only then the old ones go.

vLLM serves the old adapter without a word when a new path comes under an id that it knows. So a version is never
reused: its number grows, and name, integer id and path are all new.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from intraskill.method.errors import EngineError
from intraskill.rl.engines.adapter_names import engine_names, weight_names
from intraskill.rl.engines.stateless import ActionRequest
from intraskill.rl.policy import Generation, Policy

PROBE_TOKENS = 24
_PROBE_SEED = 20_090
_PROBE_TEXT = "Find a red lamp under twenty dollars and buy it."
_CANARY = 1 << 30
"""Number of the version that no other may have."""
_LOUD, _QUIET, _LOUDEST = 0.5, 0.01, 100.0
"""The canary moves the probe's log-probabilities by half a nat per token, by weights between these sizes."""
_NEAR = 0.2
"""How near to the canary, as a share of its distance from the start weights, an engine must be."""
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}
"""Largest mean difference per token, nats, by the number type of the weights; measured: 1e-6 in float32 on a CPU."""


class EngineProbe:
    """Compares an engine's log-probabilities with the trainer's.

    Before the first version a canary is served: the adapter made so loud that nobody could take it for none. Later a
    step may be smaller than the rounding between the two; what the engine says must then at least not be nearer to the
    weights of before.

    Args:
        policy: the trainer's.
        temperature: of the sampling distribution.
        tolerance: largest mean difference per token, nats; 0 = by the number type of the weights.
    """

    def __init__(self, policy: Policy, temperature: float, tolerance: float) -> None:
        self.prompt_ids: tuple[int, ...] = tuple(policy.tokenizer.encode(_PROBE_TEXT, add_special_tokens=False))
        self.tolerance = tolerance or TOLERANCE.get(policy.causal.dtype, max(TOLERANCE.values()))
        self.gap = float("nan")
        self._policy, self._temperature = policy, temperature
        self._before: dict[str, torch.Tensor] = {}
        self._loud = False

    @property
    def adapter(self) -> dict[str, torch.nn.Parameter]:
        """The adapter's weights; none for a policy that is trained whole."""
        return {name: p for name, p in self._policy.trainable().items() if ".lora_" in name}

    def remember(self) -> None:
        """Keep the adapter as it is served now, for the comparison with the next one."""
        self._before = {name: p.detach().clone() for name, p in self.adapter.items()}

    @contextmanager
    def canary(self) -> Iterator[None]:
        """Make the adapter loud for the time of the block: far more than rounding away from the start weights."""
        own = {name: p.detach().clone() for name, p in self.adapter.items()}
        generator = torch.Generator().manual_seed(_PROBE_SEED)
        noise = {name: torch.randn(p.shape, generator=generator).to(p) for name, p in own.items() if ".lora_B" in name}
        plain, size = self._scores(list(self.prompt_ids[1:]), self._temperature, adapter=False), _QUIET
        try:
            while True:
                self._fill({name: size * value for name, value in noise.items()})
                moved = self._scores(list(self.prompt_ids[1:]), self._temperature) - plain
                if size > _LOUDEST or float(moved.abs().mean()) >= max(_LOUD, 20 * self.tolerance):
                    break
                size *= 2.0
            self._loud = True
            yield
        finally:
            self._loud = False
            self._fill(own)

    @torch.no_grad()
    def _fill(self, values: Mapping[str, torch.Tensor]) -> None:
        for name, parameter in self.adapter.items():
            if name in values:
                parameter.copy_(values[name])

    def request(self, version: "ServedVersion") -> ActionRequest:
        """Return what the engine is asked once it serves a version."""
        return ActionRequest(self.prompt_ids, _PROBE_SEED, version.name, PROBE_TOKENS, None)

    def check(self, answer: Generation, where: str) -> None:
        """Compare; the gap stays in ``gap``.

        Raises:
            EngineError: when the two disagree, with the likely reason.
        """
        self.gap = self._gap(answer, self._temperature)
        if self._loud and self.gap <= max(self.tolerance, _NEAR * self._gap(answer, self._temperature, adapter=False)):
            return
        if not self._loud and self.gap <= self.tolerance:
            self._refuse_stale(answer, where)
            return
        reasons = [reason for gap, reason in self._suspects(answer) if gap <= self.tolerance]
        guess = reasons[0] if reasons else "a stale adapter, other start weights, or another number type are likely"
        raise EngineError(
            f"{where} does not sample from the trained policy: its log-probabilities differ by {self.gap:.3g} per "
            f"token on average over {len(answer.token_ids)} probe tokens, more than {self.tolerance:.3g}; {guess} (see "
            "rollout.vllm.probe_tolerance)"
        )

    def _refuse_stale(self, answer: Generation, where: str) -> None:
        """Refuse an engine that is nearer to the adapter of before than to the one that it was given."""
        if not self._before:
            return
        now = {name: p.detach().clone() for name, p in self.adapter.items()}
        self._fill(self._before)
        before = self._gap(answer, self._temperature)
        self._fill(now)
        if before < self.gap / 2:
            raise EngineError(
                f"{where} still samples from the adapter of before: its log-probabilities are {before:.3g} nats per "
                f"token from that one and {self.gap:.3g} from the new one; start it again, and look at its log"
            )

    def _suspects(self, answer: Generation) -> Iterator[tuple[float, str]]:
        yield self._gap(answer, self._temperature, adapter=False), "it serves the start weights without the adapter"
        yield (
            self._gap(answer, 1.0),
            "it reports raw log-probabilities: start vLLM with --logprobs-mode processed_logprobs",
        )

    def _gap(self, answer: Generation, temperature: float, *, adapter: bool = True) -> float:
        own = self._scores(answer.token_ids, temperature, prompt=self.prompt_ids, adapter=adapter)
        return float((own - torch.tensor(answer.logprobs, device=own.device)).abs().mean())

    @torch.no_grad()
    def _scores(
        self, tokens: Sequence[int], temperature: float, *, prompt: Sequence[int] = (), adapter: bool = True
    ) -> torch.Tensor:
        """Return the trainer's log-probabilities of tokens after a prompt, (T,); by default the probe's first token."""
        policy, prompt = self._policy, prompt or self.prompt_ids[:1]
        ids = torch.tensor([[*prompt, *tokens]], device=policy.device)
        context: Any = nullcontext()
        if not adapter and hasattr(policy.model, "disable_adapter"):
            context = policy.model.disable_adapter()
        with context:
            hidden = policy.backbone(input_ids=ids, use_cache=False).last_hidden_state
            logits = policy.head(hidden[0, len(prompt) - 1 : -1])
        scores = torch.log_softmax(logits.float() / temperature, -1)
        return scores.gather(1, ids[0, len(prompt) :, None])[:, 0]


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """One state of the policy's weights as an engine knows it.

    Attributes:
        number: 1, 2, 3, … in this process; the adapter's integer id where the engine wants one.
        name: ``policy-v3-5f0c2a91``; the last part differs between processes, so that a resumed run never meets a name
            that a server learnt from the killed one.
        directory: as `save_pretrained` writes it: the adapter, or the whole model with its embeddings untied.
    """

    number: int
    name: str
    directory: Path


class HotSwap:
    """Keeps an engine on the policy's weights.

    Args:
        policy: whose weights are served.
        root: directory of the versions; the engine reads it under the same path.
        probe: makes the canary, and remembers what was served.
        load: makes the engine serve a version.
        unload: lets the engine forget a version.
        verify: raises unless the engine serves this version.
    """

    def __init__(
        self,
        policy: Policy,
        root: Path,
        probe: EngineProbe,
        *,
        load: Callable[[ServedVersion], None],
        unload: Callable[[ServedVersion], None],
        verify: Callable[[ServedVersion], None],
    ) -> None:
        self.current: ServedVersion | None = None
        self._policy, self._root, self._probe = policy, root, probe
        self._load, self._unload, self._verify = load, unload, verify
        self._life = secrets.token_hex(4)
        self._number = 0
        self._served: str | None = None

    def serve(self, checkpoint: str) -> None:
        """Swap unless the weights with this hash are served already; a version that fails its probe is never served."""
        if checkpoint == self._served:
            return
        old, self.current, self._served = self.current, None, None
        if self._number == 0 and self._probe.adapter:
            self._try_canary()
        new = self._write()
        self._load(new)
        self._verify(new)
        self._probe.remember()
        if old is not None:
            self._unload(old)
            shutil.rmtree(old.directory, ignore_errors=True)
        self.current, self._served = new, checkpoint

    def _try_canary(self) -> None:
        """Serve a loud adapter once: an engine that loads adapters and ignores them is told here."""
        with self._probe.canary():
            canary = self._write_as(_CANARY, f"canary-{self._life}")
            self._load(canary)
            self._verify(canary)
        self._unload(canary)
        shutil.rmtree(canary.directory, ignore_errors=True)

    def _write(self) -> ServedVersion:
        self._number += 1
        return self._write_as(self._number, f"policy-v{self._number}-{self._life}")

    def _write_as(self, number: int, name: str) -> ServedVersion:
        aside, directory = self._root / f"{name}.partial", self._root / name
        aside.mkdir(parents=True)
        _save(self._policy, aside)
        os.replace(aside, directory)
        return ServedVersion(number, name, directory)


def _save(policy: Policy, directory: Path) -> None:
    if hasattr(policy.model, "peft_config"):
        # "auto" would ask the hub whether the base model's vocabulary was changed.
        # The weights as they stand here: a state dict of sharded ones would hold this process's shards.
        state = {name: p.detach() for name, p in policy.model.named_parameters()}
        policy.model.save_pretrained(directory, save_embedding_layers=False, state_dict=state)
        _rename(directory / "adapter_model.safetensors", policy.directory)
        return
    policy.model.save_pretrained(directory, max_shard_size="10000GB")
    if getattr(policy.causal.config, "tie_word_embeddings", False):
        _untie(policy, directory)


def _rename(path: Path, start: Path | None) -> None:
    """Give an adapter's tensors the names of the checkpoint that the engine serves."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    names = engine_names(tensors, weight_names(start) if start else ())
    if any(name != own for own, name in names.items()):
        save_file({names[own]: tensor for own, tensor in tensors.items()}, path, metadata={"format": "pt"})


def _untie(policy: Policy, directory: Path) -> None:
    """Give the saved model a head of its own: vLLM's reload leaves a tied head as it was at the start."""
    from safetensors.torch import save_file

    save_file({"lm_head.weight": policy.head.weight.detach().cpu().contiguous()}, directory / "head.safetensors")
    path = directory / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for section in (config, config.get("text_config") or {}):
        section["tie_word_embeddings"] = False
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
