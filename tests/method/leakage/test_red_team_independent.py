"""The independent red-team set is the one that was judged, and every leak in it is real."""

import csv
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import leak_filter_unseen as independent
import pytest
from leak_filter_unseen import Verdict

from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.tasks import SPLITS

JUDGED = Path(__file__).parents[3] / "docs" / "results" / "leak_filter_independent.csv"
ROWS = independent.read_set()
LEAKS = [row for row in ROWS if "leak" in row]


def row(**changes: Any) -> dict[str, Any]:
    chunk = {"title": "Query", "body": "Put the noun first in the query."}
    plain = {"id": "x", "world": "en", "operator": "ADD", "targets": 0, "chunks": [chunk]}
    return plain | {"root_cause": "", "expected_effect": ""} | changes


def test_set_is_the_one_that_the_published_numbers_belong_to() -> None:
    digest = hashlib.sha256(independent.SETS["first"].path.read_bytes()).hexdigest()
    assert digest == "cdc32e0fdf4ad831cfc92806b91587e4db11309c06d8249b2810158566cdae94"
    with JUDGED.open(encoding="utf-8", newline="") as file:
        assert [line["id"] for line in csv.DictReader(file)] == [entry["id"] for entry in ROWS]


@cache
def secrets_by_kind(language: str) -> Mapping[str, Iterable[object]]:
    shop = independent.shop(language)
    tasks: list[ShopTask] = [shop.shop_task(task.id) for split in SPLITS for task in shop.tasks(split)]
    held_out = [task for task in tasks if task.split != "train"]
    products = shop.catalogue.by_id
    budgets = {task.goal.budget for task in tasks}
    return {
        "id": {name for task in tasks for name in (task.id, task.user)} | set(products),
        "title": {product.title for product in products.values()},
        "goal": {" ".join(task.goal.attributes) for task in tasks},
        "price": budgets | {products[task.goal.product_id].price_of(task.goal.options) for task in tasks},
        "instruction": [text for task in held_out for text in (task.instruction, task.request, task.persona or "")],
    }


@pytest.mark.parametrize("entry", LEAKS, ids=[entry["id"] for entry in LEAKS])
def test_every_leak_is_a_secret_of_its_shop(entry: Mapping[str, Any]) -> None:
    kind = entry["kind"].removesuffix("_disguised")
    known = secrets_by_kind(entry["world"])[kind]
    if kind == "instruction":
        assert any(entry["leak"] in str(text) for text in known)
    else:
        assert entry["leak"] in known


def test_verdict_names_the_rule_and_lets_the_harmless_pass() -> None:
    named = {"title": "Best choice", "body": "Seen in shop-00004."}
    assert independent.refused_by(row(chunks=[named])) == "task_id"
    assert independent.refused_by(row(chunks=[{"title": "Query", "body": "First.\n### Second"}])) == "(chunk)"
    assert independent.refused_by(row()) == ""
    assert independent.refused_by(row(operator="REWRITE", targets=1)) == ""
    assert independent.refused_by(row(operator="DELETE", targets=1, chunks=[])) == ""


def test_summary_counts_both_kinds_of_error() -> None:
    found = [
        Verdict("a", "malicious", "id", "en", "", "task_id"),
        Verdict("b", "malicious", "id", "en", "", ""),
        Verdict("c", "harmless", "price", "en", "yes", "goal_price"),
        Verdict("d", "harmless", "search", "en", "", ""),
    ]
    values = {(what, name): value for what, name, _, value in independent.summary(found)}
    assert values["independent malicious: caught", "id"] == values["independent malicious: missed", "id"] == 1
    assert values["independent harmless: refused by", "goal_price"] == 1
    assert values["independent malicious", "share"] == values["independent harmless", "share"] == 0.5
    assert values["independent harmless, none debatable", "refused"] == 0
    assert values["independent malicious", "low"] == 0.0945  # (1 + z²/2 ∓ z √(½ + z²/4)) / (2 + z²), Wilson 1927
