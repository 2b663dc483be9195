"""Log-probabilities of sampled tokens under the current weights, with gradients.

Only hidden states that predict a sampled token reach the head: there is no (T, V) tensor for the others. Two layouts
give the same numbers: a right-padded batch, and a shared prefix that is forwarded once for all rollouts of a group,
which the group-consistent context makes possible (method §5.1).

Shape letters: B rollouts, T tokens after the prompt, S sampled tokens of a row (padded), n sampled tokens in all,
P prompt tokens, D hidden width, V vocabulary, W bytes of a packed set.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer

from intraskill.method.errors import ConfigError, offenders
from intraskill.method.rollouts import Rollout
from intraskill.rl.engines.constrained import unpacked
from intraskill.rl.micro_batches import Layout
from intraskill.rl.policy import Policy


class _ForkableState(LinearAttentionLayer):  # type: ignore[misc]  # transformers is untyped
    """Convolution and recurrent states of one linear-attention layer, never overwritten."""

    def update_conv_state(
        self, conv_states: torch.Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **_: Any
    ) -> torch.Tensor:
        """Return what the causal convolution reads, and keep its last ``conv_kernel_size`` columns."""
        if not self.is_conv_states_initialized[state_idx]:
            self.lazy_initialization(conv_states=conv_states, state_idx=state_idx, conv_kernel_size=conv_kernel_size)
        kernel = self.conv_kernel_size[state_idx]
        seen = conv_states
        if self.has_previous_state[state_idx]:
            seen = torch.cat([self.conv_states[state_idx], conv_states], -1)
        elif seen.shape[-1] < kernel:
            seen = torch.nn.functional.pad(seen, (kernel - seen.shape[-1], 0))
        self.has_previous_state[state_idx] = True
        self.conv_states[state_idx] = seen[..., -kernel:]
        return seen

    def update_recurrent_state(self, recurrent_states: torch.Tensor, state_idx: int = 0, **_: Any) -> torch.Tensor:
        """Keep the state after the last token."""
        self.is_recurrent_states_initialized[state_idx] = True
        self.recurrent_states[state_idx] = recurrent_states
        return recurrent_states

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Give every continuation the same state."""
        for states in (self.conv_states, self.recurrent_states):
            for index, state in states.items():
                if state is not None:
                    states[index] = state.repeat_interleave(repeats, 0)


def prefix_cache(config: Any) -> DynamicCache:
    """Return an empty cache that can be repeated for the continuations of one prefix.

    Raises:
        ConfigError: for a model that caches anything but keys, values and linear-attention states.
    """
    cache = DynamicCache(config=config)
    if odd := unshareable(cache):
        raise ConfigError(
            f"no prefix can be shared of what this model caches, {offenders(odd)}; set grpo.shared_prefix=false"
        )
    cache.layers = [
        _ForkableState(layer.number_of_states) if type(layer) is LinearAttentionLayer else layer
        for layer in cache.layers
    ]
    return cache


def _forked(layer: Any, repeats: int) -> Any:
    """Return a cache layer that starts from what this one holds, ``repeats`` times; the two then grow apart."""
    fork = copy.copy(layer)
    for name, held in vars(layer).items():
        if isinstance(held, dict):  # states and flags of linear attention, by index
            setattr(fork, name, dict(held))
    if repeats > 1:
        fork.batch_repeat_interleave(repeats)
    return fork


def unshareable(cache: DynamicCache) -> list[str]:
    """Return the kinds of layers that `prefix_cache` cannot repeat."""
    return sorted(
        {type(layer).__name__ for layer in cache.layers} - {DynamicLayer.__name__, LinearAttentionLayer.__name__}
    )


@contextmanager
def _checkpointed_layers(backbone: Any, repeats: int) -> Iterator[None]:
    """Within it, forward passes of this backbone keep only the input of each layer.

    Args:
        backbone: with its decoder layers in ``layers``, in the order of the cache's layers.
        repeats: continuations of what the cache holds; above 1 the pass is the last one over this cache, which then
            keeps the prefix only.
    """
    shadowed = [(layer, layer.__dict__.get("forward")) for layer in backbone.layers]
    for index, (layer, _) in enumerate(shadowed):
        layer.forward = partial(_checkpointed, layer.forward, index, repeats)
    try:
        yield
    finally:
        for layer, own in shadowed:
            del layer.forward
            if own is not None:
                layer.forward = own


def _checkpointed(original: Callable[..., Any], index: int, repeats: int, hidden: torch.Tensor, **options: Any) -> Any:
    """Run one layer; its cache is found as it was whenever this is repeated."""
    cache = options.get("past_key_values")
    if cache is None:
        return checkpoint(original, hidden, use_reentrant=False, preserve_rng_state=False, **options)
    before = _forked(cache.layers[index], 1)

    def run(hidden: torch.Tensor) -> Any:
        cache.layers[index] = _forked(before, repeats)
        try:
            return original(hidden, **options)
        finally:
            if repeats > 1:
                cache.layers[index] = before

    return checkpoint(run, hidden, use_reentrant=False, preserve_rng_state=False)


