"""Conversations that are told anew at every turn, and how rows are shared among lanes."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intraskill.method.errors import EngineError
from intraskill.rl.engines.stateless import (
    ActionRequest,
    StatelessConversations,
    generation_of,
    lanes_of,
)
from intraskill.rl.policy import Generation

PROMPTS = st.lists(st.tuples(st.integers(0, 3)), max_size=24)
REQUEST = ActionRequest((5, 6), seed=1, salt="s", max_new_tokens=3, stop_id=2)
ENDS = {"max_new_tokens": 3, "stop_id": 2}


class Recorder:
    """Answers with the length of the prompt and the stop token, and keeps every request."""

    def __init__(self) -> None:
        self.asked: list[ActionRequest] = []

    def __call__(self, requests: Sequence[ActionRequest]) -> list[Generation]:
        self.asked += requests
        return [Generation((100 + len(request.prompt_ids), 2), (-0.5, -0.1), True) for request in requests]


def test_every_turn_sends_all_ids_so_far_in_the_order_they_were_said() -> None:
    sample = Recorder()
    conversations = StatelessConversations(sample, [(5, 6), (7,)], **ENDS)
    conversations.generate({0: (), 1: ()}, {0: 10, 1: 11})
    conversations.generate({1: (30, 31)}, {1: 12})
    assert [(request.prompt_ids, request.seed) for request in sample.asked] == [
        ((5, 6), 10),
        ((7,), 11),
        ((7, 101, 2, 30, 31), 12),
    ]


def test_two_batches_never_share_a_cache_and_a_batch_always_does() -> None:
    sample = Recorder()
    for _ in range(2):
        StatelessConversations(sample, [(5, 6), (7,)], **ENDS).generate({0: (), 1: ()}, {0: 1, 1: 2})
    salts = [request.salt for request in sample.asked]
    assert salts[0] == salts[1] != salts[2] == salts[3]


def test_a_turn_without_rows_asks_nothing() -> None:
    sample = Recorder()
    assert StatelessConversations(sample, [(5,)], **ENDS).generate({}, {}) == {}
    assert sample.asked == []


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 5))
def test_lanes_are_even_and_keep_equal_prompts_side_by_side(prompts: list[tuple[int, ...]], count: int) -> None:
    lanes = lanes_of(prompts, count)
    sizes = [lanes.count(lane) for lane in range(count)]
    assert sum(sizes) == len(prompts) and max(sizes) - min(sizes) <= 1
    split = sum(
        len({lane for lane, own in zip(lanes, prompts, strict=True) if own == prompt}) - 1 for prompt in set(prompts)
    )
    assert split <= count - 1, "only a boundary between two lanes cuts a group"


def test_lanes_depend_on_the_batch_alone() -> None:
    prompts = [(1,), (2,), (1,), (3,)]
    assert lanes_of(prompts, 2) == lanes_of(list(prompts), 2) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("ids", "logprobs"),
    [([], []), ([5], [-0.1, -0.1]), ([5, 6, 7, 8], [-0.1] * 4), ([5], [-0.1]), ([2, 5, 5], [-0.1] * 3), ([2], [None])]
    + [([2], [0.3]), ([2], [float("-inf")]), ([2], [float("nan")])],
)
def test_an_answer_that_no_policy_can_have_given_is_refused(ids: list[int], logprobs: list[float | None]) -> None:
    with pytest.raises(EngineError, match="the engine"):
        generation_of(ids, logprobs, REQUEST, "the engine")


def test_an_action_ends_at_its_stop_token_or_at_the_limit() -> None:
    assert generation_of([5, 2], [-0.5, 0.0], REQUEST, "it") == Generation((5, 2), (-0.5, 0.0), True)
    assert generation_of([5, 6, 7], [-1.0] * 3, REQUEST, "it") == Generation((5, 6, 7), (-1.0,) * 3, False)
