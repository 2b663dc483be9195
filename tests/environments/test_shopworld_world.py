"""The generated world: deterministic, solvable, split without leaks; its search, its lessons, its shoppers."""

import math
from collections import Counter

import numpy as np
import pytest

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import MECHANISMS, USEFUL, lesson_chunk, phrasings
from intraskill.environments.shopworld.plain.difficulty import play
from intraskill.environments.shopworld.search import FIELD_WEIGHTS, K1, B, SearchIndex, _fields, tokenize
from intraskill.method.errors import SplitError
from intraskill.method.tasks import SPLITS


@pytest.fixture(scope="module")
def tiny() -> ShopWorld:
    return ShopWorld("tiny", 3, language="plain")


@pytest.fixture(scope="module")
def small() -> ShopWorld:
    return ShopWorld("small", 0, language="plain")


def test_presets_have_their_sizes(tiny: ShopWorld, small: ShopWorld) -> None:
    assert (len(tiny.catalogue.products), sum(len(tiny.tasks(split)) for split in SPLITS)) == (120, 60)
    assert (len(small.catalogue.products), sum(len(small.tasks(split)) for split in SPLITS)) == (1440, 1200)


def test_a_world_is_a_function_of_preset_and_seed(tiny: ShopWorld) -> None:
    assert ShopWorld("tiny", 3, language="plain").version == tiny.version
    assert ShopWorld("tiny", 4, language="plain").version != tiny.version


def test_an_oracle_solves_every_task_within_eight_actions(tiny: ShopWorld, small: ShopWorld) -> None:
    for world in (tiny, small):
        assert all(world.solvable(task.id) for split in SPLITS for task in world.tasks(split))


def test_the_oracle_fails_a_task_that_cannot_be_bought_within_budget(tiny: ShopWorld) -> None:
    broken = ShopWorld("tiny", 3, language="plain")
    task_id = broken.tasks("train")[0].id
    object.__setattr__(broken.shop_task(task_id).goal, "budget", 0.5)
    assert not broken.solvable(task_id)
    assert tiny.solvable(task_id)


def test_no_product_request_or_user_crosses_two_splits(small: ShopWorld) -> None:
    for key in ("product", "user", "request", "instruction"):
        splits: dict[str, set[str]] = {}
        for split in SPLITS:
            for task in small.tasks(split):
                own = small.shop_task(task.id)
                value = own.goal.product_id if key == "product" else str(getattr(own, key))
                splits.setdefault(value, set()).add(split)
        shared = [value for value, found in splits.items() if len(found) > 1]
        assert not shared, (key, shared[:3])
    assert all(small.tasks(split) for split in SPLITS)


def test_only_short_personas_of_the_plain_language_stand_in_several_splits(small: ShopWorld) -> None:
    splits: dict[str, set[str]] = {}
    for split in SPLITS:
        for task in small.tasks(split):
            splits.setdefault(small.shop_task(task.id).persona or "", set()).add(split)
    shared = [persona for persona, where in splits.items() if len(where) > 1]
    assert (len(splits), len(shared)) == (1071, 45)  # as the documents say; plain splits are frozen
    assert max(persona.count(";") for persona in shared) == 2
    assert "Profile: wears adult; travels by train; likes onyx." in shared


def test_the_manifest_binds_splits_to_their_catalogue(tiny: ShopWorld) -> None:
    assert tiny.manifest == ShopWorld("tiny", 3, language="plain").manifest
    assert tiny.manifest["hash"] != ShopWorld("tiny", 4, language="plain").manifest["hash"]
    with pytest.raises(SplitError, match="unknown split"):
        tiny.tasks("validation")  # type: ignore[arg-type]


def test_the_short_request_leaves_the_soft_constraints_to_the_persona(small: ShopWorld) -> None:
    checked = 0
    for task in small.tasks("train"):
        own = small.shop_task(task.id)
        size = own.goal.options.get("size")
        if size is not None:
            checked += 1
            assert size in own.persona.split("wears ")[1] and size not in own.request.split()
            assert size in own.instruction
    assert checked > 100


def test_the_gold_product_is_found_by_the_full_instruction(small: ShopWorld) -> None:
    for task in small.tasks("train"):
        own = small.shop_task(task.id)
        assert own.goal.product_id in small.index.search(own.instruction, 150)


def test_search_equals_the_textbook_formula(tiny: ShopWorld) -> None:
    documents = {product.id: _fields(product) for product in tiny.catalogue.products}
    bags_of = {name: {key: Counter(tokenize(d[name])) for key, d in documents.items()} for name in FIELD_WEIGHTS}
    query = "waterproof wool jacket nova"

    def naive(product_id: str) -> float:
        total = 0.0
        for name, weight in FIELD_WEIGHTS.items():
            bags = bags_of[name]
            mean = max(1.0, np.mean([bag.total() for bag in bags.values()]))
            own = bags[product_id]
            for term in tokenize(query):
                seen = sum(term in bag for bag in bags.values())
                idf = math.log(1 + (len(bags) - seen + 0.5) / (seen + 0.5))
                norm = own[term] + K1 * (1 - B + B * own.total() / mean)
                total += weight * idf * own[term] * (K1 + 1) / norm
        return total

    scores = {product_id: round(naive(product_id), 9) for product_id in documents}
    expected = sorted((i for i in scores if scores[i] > 0), key=lambda i: (-scores[i], i))
    assert list(SearchIndex(tiny.catalogue).search(query, 20)) == expected[:20]
    assert tiny.index.search("qqq zzz", 20) == ()


def test_words_and_han_bigrams_are_tokens() -> None:
    assert tokenize("Nova-3 防水外套") == ["nova", "3", "防水", "水外", "外套"]


def test_each_useful_rule_helps_and_the_harmful_one_hurts(small: ShopWorld) -> None:
    ids = [task.id for task in small.tasks("train")][:300]

    def mean(rules: set[str]) -> float:
        return float(np.mean([play(small, task_id, rules)[1]["r_strict"] for task_id in ids]))

    everything = mean(set(USEFUL))
    assert everything > 0.5 and mean(set()) < 0.05
    for rule in USEFUL:
        assert everything - mean(set(USEFUL) - {rule}) > 0.1, rule
    assert everything - mean({*USEFUL, "open_last"}) > 0.1


def test_held_out_phrasings_are_never_training_phrasings() -> None:
    for mechanism in MECHANISMS:
        train, held_out = phrasings(mechanism)
        assert len(held_out) >= 2 and train
        assert not set(train) & set(held_out)
        assert lesson_chunk(mechanism).body in held_out
        assert lesson_chunk(mechanism, 1).id != lesson_chunk(mechanism).id
