"""`min_rules`: train tasks that need several of the useful rules at once."""

from itertools import combinations

import pytest

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import USEFUL
from intraskill.environments.shopworld.plain.difficulty import RULES_NEEDED, play
from intraskill.method.errors import ConfigError
from intraskill.method.tasks import SPLITS


def world(min_rules: int, preset: str = "small") -> ShopWorld:
    return ShopWorld(preset, 0, language="plain", page_size=4, min_rules=min_rules)


def test_the_small_world_has_103_train_tasks_that_need_three_rules_or_more():
    assert [len(world(n).tasks("train")) for n in range(5)] == [600, 357, 271, 103, 10]


def test_every_kept_task_is_won_by_its_number_of_rules_and_by_no_fewer():
    hard = world(4)
    for task in hard.tasks("train"):
        assert play(hard, task.id, set(USEFUL))[1]["r_success"] == 1.0
        for rules in combinations(USEFUL, 3):
            assert play(hard, task.id, set(rules))[1]["r_success"] < 1.0


def test_only_train_tasks_are_left_out_and_every_task_says_what_it_needs():
    easy, hard = world(0), world(3)
    assert [task.id for task in hard.tasks("train")] == [
        task.id for task in easy.tasks("train") if task.features[RULES_NEEDED] in ("3", "4")
    ]
    for split in SPLITS:
        if split != "train":
            assert hard.tasks(split) == easy.tasks(split)
    assert hard.version != easy.version


def test_a_number_that_no_train_task_needs_names_the_numbers_there_are():
    with pytest.raises(ConfigError, match=r"min_rules=5 leaves no train task .*4 rules: 10\); choose from 0 to 4"):
        world(5)
    with pytest.raises(ConfigError, match="min_rules=-1"):
        world(-1)


def test_other_languages_have_no_shopper_that_obeys_single_rules():
    with pytest.raises(ConfigError, match="language=plain"):
        ShopWorld("tiny", 0, language="en", min_rules=2)