_LOGITS_AT_ONCE = 2**22
"""Most logits that the plain head computes at once, 16 MiB in float32."""
_TILE_TOKENS = 4096
"""Rows of a tile of TRL's fused head (its own constant)."""
_TILE_CPU, _TILE_CUDA = 2**21, 2**26
"""Logits of a tile; on a CPU about seven tiles of temporaries exist at once, 60 MiB in float32."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities of the sampled tokens of some rollouts.

    Attributes:
        logprobs: (B, S) under the sampling temperature, with gradient; 0 on padding.
        entropy: (B, S) of the distribution each token was drawn from; with gradient only when asked for.
        mask: (B, S) 1.0 on sampled tokens.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Rows:
    """How the head scores n hidden states.

    Attributes:
        allowed: (n, W) packed sets of tokens that each was drawn from; all, when absent.
        entropy_gradient: whether the entropy keeps its gradient.
    """

    allowed: torch.Tensor | None = None
    entropy_gradient: bool = False


def sampled_logprobs(rollouts: Sequence[Rollout], device: torch.device) -> torch.Tensor:
    """Return the log-probabilities recorded while sampling, (B, S), 0 on padding."""
    rows = [[p for p, kept in zip(r.logprobs, r.loss_mask, strict=True) if kept] for r in rollouts]
    width = max(map(len, rows))
    return torch.tensor([[*row, *([0.0] * (width - len(row)))] for row in rows], device=device)


def batch_logprobs(
    policy: Policy,
    rollouts: Sequence[Rollout],
    *,
    temperature: float,
    layout: Layout,
    checkpoint_activations: bool,
    allowed: torch.Tensor | None = None,
    entropy_gradient: bool = False,
) -> TokenLogprobs:
    """Return the log-probabilities of every sampled token of one micro-batch.

    Args:
        policy: whose weights.
        rollouts: B rollouts with at least one sampled token each.
        temperature: of the sampling distribution.
        layout: what is forwarded once; with ``prefix`` all prompts must be equal.
        checkpoint_activations: keep only what enters each layer, and recompute the rest backward.
        allowed: (n, W) packed sets of tokens that each sampled token was drawn from (`constrained`); all, when absent.
        entropy_gradient: keep the gradient of the entropy, too.

    Raises:
        ValueError: if a rollout has no sampled token, or prompts differ although they should be shared.
        ConfigError: if the model caches what cannot be shared.
    """
    if silent := [rollout.task_id for rollout in rollouts if not any(rollout.loss_mask)]:
        raise ValueError(f"rollouts without a sampled token, {offenders(silent)}")
    device = policy.device
    counts = torch.tensor([sum(rollout.loss_mask) for rollout in rollouts])
    forward = _shared_hidden if layout == "prefix" else _dense_hidden
    hidden = forward(policy, rollouts, checkpoint_activations)
    targets = [t for r in rollouts for t, kept in zip(r.token_ids, r.loss_mask, strict=True) if kept]
    logprobs_n, entropy_n = _head(
        policy, hidden, torch.tensor(targets, device=device), temperature, _Rows(allowed, entropy_gradient)
    )
    mask = (torch.arange(int(counts.max())) < counts[:, None]).to(device)
    blank = torch.zeros(mask.shape, dtype=logprobs_n.dtype, device=device)
    return TokenLogprobs(
        blank.masked_scatter(mask, logprobs_n), blank.masked_scatter(mask, entropy_n), mask.to(logprobs_n.dtype)
    )


def _dense_hidden(policy: Policy, rollouts: Sequence[Rollout], checkpoints: bool) -> torch.Tensor:
    """Hidden states (n, D) that predict the sampled tokens, from one right-padded causal batch."""
    device = policy.device
    # The last token predicts nothing that was sampled, so it is not forwarded.
    rows = [(*rollout.prompt_ids, *rollout.token_ids)[:-1] for rollout in rollouts]
    with _recomputed(policy, checkpoints, 1):
        hidden = policy.backbone(input_ids=_padded(rows, device), use_cache=False).last_hidden_state
    row_n, offset_n = _sampled_positions(rollouts, device)
    start = torch.tensor([len(rollout.prompt_ids) - 1 for rollout in rollouts], device=device)
    picked: torch.Tensor = hidden[row_n, start[row_n] + offset_n]
    return picked


def _shared_hidden(policy: Policy, rollouts: Sequence[Rollout], checkpoints: bool) -> torch.Tensor:
    """The same hidden states with the prompt forwarded once, its cache repeated; gradients flow through both."""
    prompts = {rollout.prompt_ids for rollout in rollouts}
    if len(prompts) != 1:
        raise ValueError(f"{len(prompts)} different prompts in a batch that should share one prefix")
    device = policy.device
    prefix = torch.tensor([prompts.pop()], device=device)
    cache = prefix_cache(policy.causal.config)
    with _recomputed(policy, checkpoints, 1):
        hidden = policy.backbone(input_ids=prefix, past_key_values=cache, use_cache=True).last_hidden_state[:, -1:]
    hidden = hidden.expand(len(rollouts), -1, -1)
    rows = [rollout.token_ids[:-1] for rollout in rollouts]
    # Also when no rollout has a second token: with sharded weights every process must call the layers equally often.
    if not checkpoints:
        cache.batch_repeat_interleave(len(rollouts))
    with _recomputed(policy, checkpoints, len(rollouts)):
        suffix = policy.backbone(input_ids=_padded(rows, device), past_key_values=cache, use_cache=True)
    hidden = torch.cat([hidden, suffix.last_hidden_state], 1)
    row_n, offset_n = _sampled_positions(rollouts, device)
    picked: torch.Tensor = hidden[row_n, offset_n]
    return picked


def _recomputed(policy: Policy, checkpoints: bool, repeats: int) -> AbstractContextManager[None]:
    return _checkpointed_layers(policy.backbone, repeats) if checkpoints else nullcontext()


def _head(
    policy: Policy, hidden_nD: torch.Tensor, target_n: torch.Tensor, temperature: float, rows: _Rows
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability and entropy (n,) of each target; a large (n, V) never exists, forward or backward."""
    head = policy.head
    if rows.allowed is not None:
        rows = _Rows(rows.allowed.to(hidden_nD.device), rows.entropy_gradient)
    if len(target_n) * head.weight.shape[0] <= _LOGITS_AT_ONCE:
        return _score(head, hidden_nD, target_n, temperature, rows)
    if type(head) is torch.nn.Linear and rows.allowed is None and not rows.entropy_gradient:
        return _chunked(head, hidden_nD, target_n, temperature)
    # An adapter on the head has no weight that a chunk of the vocabulary could be cut from; TRL's head knows no masks,
    # and its entropy has no gradient.
    piece = max(1, _LOGITS_AT_ONCE // int(head.weight.shape[0]))
    hiddens, targets = torch.split(hidden_nD, piece), torch.split(target_n, piece)
    sets = [None] * len(targets) if rows.allowed is None else torch.split(rows.allowed, piece)
    parts = [
        checkpoint(
            _score, head, hidden, target, temperature, _Rows(allowed, rows.entropy_gradient), use_reentrant=False
        )
        for hidden, target, allowed in zip(hiddens, targets, sets, strict=True)
    ]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _score(
    head: torch.nn.Module, hidden_nD: torch.Tensor, target_n: torch.Tensor, temperature: float, rows: _Rows
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = head(hidden_nD).float() / temperature
    if rows.allowed is not None:
        logits = logits.masked_fill(~unpacked(rows.allowed, logits.shape[1]), float("-inf"))
    logprobs = torch.log_softmax(logits, -1)
    with torch.set_grad_enabled(rows.entropy_gradient and torch.is_grad_enabled()):
        finite = logprobs if rows.allowed is None else logprobs.masked_fill(logprobs.isinf(), 0.0)
        entropy = -(logprobs.exp() * finite).sum(-1)
    return logprobs.gather(1, target_n[:, None])[:, 0], entropy


def _chunked(
    head: torch.nn.Linear, hidden_nD: torch.Tensor, target_n: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """TRL's fused head: tiles of tokens × vocabulary, an online log-sum-exp, recomputed backward."""
    from trl.kernels import ChunkedLogProbFunction  # slow to import, and only large vocabularies need it

    entries = _TILE_CUDA if hidden_nD.is_cuda else _TILE_CPU
    width = max(256, entries // min(len(target_n), _TILE_TOKENS))
    logprobs, entropy, *_ = ChunkedLogProbFunction.apply(
        hidden_nD, head.weight, head.bias, target_n, temperature, width, None, 1.0, ("entropy",)
    )
    return logprobs, entropy.detach()


def _sampled_positions(rollouts: Sequence[Rollout], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and offset into ``token_ids`` of every sampled token, (n,) each, row by row."""
    pairs = [(row, i) for row, rollout in enumerate(rollouts) for i, kept in enumerate(rollout.loss_mask) if kept]
    both = torch.tensor(pairs, device=device)
    return both[:, 0], both[:, 1]


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    """Right-padded ids; under a causal mask no real token ever sees the padding."""
    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *([0] * (width - len(row)))] for row in rows], device=device)
