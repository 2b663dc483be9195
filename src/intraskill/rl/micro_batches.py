"""Which rollouts are forwarded together: as many as a budget of tokens allows, padding included."""

from collections.abc import Sequence
from typing import Literal

from intraskill.method.rollouts import Rollout

Layout = Literal["dense", "prefix", "tree"]
"""What is forwarded once: nothing, each group's prompt, or whatever rollouts of a group begin with in common."""


def micro_batches(rollouts: Sequence[Rollout], token_budget: int, *, layout: Layout, parts: int = 1) -> list[list[int]]:
    """Cut rollouts into batches of at most ``token_budget`` padded tokens (at least one rollout each).

    Args:
        rollouts: what to cut; returned are their indices.
        token_budget: forwarded tokens, padding included.
        layout: ``prefix`` keeps one prompt per batch and counts it once; ``tree`` counts each node of a prompt's
            tree once and puts several prompts into one batch.
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
    if layout == "tree":
        pieces = sorted(_tree_pieces(rollouts, token_budget), key=lambda piece: piece[0])
        runs = _cut(range(len(pieces)), [size for size, _ in pieces], token_budget)
        return [[i for k in run for i in pieces[k][1]] for run in runs]
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


def _tree_pieces(rollouts: Sequence[Rollout], budget: int) -> list[tuple[int, list[int]]]:
    """Nodes and members of trees of at most ``budget`` nodes each, one or more per prompt."""
    pieces: list[tuple[int, list[int]]] = []
    for members in by_prompt(rollouts).values():
        before: tuple[int, ...] | None = None
        for index in sorted(members, key=lambda i: rollouts[i].token_ids):
            whole = (*rollouts[index].prompt_ids, *rollouts[index].token_ids)[:-1]
            alike = 0 if before is None else _common(before, whole)
            if before is None or pieces[-1][0] + len(whole) - alike > budget:
                pieces.append((0, []))
                alike = 0
            size, held = pieces[-1]
            pieces[-1] = (size + len(whole) - alike, [*held, index])
            before = whole
    return pieces


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences begin with in common."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def _cut(order: Sequence[int], sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Cut an ascending order into runs whose padded size fits the budget."""
    runs: list[list[int]] = []
    for index, size in zip(order, sizes, strict=True):
        if not runs or (len(runs[-1]) + 1) * size > budget:
            runs.append([])
        runs[-1].append(index)
    return runs
