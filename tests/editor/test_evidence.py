"""Evidence: one interface for documents and experience, and every published limit."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intraskill.editor.evidence import (
    EvidenceLimits,
    Unit,
    arranged,
    batches,
    document_units,
    experience_unit,
    key_steps,
    spelt,
)
from intraskill.method.errors import ConfigError
from intraskill.method.rollouts import Rollout, Turn
from intraskill.method.skill.skill import BARE

LIMITS = EvidenceLimits()


def turn(number: int, feedback: str = "executed") -> Turn:
    return Turn("results", f"act {number}", "click", str(number), feedback)


def trajectory(turns: int, reward: float | None = 0.0, *, request: str = "A red kettle.") -> Rollout:
    return Rollout(
        task_id="t1",
        visible=BARE,
        checkpoint="c",
        sample=0,
        prompt_ids=(1,),
        token_ids=(),
        loss_mask=(),
        logprobs=(),
        reward=reward,
        parts={} if reward is None else {"r_att": reward},
        fault="broken" if reward is None else None,
        request=request,
        turns=tuple(turn(i) for i in range(turns)),
    )


def words(text: str) -> int:
    return len(text.split())


def units(number: int, text: str = "a b c") -> list[Unit]:
    return [Unit(f"u{i}", "document", text) for i in range(number)]


def test_the_defaults_are_the_published_limits():
    assert (LIMITS.batch, LIMITS.steps, LIMITS.characters, LIMITS.tokens) == (4, 8, 3000, 8192)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"steps": 0}, {"tokens": 0}, {"characters": 39}])
def test_a_limit_without_sense_is_refused(wrong):
    with pytest.raises(ConfigError, match="evidence"):
        EvidenceLimits(**wrong)


def test_a_document_becomes_its_paragraphs_in_order_and_a_heading_goes_with_its_text():
    text = "# Rules\n\nFirst rule.\nStill first.\n\n\nSecond rule.\r\n\r\n## Part\n\nThird.\n\n## Empty\n"
    found = document_units("manual", text, LIMITS, anchors=("q1",))
    assert [unit.text for unit in found] == [
        "# Rules\n\nFirst rule.\nStill first.",
        "Second rule.",
        "## Part\n\nThird.",
        "## Empty",
    ]
    assert [unit.id for unit in found] == ["manual#1", "manual#2", "manual#3", "manual#4"]
    assert {unit.anchors for unit in found} == {("q1",)}


def test_a_blank_line_in_a_code_block_ends_no_paragraph():
    assert len(document_units("m", "```\na\n\nb\n```\n\nafter", LIMITS)) == 2


@given(st.text("ab. \n", min_size=1, max_size=400))
def test_no_character_of_a_document_but_blanks_is_lost(text):
    limits = replace(LIMITS, characters=40)
    found = document_units("m", text, limits)
    assert all(len(unit.text) <= 40 for unit in found)
    assert "".join("".join(unit.text.split()) for unit in found) == "".join(text.split())


def test_a_trajectory_shows_at_most_eight_steps_and_counts_the_rest():
    unit = experience_unit(trajectory(20), LIMITS)
    assert unit is not None
    assert sum("->" in line for line in unit.text.split("\n")) == 8
    assert "(12 more steps)" in unit.text
    whole = experience_unit(trajectory(8), LIMITS)
    assert whole is not None
    assert "more steps" not in whole.text


def test_a_call_is_spelt_in_two_words_and_what_is_no_call_stays():
    call = Turn("home", '{"name": "search"}', "search", "red shoe", "executed")
    assert spelt(call).action == "search red shoe" and spelt(spelt(call)) == spelt(call)
    bare, words = Turn("home", "{}", "finish", "", "executed"), Turn("home", "I shop.", "", "", "no_call")
    assert spelt(bare).action == "finish" and spelt(words) is words


def test_key_steps_are_the_last_the_first_and_the_refused_ones():
    turns = [turn(i, "unavailable_action" if i in (4, 6) else "executed") for i in range(10)]
    assert key_steps(turns, 4) == [0, 4, 6, 9]
    assert key_steps(turns, 5) == [0, 1, 4, 6, 9]
    assert key_steps(turns, 1) == [9]
    assert key_steps([], 8) == []


@pytest.mark.parametrize("length", [100, 5_000, 50_000])
def test_a_trajectory_has_at_most_three_thousand_characters_and_keeps_its_reward(length):
    unit = experience_unit(trajectory(8, request="x" * length), LIMITS)
    assert unit is not None
    assert len(unit.text) <= LIMITS.characters
    assert "Reward: 0 (r_att 0)" in unit.text
    assert ("[…]" in unit.text) == (length > 2_900)


def test_only_trajectories_short_of_full_reward_are_anchors():
    failed, partly, solved = (experience_unit(trajectory(2, reward), LIMITS) for reward in (0.0, 0.5, 1.0))
    assert failed is not None and partly is not None and solved is not None
    assert (failed.anchors, partly.anchors, solved.anchors) == (("t1",), ("t1",), ())


def test_a_trajectory_that_broke_is_no_evidence():
    assert experience_unit(trajectory(2, None), LIMITS) is None


def test_a_batch_holds_at_most_four_units():
    assert [len(batch) for batch in batches(units(10), LIMITS, words)] == [4, 4, 2]


def test_a_batch_closes_where_the_room_ends_and_the_rest_comes_next():
    packed = batches(units(5), LIMITS, words, room=7)
    assert [[unit.id for unit in batch] for batch in packed] == [["u0", "u1"], ["u2", "u3"], ["u4"]]


def test_a_unit_longer_than_the_room_is_cut_and_marked_and_stands_alone():
    long = Unit("long", "document", "w " * 50, ("q",))
    packed = batches([*units(1), long, *units(1)], LIMITS, words, room=10)
    assert [len(batch) for batch in packed] == [1, 1, 1]
    cut = packed[1][0]
    assert cut.text.endswith(" […]")
    assert words(cut.text) <= 10 < words(long.text)
    assert cut.anchors == ("q",)


def test_no_room_at_all_is_an_error():
    with pytest.raises(ConfigError, match="shorten the skill"):
        batches(units(1), LIMITS, words, room=0)


def test_the_three_orders():
    given_units = units(6)
    assert arranged(given_units, "source", 0) == tuple(given_units)
    assert arranged(given_units, "reverse", 0) == tuple(reversed(given_units))
    mixed = arranged(given_units, "shuffled", 0)
    assert sorted(unit.id for unit in mixed) == [unit.id for unit in given_units]
    assert mixed == arranged(given_units, "shuffled", 0) != arranged(given_units, "shuffled", 1)
    with pytest.raises(ConfigError, match="source, shuffled or reverse"):
        arranged(given_units, "random", 0)
