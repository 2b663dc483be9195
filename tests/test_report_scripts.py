"""Report scripts choose no row by its outcome."""

import csv
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import report_text  # noqa: E402


def number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def published(name: str) -> list[dict[str, Any]]:
    with (ROOT / "docs" / "results" / f"quickstart_{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = [{key: number(value) for key, value in row.items()} for row in csv.DictReader(file)]
    return [row | {key: int(row[key]) for key in ("seed", "round") if key in row} for row in rows]


def mirrored(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Turn every outcome round: what helped hurts."""
    turned = []
    for row in rows:
        new = {key: -value if key in ("beta", "mean", "low", "high") else value for key, value in row.items()}
        if "low" in row:
            new["low"], new["high"] = -row["high"], -row["low"]
        turned.append(new)
    return turned


def first_cells(text: str, count: int) -> list[tuple[str, ...]]:
    return [tuple(line.split(" | ")[:count]) for line in text.splitlines() if line.startswith("| ")]


def test_the_table_of_changes_has_the_same_rows_whatever_came_out() -> None:
    rows = published("chunks")
    as_it_was, turned = (first_cells(report_text.changes_section(some), 4) for some in (rows, mirrored(rows)))
    assert as_it_was == turned
    measured = {}
    for row in rows:
        if row["condition"] == "method":
            measured.setdefault((row["seed"], row["id"]), []).append(row)
    assert len(as_it_was) - 2 == sum(len(own) > 1 for own in measured.values())  # head and rule beside the rows


def test_lessons_and_controls_are_pooled_over_all_of_them() -> None:
    text = report_text.changes_section(published("chunks"))
    counts = {kind: int(count) for kind, count in re.findall(r"- (lesson|no lesson), (\d+) chunks", text)}
    assert counts == {
        kind: sum(row["kind"] == kind for row in report_text.changes(published("chunks"))) for kind in counts
    }
    assert "lesson" in counts


def test_every_comparison_has_an_estimate_across_seeds_whatever_came_out() -> None:
    rows = published("final")
    as_it_was, turned = (first_cells(report_text.across_section(some), 2) for some in (rows, mirrored(rows)))
    assert as_it_was == turned and len(as_it_was) > 4
    assert report_text.across([0.1, 0.3]) == "+0.200 [-1.071, +1.471] (t over 2)"
    assert report_text.across([0.1]) == "+0.100 (one: no interval)"


def test_a_verdict_that_an_interval_does_not_carry_is_called_a_coin_flip() -> None:
    row = {"condition": "method", "seed": 0, "round": 0, "title": "Manners", "se": 0.035, "status": "refused"}
    told = report_text.first_gate({"chunks": [row | {"beta": -0.006, "low": -0.076, "high": 0.064}]}, 0, "Manners")
    assert told == "β -0.006 ± 0.035, refused, a coin flip: its interval holds 0"
    told = report_text.first_gate({"chunks": [row | {"beta": -0.1, "low": -0.17, "high": -0.03}]}, 0, "Manners")
    assert "coin" not in told


@pytest.mark.parametrize("path", sorted((ROOT / "scripts").glob("*report*.py")), ids=lambda path: path.name)
def test_no_report_filters_rows_by_a_measured_sign(path: Path) -> None:
    """A comparison of an outcome with 0 in a comprehension's or loop's condition chooses rows by it."""
    source = path.read_text(encoding="utf-8")
    chosen = re.findall(r"\bif\b[^\n]*\b(?:change|beta|mean|gain)\b[^\n]*[<>]=? ?-?0(?:\.0)?\b[^\n]*", source)
    assert chosen == []
