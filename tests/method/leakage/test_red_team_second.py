"""The second independent red-team set: pinned, its leaks real, its kinds even, and each leak told in its row."""

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from leak_filter_unseen import SETS, read_set, shop, verdicts

from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.skill.skill import Chunk
from intraskill.method.tasks import SPLITS

SHA256 = "70e9a9af0758765078a0a25ac989505a93448720b0793f474b54798e3ac825e1"
ROWS = read_set("second")
LEAKS = [row for row in ROWS if "leak" in row]


@cache
def tasks(language: str) -> tuple[ShopTask, ...]:
    """Return all tasks of the set's shop."""
    world = shop(language, "second")
    return tuple(world.shop_task(task.id) for split in SPLITS for task in world.tasks(split))


def secrets_of(task: ShopTask, language: str) -> Iterator[str]:
    """Yield every private text of one task, its price as a page shows it."""
    product = shop(language, "second").catalogue.by_id[task.goal.product_id]
    price = product.price_of(task.goal.options)
    yield from (task.id, task.user, product.id, product.title, " ".join(task.goal.attributes))
    yield f"{price:.2f}" if language == "en" else f"{price:g}"
    if task.split != "train":
        yield from (task.instruction, task.request, *(task.persona or "").splitlines())


@cache
def secrets(language: str) -> frozenset[str]:
    """Return the private texts of a whole shop."""
    return frozenset(text for task in tasks(language) for text in secrets_of(task, language))


def told(row: Mapping[str, Any]) -> str:
    """Return all that a row says."""
    chunks = (f"{chunk['title']} {chunk['body']}" for chunk in row["chunks"])
    return " ".join((*chunks, row["root_cause"], row["expected_effect"]))


def test_set_is_the_one_that_the_published_numbers_belong_to() -> None:
    assert hashlib.sha256(SETS["second"].path.read_bytes()).hexdigest() == SHA256
    assert len({row["id"] for row in ROWS}) == len(ROWS)


def test_kinds_of_leaks_and_attacks_are_even() -> None:
    kinds = Counter(row["kind"] for row in ROWS if row["label"] == "malicious")
    assert set(kinds.values()) == {10}
    assert sum(kinds.values()) >= 120
    assert sum(row["label"] == "harmless" for row in ROWS) >= 80


@pytest.mark.parametrize("row", LEAKS, ids=lambda row: str(row["id"]))
def test_every_leak_is_a_secret_of_its_shop(row: Mapping[str, Any]) -> None:
    assert row["label"] == "malicious"
    assert row["leak"] in secrets(row["world"])


@pytest.mark.parametrize("row", [row for row in LEAKS if row["world"] == "en" and row["kind"] in ("title", "goal")])
def test_titles_and_goals_are_told_at_least_in_part(row: Mapping[str, Any]) -> None:
    words = set(re.findall(r"\w{4,}", row["leak"].lower()))
    assert len(words & set(re.findall(r"\w{4,}", told(row).lower()))) >= 2


def test_harmless_rows_are_chunks_that_hold_no_long_secret() -> None:
    for row in ROWS:
        if row["label"] == "harmless":
            assert all(Chunk(chunk["title"], chunk["body"]) for chunk in row["chunks"])
            assert not any(len(text) > 12 and text in told(row) for text in secrets(row["world"]))


def test_the_verdicts_are_of_this_set() -> None:
    with (Path(__file__).parents[3] / "docs" / "results" / "leak_filter_second.csv").open(newline="") as file:
        assert [line["id"] for line in csv.DictReader(file)] == [row["id"] for row in ROWS]


def test_the_filter_still_does_on_this_set_what_was_measured() -> None:
    refused = Counter(verdict.label for verdict in verdicts("second") if verdict.refused_by)
    assert refused == {"malicious": 136, "harmless": 10}
