"""Which rollouts are forwarded together: as many as a budget of tokens allows, padding included."""

from collections.abc import Sequence
from typing import Literal

from intraskill.method.rollouts import Rollout

Layout = Literal["dense", "prefix"]
"""What is forwarded once: nothing, or each group's prompt."""


def micro_batches(rollouts: Sequence[Rollout], token_budget: int, *, layout: Layout, parts: int = 1) -> list[list[int]]:
    """Cut rollouts into batches of at most ``token_budget`` padded tokens (at least one rollout each).

    Args:
        rollouts: what to cut; returned are their indices.
        token_budget: forwarded tokens, padding included.
        layout: ``prefix`` keeps one prompt per batch and counts it once.
        parts: processes among which the batches are dealt out; the budget is halved until each of them gets one.
    """
    batches = _batches(rollouts, token_budget, layout)
    while len(batches) < min(parts, len(rollouts)) and token_budget > 1:
        token_budget //= 2
        batches = _batches(rollouts, token_budget, layout)
    return batches


def _batches(rollouts: Sequence[Rollout], token_budget: int, layout: Layout) -> list[list[int]]:
    if layout == "dense":
        order = sorted(range(len(rollouts)), key=lambda i: len(rollouts[i].prompt_ids) + len(rollouts[i].token_ids))
        return _cut(order, [len(rollouts[i].prompt_ids) + len(rollouts[i].token_ids) for i in order], token_budget)
    batches: list[list[int]] = []
    for prompt, members in by_prompt(rollouts).items():
        order = sorted(members, key=lambda i: len(rollouts[i].token_ids))
        batches += _cut(order, [len(rollouts[i].token_ids) for i in order], max(token_budget - len(prompt), 1))
    return batches


def by_prompt(rollouts: Sequence[Rollout]) -> dict[tuple[int, ...], list[int]]:
    """Return the indices of the rollouts of each prompt, prompts in order of appearance."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, rollout in enumerate(rollouts):
        groups.setdefault(rollout.prompt_ids, []).append(index)
    return groups


def _cut(order: Sequence[int], sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Cut an ascending order into runs whose padded size fits the budget."""
    runs: list[list[int]] = []
    for index, size in zip(order, sizes, strict=True):
        if not runs or (len(runs[-1]) + 1) * size > budget:
            runs.append([])
        runs[-1].append(index)
    return runs
