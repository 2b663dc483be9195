"""Does an engine sample from the policy that is trained? One short action, scored by both."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch

from intraskill.method.errors import EngineError
from intraskill.runtime.policy import Generation, Policy

PROBE_TOKENS = 24
PROBE_SEED = 20_090
PROBE_TEXT = "Find a red lamp under twenty dollars and buy it."
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

    def __init__(self, policy: Policy, temperature: float, tolerance: float = 0.0) -> None:
        self.prompt_ids: tuple[int, ...] = tuple(policy.tokenizer.encode(PROBE_TEXT, add_special_tokens=False))
        self.tolerance = tolerance or TOLERANCE.get(policy.causal.dtype, max(TOLERANCE.values()))
        self.gap = float("nan")
        self._policy, self._temperature = policy, temperature

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
