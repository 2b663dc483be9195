"""scripts/editor_experiments.py: a miniature of the grid runs once, and the summary finds what stands in its rows."""

import csv
import random
from pathlib import Path

import editor_conditions
import editor_experiments
import editor_summary
import pytest

from intraskill.method.errors import ArtifactError

MINIATURE = (
    "editor.options.worlds=3", "editor.options.held_out=2", "editor.options.units=3", "editor.options.probes=2",
    "grpo.groups_per_step=2", "grpo.group_size=2",
)  # fmt: skip


def experiment(place: Path, *words: str, steps: int = 2) -> int:
    where = ["--runs", str(place / "runs"), "--docs", str(place), "--worlds", "2", "--seeds", "0"]
    return editor_experiments.main([*MINIATURE, *where, "--steps", str(steps), *words])


def table(place: Path, name: str) -> list[dict[str, str]]:
    with (place / "results" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_miniature_is_run_once_and_written_with_no_word_about_a_single_seed(tmp_path, monkeypatch, capsys):
    assert experiment(tmp_path, "--only", "sft", "full", "oracle") == 0
    rows = table(tmp_path, "editor_planted")
    assert [(row["condition"], row["world"]) for row in rows] == [
        (name, world) for name in ("sft", "oracle", "full") for world in ("world-3", "world-4")
    ]
    assert all(int(row["edits"]) == 3 == sum(int(row[name]) for name in editor_summary.ANSWERS) for row in rows)
    by_name = {row["condition"]: row for row in rows}
    assert [by_name[name]["answers"] for name in ("sft", "full")] == ["0", "8"]
    assert int(by_name["full"]["worker_calls"]) > 0
    assert float(by_name["oracle"]["value"]) >= float(by_name["sft"]["value"])
    text = (tmp_path / "research" / "editor_results.md").read_text()
    assert "One seed shows nothing" in text and "exclude 0" not in text.split("## planted")[1]

    monkeypatch.setattr(editor_experiments, "run_one", lambda *job: pytest.fail(f"{job} is run again"))
    capsys.readouterr()
    assert experiment(tmp_path, "--only", "sft", "full", "oracle") == 0
    assert (tmp_path / "research" / "editor_results.md").read_text() == text
    assert experiment(tmp_path, "--only", "full", "plain", "--write-only") == 0
    assert "Not finished: plain 0" in capsys.readouterr().out
    assert table(tmp_path, "editor_planted") == rows
    assert experiment(tmp_path, "--only", "sft", steps=3) == 1
    assert "other steps" in capsys.readouterr().err


def test_a_condition_that_nobody_knows_is_named(tmp_path, capsys):
    assert experiment(tmp_path, "--only", "ful") == 1
    assert "'ful'" in capsys.readouterr().err


def test_every_condition_is_one_override_and_an_editor_that_reads_otherwise_has_a_twin():
    found = {one.name: one for one in editor_conditions.conditions("planted", 1)}
    assert "evidence_1" not in found and found["evidence_4"].twin == "sft_evidence_4"
    assert found["sft_evidence_4"].overrides == found["evidence_4"].overrides == ("editor.batch=4",)
    assert found["binary"].twin == found["anchors_1"].twin == found["full"].twin == "sft"
    assert "evidence_1" in {one.name for one in editor_conditions.conditions("planted", 4)}
    grid = editor_conditions.Grid(Path("runs"), ("+exp=editor_tiny", *editor_conditions.FULL), 2)
    full = editor_conditions.plan_of(grid.config())
    for one in (one for one in found.values() if one.kind == "trained"):
        changed = editor_conditions.plan_of(grid.config(*one.overrides))
        options = {".".join(word.split("=")[0].split(".")[:2]) for word in one.overrides}
        assert {key for key in full if changed[key] != full[key]} == options


def planted_rows(effects, *, worlds=30, seeds=3, noise=0.02):
    """Rows in which a condition adds its effect to every world, and its own draw to every seed."""
    draw = random.Random(0)
    level = {world: draw.uniform(0.3, 0.6) for world in range(worlds)}
    return [
        {
            "condition": name, "seed": seed, "world": f"world-{world}", "value": level[world] + shift + by_seed[seed],
            "score": None, "sampled": level[world] - 0.1, "tokens": 10, "chunks": 2, "edits": 4, "steps": 5,
            "answers": 50, "worker_calls": 7,
            **dict.fromkeys(editor_summary.ANSWERS, 0), "noop": 3, "invalid": 1,
        }
        for name, (shift, spread) in effects.items()
        for by_seed in [[draw.gauss(0, noise) + spread * (seed - 1) for seed in range(seeds)]]
        for seed in range(seeds)
        for world in range(worlds)
    ]  # fmt: skip


@pytest.fixture
def rows():
    broken = planted_rows({"full": (0.0, 0.0), "plain": (-0.3, 0.0), "no_noop": (-0.1, 0.3), "binary": (0.0, 0.0)})
    return [row for row in broken if (row["condition"], row["world"]) != ("plain", "world-7")]


def test_differences_are_paired_by_world_and_a_doubtful_seed_is_seen(rows):
    summary = editor_summary.summarise(rows, editor_conditions.conditions("planted", 1))
    by_name = {row["condition"]: row for row in summary if row["measure"] == "value"}
    assert by_name.keys() == {"full", "plain", "no_noop", "binary"}
    plain, no_noop = by_name["plain"], by_name["no_noop"]
    assert (plain["seeds"], plain["worlds"], plain["n"]) == (3, 29, 87)
    assert plain["over_full_high"] < 0 and plain["over_full_seeds_high"] < 0
    assert plain["over_full"] == pytest.approx(-0.3, abs=0.05)
    assert no_noop["over_full_seeds_low"] < 0 < no_noop["over_full_seeds_high"]
    assert (plain["share_noop"], plain["share_invalid"]) == (0.75, 0.25)
    sampled = next(r for r in summary if r["measure"] == "sampled" and r["condition"] == "plain")
    assert (sampled["worlds"], sampled["over_full"]) == (29, 0.0)
    told = editor_summary.findings(summary, "value")
    assert any("plain − full" in line and line.endswith("over worlds and over seeds") for line in told)
    assert any("no_noop − full" in line and line.endswith("over worlds only") for line in told)
    assert editor_summary.cell(plain, "full").startswith("**") and not editor_summary.cell(no_noop, "full").startswith(
        "**"
    )


def test_worlds_are_the_clusters_however_many_seeds_there_are():
    few, many = (
        editor_summary.difference(*(editor_summary.panel(rows_of(name, seeds), "value") for name in ("full", "plain")))
        for seeds in (1, 8)
    )
    assert few is not None and many is not None
    assert few[1] is None and many[1] is not None
    assert many[0].n == few[0].n == 30
    assert many[0].se == pytest.approx(few[0].se, rel=1e-9)


def rows_of(name, seeds):
    """Every seed repeats the same worlds, so more of them carry no more knowledge about worlds."""
    draw = random.Random(name)
    level = [draw.uniform(0.3, 0.6) for _ in range(30)]
    return [{"world": f"world-{w}", "seed": s, "value": level[w]} for s in range(seeds) for w in range(30)]


def test_rows_of_another_grid_are_refused(tmp_path):
    grid = editor_conditions.Grid(tmp_path, (), 2)
    (one, *_) = editor_conditions.LINES
    grid.root(one, 0).mkdir()
    editor_conditions.write_json(grid.rows_file(one, 0), {"grid": "a", "rows": []})
    assert editor_conditions.finished_rows(grid, one, 0, "a") == []
    with pytest.raises(ArtifactError, match="other steps"):
        editor_conditions.finished_rows(grid, one, 0, "b")


@pytest.mark.parametrize("words", [("--worlds", "0"), ("--worlds", "-1"), ("--jobs", "0")])
def test_a_number_that_cannot_be_is_refused_and_not_replaced(tmp_path, capsys, words):
    with pytest.raises(SystemExit, match="2"):
        experiment(tmp_path, *words)
    assert "must be 1 or more" in capsys.readouterr().err


def test_another_domain_needs_weights_that_know_its_words(tmp_path, capsys):
    where = ["--domain", "shop", "--runs", str(tmp_path / "runs"), "--docs", str(tmp_path)]
    assert editor_experiments.main(where) == 1
    assert "knows no word of --domain shop" in capsys.readouterr().err and not list(tmp_path.iterdir())
