"""Law 3: a draw is a function of its address."""

import math

from hypothesis import given
from hypothesis import strategies as st

from intraskill.method.randomness import child_seed, shuffled, uniform

DRAWS = 4000


def test_a_draw_is_the_same_on_every_machine() -> None:
    assert uniform(0, "a") == 0.9042729651793281
    assert uniform(7, "a", 1) != uniform(7, "a", "1")
    assert uniform(7, "ab", "c") != uniform(7, "a", "bc")


def test_draws_are_uniform_and_seeds_fit_in_63_bits() -> None:
    draws = [uniform(1, "u", i) for i in range(DRAWS)]
    assert abs(sum(draws) / DRAWS - 0.5) < 4 / math.sqrt(12 * DRAWS)
    assert abs(sum(d * d for d in draws) / DRAWS - 1 / 3) < 4 * 0.3 / math.sqrt(DRAWS)
    assert all(0 <= child_seed(1, i) < 2**63 for i in range(100))


@given(st.lists(st.text(max_size=4), unique=True), st.integers(0, 9), st.data())
def test_dropping_an_item_leaves_the_order_of_the_others(items: list[str], seed: int, data: st.DataObject) -> None:
    order = shuffled(items, seed, "tasks")
    assert sorted(order) == sorted(items)
    if items:
        dropped = data.draw(st.sampled_from(items))
        assert shuffled([i for i in items if i != dropped], seed, "tasks") == [i for i in order if i != dropped]
