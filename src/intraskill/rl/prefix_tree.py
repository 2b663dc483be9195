"""Token sequences as a tree: what several of them begin with is stored, and forwarded, once.

Rollouts of a group share their prompt, and often much of what follows: in the shipped quickstart two thirds of all
tokens after the prompt repeat what another rollout of the group has there. Nodes are numbered in preorder, so that a
node's descendants follow it without a gap, and one comparison tells what a token may see.

Shape letters: N nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Sequences merged where they begin alike.

    Attributes:
        tokens: (N,) token of each node.
        depths: (N,) position of each node in its sequences.
        ends: (N,) first node after the descendants of each node.
        paths: nodes of each sequence, in the order given.
    """

    tokens: tuple[int, ...]
    depths: tuple[int, ...]
    ends: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]


def prefix_tree(sequences: Sequence[Sequence[int]]) -> PrefixTree:
    """Return the tree of some sequences; sorted, each one branches off the one before it."""
    tokens: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    paths: list[tuple[int, ...]] = [()] * len(sequences)
    path: list[int] = []
    for index in sorted(range(len(sequences)), key=lambda k: tuple(sequences[k])):
        sequence = sequences[index]
        shared = 0
        while shared < min(len(path), len(sequence)) and tokens[path[shared]] == sequence[shared]:
            shared += 1
        for node in path[shared:]:
            ends[node] = len(tokens)
        del path[shared:]
        for depth in range(shared, len(sequence)):
            path.append(len(tokens))
            tokens.append(sequence[depth])
            depths.append(depth)
            ends.append(-1)
        paths[index] = tuple(path)
    for node in path:
        ends[node] = len(tokens)
    return PrefixTree(tuple(tokens), tuple(depths), tuple(ends), tuple(paths))


def visible(tree: PrefixTree, width: int) -> torch.Tensor:
    """Return (width, width) booleans: a row sees its ancestors and itself; padding sees only itself."""
    nodes = torch.arange(width)
    ends = nodes + 1
    ends[: len(tree.ends)] = torch.tensor(tree.ends)
    return (nodes[:, None] >= nodes) & (nodes[:, None] < ends)
