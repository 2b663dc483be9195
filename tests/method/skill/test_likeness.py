"""Two texts are alike when only their wording differs, in English and in Chinese."""

import itertools

import pytest

from intraskill.environments.shopworld.lessons import MECHANISMS, lesson_chunk, phrasings
from intraskill.method.skill.likeness import alike, terms_of

LONG = "Applies when: a size is asked for.\nProcedure: open the product page, press the size of the request, then buy."
SAME = [
    ("Search with all requested features.", "SEARCH, with all the requested feature!"),
    ("Open the page, then compare the price.", "Compare the price; then please open the page."),
    ("Try at most three searches per task.", "Try at most 3 searches per task."),
    ("Spend up to 1,000 on it.", "Spend up to 1000.0 on it."),
    ("Don't buy before the size is set.", "Do not buy before the size is set."),
    (LONG, LONG.replace("open the product page", "open its product page").replace("asked for", "asked")),
    ("先打开商品页，再选择请求的颜色和尺码，然后购买。", "请先打开商品页再选择请求的颜色和尺码然后就购买"),
    ("１２ tries at most.", "12 tries at most."),
    ("Search the café page ٣ times.", "SE\u200bARCH the cafe\u0301 page 3 times."),
    ("Open the s\u0456ze chart.", "Open the size chart."),  # a Cyrillic letter
    ("1. Open the page.\n2. Compare the price.", "Open the page.\nCompare the price."),
    ("", " "),
]
OTHER = [
    ("Open the first result.", "Open the last result."),
    ("Take the top line of the page.", "Take the bottom line of the page."),
    ("Buy before the size is set.", "Never buy before the size is set."),
    (LONG, LONG.replace("press the size", "never press the size")),
    (LONG.replace("then buy", "then buy 2"), LONG.replace("then buy", "then buy 3")),
    ("Select the color named in the request before buying.", "Select the size named in the profile before buying."),
    ("Try at most three searches per task.", "Try at least three searches per task."),
    ("先打开商品页，再选择请求的颜色和尺码，然后购买。", "不要先打开商品页，再选择请求的颜色和尺码，然后购买。"),
    ("选择请求的颜色。", "选择档案里的尺码。"),
    ("最多搜索三次。", "最多搜索五次。"),
    ("Search with the brand.", ""),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_texts_that_differ_in_wording_only_are_alike(one: str, other: str) -> None:
    assert alike(terms_of([one]), terms_of([other]))
    assert alike(terms_of([other]), terms_of([one]))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_texts_that_say_something_else_are_not(one: str, other: str) -> None:
    assert not alike(terms_of([one]), terms_of([other]))


def test_no_two_lessons_of_the_catalogue_are_taken_for_one_another() -> None:
    lessons = [(rule, lesson_chunk(rule, i)) for rule in MECHANISMS for i in range(len(phrasings(rule)[1]))]
    found = {
        one == other
        for (one, first), (other, second) in itertools.combinations(lessons, 2)
        if alike(terms_of([first.body]), terms_of([second.body]))
    }
    assert found == {True}, "phrasings of one lesson may be alike, lessons may not"
