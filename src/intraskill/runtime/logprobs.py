"""Log-probabilities of sampled tokens under the current weights, with gradients.

Only hidden states that predict a sampled token reach the head: there is no (T, V) tensor for the others. Two paths give
the same numbers: a right-padded batch, and a shared prefix that is forwarded once for all rollouts of a group, which
the group-consistent context makes possible (method §5.1).

Shape letters: B rollouts, T tokens after the prompt, S sampled tokens of a row (padded), n sampled tokens in all,
P prompt tokens, D hidden width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils.checkpoint import checkpoint

from intraskill.method.errors import offenders
from intraskill.method.rollouts import Rollout
from intraskill.runtime.policy import Policy
from intraskill.runtime.prefix_cache import prefix_cache

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
        entropy: (B, S) of the distribution each token was drawn from, without gradient.
        mask: (B, S) 1.0 on sampled tokens.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor
    mask: torch.Tensor


def sampled_logprobs(rollouts: Sequence[Rollout], device: torch.device) -> torch.Tensor:
    """Return the log-probabilities recorded while sampling, (B, S), 0 on padding."""
    rows = [[p for p, kept in zip(r.logprobs, r.loss_mask, strict=True) if kept] for r in rollouts]
    width = max(map(len, rows))
    return torch.tensor([[*row, *([0.0] * (width - len(row)))] for row in rows], device=device)


def micro_batches(rollouts: Sequence[Rollout], token_budget: int, *, shared_prefix: bool) -> list[list[int]]:
    """Cut rollouts into batches of at most ``token_budget`` padded tokens (at least one rollout each).

    Args:
        rollouts: what to cut; returned are their indices.
        token_budget: forwarded tokens, padding included.
        shared_prefix: keep one prompt per batch and count it once.
    """
    if not shared_prefix:
        order = sorted(range(len(rollouts)), key=lambda i: len(rollouts[i].prompt_ids) + len(rollouts[i].token_ids))
        return _cut(order, [len(rollouts[i].prompt_ids) + len(rollouts[i].token_ids) for i in order], token_budget)
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for index, rollout in enumerate(rollouts):
        by_prompt.setdefault(rollout.prompt_ids, []).append(index)
    batches: list[list[int]] = []
    for prompt, members in by_prompt.items():
        order = sorted(members, key=lambda i: len(rollouts[i].token_ids))
        batches += _cut(order, [len(rollouts[i].token_ids) for i in order], max(token_budget - len(prompt), 1))
    return batches


def batch_logprobs(
    policy: Policy, rollouts: Sequence[Rollout], *, temperature: float = 1.0, shared_prefix: bool = False
) -> TokenLogprobs:
    """Return the log-probabilities of every sampled token of one micro-batch.

    Args:
        policy: whose weights.
        rollouts: B rollouts with at least one sampled token each.
        temperature: of the sampling distribution.
        shared_prefix: forward the common prompt once; all prompts must be equal.

    Raises:
        ValueError: if a rollout has no sampled token, or prompts differ although they should be shared.
    """
    if silent := [rollout.task_id for rollout in rollouts if not any(rollout.loss_mask)]:
        raise ValueError(f"rollouts without a sampled token, {offenders(silent)}")
    hidden = _shared_hidden(policy, rollouts) if shared_prefix else _dense_hidden(policy, rollouts)
    device = policy.device
    counts = torch.tensor([sum(rollout.loss_mask) for rollout in rollouts])
    targets = [t for r in rollouts for t, kept in zip(r.token_ids, r.loss_mask, strict=True) if kept]
    logprobs_n, entropy_n = _head(policy, hidden, torch.tensor(targets, device=device), temperature)
    mask = (torch.arange(int(counts.max())) < counts[:, None]).to(device)
    blank = torch.zeros(mask.shape, dtype=logprobs_n.dtype, device=device)
    return TokenLogprobs(
        blank.masked_scatter(mask, logprobs_n), blank.masked_scatter(mask, entropy_n), mask.to(logprobs_n.dtype)
    )


def _dense_hidden(policy: Policy, rollouts: Sequence[Rollout]) -> torch.Tensor:
    """Hidden states (n, D) that predict the sampled tokens, from one right-padded causal batch."""
    device = policy.device
    # The last token predicts nothing that was sampled, so it is not forwarded.
    rows = [(*rollout.prompt_ids, *rollout.token_ids)[:-1] for rollout in rollouts]
    hidden = policy.backbone(input_ids=_padded(rows, device), use_cache=False).last_hidden_state
    row_n, offset_n = _sampled_positions(rollouts, device)
    start = torch.tensor([len(rollout.prompt_ids) - 1 for rollout in rollouts], device=device)
    picked: torch.Tensor = hidden[row_n, start[row_n] + offset_n]
    return picked


def _shared_hidden(policy: Policy, rollouts: Sequence[Rollout]) -> torch.Tensor:
    """The same hidden states with the prompt forwarded once, its cache repeated; gradients flow through both."""
    prompts = {rollout.prompt_ids for rollout in rollouts}
    if len(prompts) != 1:
        raise ValueError(f"{len(prompts)} different prompts in a batch that should share one prefix")
    device = policy.device
    prefix = torch.tensor([prompts.pop()], device=device)
    cache = prefix_cache(policy.causal.config)
    hidden = policy.backbone(input_ids=prefix, past_key_values=cache, use_cache=True).last_hidden_state[:, -1:]
    hidden = hidden.expand(len(rollouts), -1, -1)
    rows = [rollout.token_ids[:-1] for rollout in rollouts]
    if any(rows):
        cache.batch_repeat_interleave(len(rollouts))
        suffix = policy.backbone(input_ids=_padded(rows, device), past_key_values=cache, use_cache=True)
        hidden = torch.cat([hidden, suffix.last_hidden_state], 1)
    row_n, offset_n = _sampled_positions(rollouts, device)
    picked: torch.Tensor = hidden[row_n, offset_n]
    return picked


def _head(
    policy: Policy, hidden_nD: torch.Tensor, target_n: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability and entropy (n,) of each target; a large (n, V) never exists, forward or backward."""
    head = policy.head
    if len(target_n) * head.weight.shape[0] <= _LOGITS_AT_ONCE:
        return _score(head, hidden_nD, target_n, temperature)
    if type(head) is torch.nn.Linear:
        return _chunked(head, hidden_nD, target_n, temperature)
    # An adapter on the head has no weight that a chunk of the vocabulary could be cut from.
    piece = max(1, _LOGITS_AT_ONCE // int(head.weight.shape[0]))
    pieces = zip(torch.split(hidden_nD, piece), torch.split(target_n, piece), strict=True)
    parts = [checkpoint(_score, head, hidden, target, temperature, use_reentrant=False) for hidden, target in pieces]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _score(
    head: torch.nn.Module, hidden_nD: torch.Tensor, target_n: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logprobs = torch.log_softmax(head(hidden_nD).float() / temperature, -1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
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
    width = max(map(len, rows))
    return torch.tensor([[*row, *([0] * (width - len(row)))] for row in rows], device=device)


def _cut(order: Sequence[int], sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Cut an ascending order into runs whose padded size fits the budget."""
    runs: list[list[int]] = []
    for index, size in zip(order, sizes, strict=True):
        if not runs or (len(runs[-1]) + 1) * size > budget:
            runs.append([])
        runs[-1].append(index)
    return runs
