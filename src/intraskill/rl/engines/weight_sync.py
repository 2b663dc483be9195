"""New weights into a running engine: written aside, loaded under a new name, probed; only then the old ones go.

vLLM serves the old adapter without a word when a new path comes under an id that it knows. So a version is never
reused: its number grows, and name, integer id and path are all new.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from intraskill.method.errors import EngineError
from intraskill.rl.engines.stateless import ActionRequest
from intraskill.rl.policy import Generation, Policy

PROBE_TOKENS = 24
_PROBE_SEED = 20_090
_PROBE_TEXT = "Find a red lamp under twenty dollars and buy it."
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}
"""Largest mean difference per token, nats, by the number type of the weights; measured: 1e-6 in float32 on a CPU."""


class EngineProbe:
    """Compares an engine's log-probabilities with the trainer's.

    It sees a stale or missing adapter as far as the two differ by more than the tolerance: after one small step in
    bfloat16 they do not, which is why versions never share a name in the first place.

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

    def request(self, version: "ServedVersion") -> ActionRequest:
        """Return what the engine is asked once it serves a version."""
        return ActionRequest(self.prompt_ids, _PROBE_SEED, version.name, PROBE_TOKENS, None)

    def check(self, answer: Generation, where: str) -> None:
        """Compare; the gap stays in ``gap``.

        Raises:
            EngineError: when the two disagree, with the likely reason.
        """
        self.gap = self._gap(answer, self._temperature)
        if self.gap <= self.tolerance:
            return
        reasons = [reason for gap, reason in self._suspects(answer) if gap <= self.tolerance]
        guess = reasons[0] if reasons else "a stale adapter, other start weights, or another number type are likely"
        raise EngineError(
            f"{where} does not sample from the trained policy: its log-probabilities differ by {self.gap:.3g} per "
            f"token on average over {len(answer.token_ids)} probe tokens, more than {self.tolerance:.3g}; {guess} (see "
            "rollout.vllm.probe_tolerance)"
        )

    def _suspects(self, answer: Generation) -> Iterator[tuple[float, str]]:
        yield self._gap(answer, self._temperature, adapter=False), "it serves the start weights without the adapter"
        yield (
            self._gap(answer, 1.0),
            "it reports raw log-probabilities: start vLLM with --logprobs-mode processed_logprobs",
        )

    @torch.no_grad()
    def _gap(self, answer: Generation, temperature: float, *, adapter: bool = True) -> float:
        policy = self._policy
        ids = torch.tensor([[*self.prompt_ids, *answer.token_ids]], device=policy.device)
        context: Any = nullcontext()
        if not adapter and hasattr(policy.model, "disable_adapter"):
            context = policy.model.disable_adapter()
        with context:
            hidden = policy.backbone(input_ids=ids, use_cache=False).last_hidden_state
            logits = policy.head(hidden[0, len(self.prompt_ids) - 1 : -1])
        scores = torch.log_softmax(logits.float() / temperature, -1)
        own = scores.gather(1, ids[0, len(self.prompt_ids) :, None])[:, 0]
        theirs = torch.tensor(answer.logprobs, device=own.device)
        return float((own - theirs).abs().mean())


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
        load: makes the engine serve a version.
        unload: lets the engine forget a version.
        verify: raises unless the engine serves this version.
    """

    def __init__(
        self,
        policy: Policy,
        root: Path,
        *,
        load: Callable[[ServedVersion], None],
        unload: Callable[[ServedVersion], None],
        verify: Callable[[ServedVersion], None],
    ) -> None:
        self.current: ServedVersion | None = None
        self._policy, self._root = policy, root
        self._load, self._unload, self._verify = load, unload, verify
        self._life = secrets.token_hex(4)
        self._number = 0
        self._served: str | None = None

    def serve(self, checkpoint: str) -> None:
        """Swap unless the weights with this hash are served already; a version that fails its probe is never served."""
        if checkpoint == self._served:
            return
        old, self.current, self._served = self.current, None, None
        new = self._write()
        self._load(new)
        self._verify(new)
        if old is not None:
            self._unload(old)
            shutil.rmtree(old.directory, ignore_errors=True)
        self.current, self._served = new, checkpoint

    def _write(self) -> ServedVersion:
        self._number += 1
        name = f"policy-v{self._number}-{self._life}"
        aside, directory = self._root / f"{name}.partial", self._root / name
        aside.mkdir(parents=True)
        _save(self._policy, aside)
        os.replace(aside, directory)
        return ServedVersion(self._number, name, directory)


def _save(policy: Policy, directory: Path) -> None:
    if hasattr(policy.model, "peft_config"):
        # "auto" would ask the hub whether the base model's vocabulary was changed.
        # The weights as they stand here: a state dict of sharded ones would hold this process's shards.
        state = {name: p.detach() for name, p in policy.model.named_parameters()}
        policy.model.save_pretrained(directory, save_embedding_layers=False, state_dict=state)
        return
    policy.model.save_pretrained(directory, max_shard_size="10000GB")
    if getattr(policy.causal.config, "tie_word_embeddings", False):
        _untie(policy, directory)


def _untie(policy: Policy, directory: Path) -> None:
    """Give the saved model a head of its own: vLLM's reload leaves a tied head as it was at the start."""
    from safetensors.torch import save_file

    save_file({"lm_head.weight": policy.head.weight.detach().cpu().contiguous()}, directory / "head.safetensors")
    path = directory / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for section in (config, config.get("text_config") or {}):
        section["tie_word_embeddings"] = False
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
