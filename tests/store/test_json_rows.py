"""JSON given row by row: each under its name, what is wrong in order, and lines cut at line feeds only."""

import pytest

from intraskill.method.errors import ConfigError
from intraskill.store.json_rows import each_row, lines_of, object_of


def read(name, row):
    if row == 0:
        raise ConfigError("nought is not taken")
    return name, object_of(row)


def test_rows_and_what_is_wrong_come_in_order_and_blank_lines_are_passed_over():
    found, wrong = each_row('{"a": 1}\n\n{\n0\n[2]\n{"b": 2}', read)
    assert found == [("line 1", {"a": 1}), ("line 6", {"b": 2})]
    assert [reason.split(": ")[0] for reason in wrong] == ["line 3", "line 4", "line 5"]
    assert wrong[1:] == ["line 4: nought is not taken", "line 5: a JSON object is needed, got list"]


def test_the_rows_of_an_array_are_its_entries():
    assert each_row(' [{"a": 1}, 0,\n {}]', read) == (
        [("entry 1", {"a": 1}), ("entry 3", {})],
        ["entry 2: nought is not taken"],
    )
    found, (reason,) = each_row('[{"a": 1}', read)
    assert found == [] and reason.startswith("the JSON array: ")
    assert each_row("", read) == each_row("[]", read) == ([], [])


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b"])
def test_a_line_ends_at_a_line_feed_and_nowhere_else(mark):
    assert lines_of(f"a{mark}b\nc\n") == [f"a{mark}b", "c"]
    assert lines_of("") == []


def test_other_errors_of_a_reader_are_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        each_row("1", lambda name, row: 1 / 0)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"reward": NaN}', "NaN is no finite number"),
        ('{"reward": -1e400}', "-1e400 is no finite number"),
        ('{"text": "\\ud800"}', "a string holds half a surrogate pair"),
        ('{"a":' + "[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_no_record_can_hold_is_named_with_its_line(line, why):
    assert each_row(f'{{"text": "\\ud83d\\ude42"}}\n{line}', read)[1] == [f"line 2: {why}"]
    assert each_row(f"[{line}]", read) == ([], [f"the JSON array: {why}"])
