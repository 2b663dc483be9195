"""The tree of tokens: what it merges, what a token sees, and that it changes no log-probability and no gradient."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rl.test_prefix_cache import FAMILIES, GRADIENT_TOLERANCE, LOGPROB_TOLERANCE, made, rollout, scored

from intraskill.method.errors import ConfigError
from intraskill.rl.logprobs import batch_logprobs
from intraskill.rl.prefix_tree import prefix_tree, visible

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=8)


@given(SEQUENCES)
def test_a_tree_holds_every_beginning_once_and_a_token_sees_exactly_its_own_past(sequences: list[list[int]]) -> None:
    tree = prefix_tree(sequences)
    beginnings = {tuple(s[: k + 1]) for s in sequences for k in range(len(s))}
    assert len(tree.tokens) == len(beginnings)
    seen = visible(tree, len(tree.tokens) + 2)
    for sequence, path in zip(sequences, tree.paths, strict=True):
        assert [tree.tokens[node] for node in path] == sequence
        assert [tree.depths[node] for node in path] == list(range(len(sequence)))
        for depth, node in enumerate(path):
            assert seen[node].nonzero()[:, 0].tolist() == list(path[: depth + 1])
    assert seen[-1].nonzero().tolist() == [[len(tree.tokens) + 1]], "padding sees itself only"


def forest() -> list:
    """Two prompts; rollouts that are equal, that begin alike, that are another's beginning, and that share nothing."""
    first = [rollout(40, length, start) for length, start in ((30, 3), (30, 3), (12, 3), (25, 90))]
    fork = dataclasses.replace(first[0], token_ids=(*first[0].token_ids[:20], *range(60, 70)))
    masked = dataclasses.replace(fork, loss_mask=(*((1,) * 10), *((0,) * 12), *((1,) * 8)))
    return [*first, fork, rollout(55, 1, 9), rollout(55, 18, 9), masked]


@pytest.mark.parametrize("adapted", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("family", [name for name in FAMILIES if "linear" not in name])
def test_trees_of_several_prompts_change_neither_logprobs_nor_gradients(family: str, adapted: bool) -> None:
    policy = made(family, adapted)
    dense, expected = scored(policy, forest(), layout="dense")
    shared, found = scored(policy, forest(), layout="tree")
    torch.testing.assert_close(shared, dense, atol=LOGPROB_TOLERANCE, rtol=0)
    assert (found - expected).norm() / expected.norm() <= GRADIENT_TOLERANCE
    _, other = scored(policy, [*forest()[:-1], forest()[0]], layout="tree")
    assert (other - expected).norm() / expected.norm() > 100 * GRADIENT_TOLERANCE


def test_a_recurrent_model_is_refused_with_the_knob_to_turn() -> None:
    policy = made("qwen3.5 (3 of 4 layers linear)", adapted=False)
    with pytest.raises(ConfigError, match=r"LinearAttentionLayer; set grpo\.prefix_tree=false"):
        batch_logprobs(policy, forest(), layout="tree")
