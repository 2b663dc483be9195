"""The prompts are files in two languages with the same names, placeholders and keys."""

import dataclasses
import re

import pytest

from intraskill.environments.planted import PlantedWorld
from intraskill.environments.shopworld import ShopWorld
from intraskill.method.errors import ConfigError
from intraskill.proposers.schema import LANGUAGES, NAMES, load_prompts, prompt_language


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_placeholders_and_keys(name):
    english, chinese = (load_prompts(language).texts[name] for language in LANGUAGES)
    for pattern in (r"\$\w+", r'"\w+":'):
        assert sorted(re.findall(pattern, english)) == sorted(re.findall(pattern, chinese))
    assert english != chinese and re.search(r"[\u4e00-\u9fff]", chinese) and not re.search(r"[\u4e00-\u9fff]", english)


def test_the_hash_changes_with_one_letter_of_one_prompt():
    prompts = load_prompts("en")
    changed = dataclasses.replace(prompts, texts={**prompts.texts, "reduce": prompts.texts["reduce"] + "!"})
    assert prompts.hash == load_prompts("en").hash != changed.hash
    assert prompts.hash != load_prompts("zh").hash


def test_values_are_filled_in_as_they_are():
    text = load_prompts("en").fill("trial_page", feedback="executed", left=3, page="$reduce costs $5")
    assert "$reduce costs $5" in text and "Decisions left: 3" in text
    with pytest.raises(KeyError, match="page"):
        load_prompts("en").fill("trial_page", feedback="executed", left=3)


def test_the_environment_chooses_the_language_unless_the_knob_does():
    shop = ShopWorld("tiny", language="zh")
    assert [prompt_language(shop), prompt_language(PlantedWorld()), prompt_language(shop, "en")] == ["zh", "en", "en"]
    with pytest.raises(ConfigError, match="no prompts in 'fr'"):
        load_prompts("fr")
