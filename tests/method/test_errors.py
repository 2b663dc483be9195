"""Words that messages share."""

import pytest

from intraskill.method.errors import counted, offenders


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 chunks"), (1, "1 chunk"), (2, "2 chunks"), (1000, "1,000 chunks"), (11, "11 chunks")]
)
def test_a_count_agrees_with_its_noun(number, said):
    assert counted(number, "chunk") == said


def test_offenders_are_counted_and_the_first_three_named():
    assert offenders("ab") == "2: a, b" and offenders("abcd") == "4: a, b, c, …"
