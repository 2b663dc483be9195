"""Placebo chunks: as long as real ones, the same on every machine, known by their text, and the empirical null."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_records import contributions, ids, skill

from intraskill.method.errors import ConfigError
from intraskill.method.gate.diagnostics.placebo import (
    CHINESE,
    ENGLISH,
    TITLES,
    empirical_null,
    length,
    placebo_chunks,
    with_placebos,
)
from intraskill.method.skill.skill import Chunk, Skill

TOLERANCE = 0.10


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=6), st.integers(0, 99))
def test_a_placebo_is_as_long_as_a_chunk(lengths: list[int], seed: int) -> None:
    current = Skill("", tuple(Chunk(f"C{i}", " ".join(["word"] * n)) for i, n in enumerate(lengths)))
    made = placebo_chunks(current, len(lengths), seed)
    found, wanted = sorted(length(c.body) for c in made), sorted(lengths)
    assert all(abs(a - b) <= TOLERANCE * b for a, b in zip(found, wanted, strict=True))
    assert not all(abs(a - 1.5 * b) <= TOLERANCE * b for a, b in zip(found, wanted, strict=True))
    assert len({c.id for c in made}) == len(made)


def test_a_chinese_chunk_gets_a_chinese_placebo_of_as_many_characters() -> None:
    body = "先看完整的请求，再比较每一个选项，最后才点击购买按钮。"
    (made,) = placebo_chunks(Skill("", (Chunk("规则", body),)), 1, 0)
    assert set(made.body.split("\n")) <= set(CHINESE)
    assert abs(length(made.body) - length(body)) <= TOLERANCE * length(body)


def test_placebos_are_a_function_of_the_skill_and_the_seed_and_end_the_pool() -> None:
    current = skill("abc")
    made = placebo_chunks(current, 4, 7)
    assert made == placebo_chunks(current, 4, 7) and made[:2] == placebo_chunks(current, 2, 7)
    assert made != placebo_chunks(current, 4, 8)
    assert with_placebos(current, made).chunks == (*current.chunks, *made)


def test_the_bank_has_a_sentence_of_every_short_length() -> None:
    for bank in (ENGLISH, CHINESE):
        assert {1, 2, 3, 4, 5, 6} <= {length(sentence) for sentence in bank}
        assert len(set(bank)) == len(bank)


def test_impossible_numbers_of_placebos_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"between 0 and {len(TITLES)}, got 99"):
        placebo_chunks(skill("a"), 99, 0)
    with pytest.raises(ConfigError, match="gives a placebo no length to take; use 0"):
        placebo_chunks(skill(""), 1, 0)
    assert placebo_chunks(skill(""), 0, 0) == ()


def test_the_empirical_null_summarises_the_placebos_alone() -> None:
    found = contributions(dict(zip(ids("abcd"), (0.5, 0.03, -0.01, 0.01), strict=True)))
    null = empirical_null(found, ids("bcd"))
    assert null is not None and (null.count, null.largest) == (3, 0.03)
    assert null.mean == pytest.approx(0.01) and null.expected == pytest.approx(0.01)
    assert null.spread == pytest.approx(math.sqrt(np.mean([0.03**2, 0.01**2, 0.01**2])))
    assert null.spread != pytest.approx(np.std([0.03, -0.01, 0.01]))
    assert empirical_null(found, ()) is None
