"""The scripts that measure Trace2Skill, on a few tasks: their rows, and whose rows they keep."""

import csv

import pytest
import trace2skill_adds as script
import trace2skill_stages as stages
from csv_rows import with_others, write_csv

SMALL = (
    "coldstart.tasks=24",
    "coldstart.max_drafts=8",
    "gate.tasks=12",
    "rollout.batch=12",
    "env.preset=tiny",
    "workers=1",
)


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr(script, "OUT", tmp_path / "adds.csv")
    monkeypatch.setattr(script, "REPEATS", 1)
    return tmp_path / "adds.csv"


def test_every_number_comes_with_its_interval_and_its_pairs_and_other_proposers_stay(out, tmp_path, monkeypatch):
    theirs = dict.fromkeys(script.COLUMNS, "x")
    write_csv(out, [theirs, theirs | {"analyst": "rules"}], script.COLUMNS)
    monkeypatch.setattr("sys.argv", ["adds", "--seeds", "1", "--work", str(tmp_path / "work"), *SMALL])
    script.main()
    other, *rows = rows_of(out)
    assert other == theirs and {row["analyst"] for row in rows} == {"rules"}
    chunks = [row for row in rows if row["what"].startswith("chunk: ")]
    assert chunks and {row["fate"] for row in chunks} <= {"active", "refused"}
    assert {row["pairs"] for row in rows if row["split"] == "skill_validation"} == {"12"}
    panels = [row["what"] for row in rows if row["split"] == "model_dev"]
    assert panels[0] == "whole draft - free" and (len(panels) == 2) == any(r["fate"] == "active" for r in chunks)
    assert all(float(row["low"]) <= float(row["mean"]) <= float(row["high"]) for row in rows)
    before = out.read_bytes()
    script.main()
    assert out.read_bytes() == before, "what was run is read again"


def test_a_skill_from_elsewhere_is_measured_under_the_name_of_its_proposer(out, tmp_path, monkeypatch):
    draft = tmp_path / "draft.md"
    draft.write_text("# Skill\n\n### Size\n\nPick the size.\n")
    words = ["--seeds", "1", "--draft", str(draft), "--analyst", "llm:m", *SMALL[1:]]
    monkeypatch.setattr("sys.argv", ["adds", *words])
    script.main()
    rows = rows_of(out)
    assert {row["analyst"] for row in rows} == {"llm:m"} and rows[0]["what"] == "chunk: Size"


def test_a_file_that_is_not_there_holds_nobody_elses_rows(tmp_path):
    rows = [{"analyst": "rules", "n": 1}]
    assert with_others(tmp_path / "none.csv", rows, "analyst") == rows


def test_the_stages_add_up_and_the_online_pass_shows_the_skill_that_is_given(tmp_path, monkeypatch):
    out, draft = tmp_path / "stages.csv", tmp_path / "draft.md"
    draft.write_text("# Skill\n\n### Size\n\nPick the size.\n")
    monkeypatch.setattr(stages, "OUT", out)
    other = dict.fromkeys(stages.COLUMNS, "x") | {"analyst": "rules", "settings": "gate.tasks=7"}
    write_csv(out, [other], stages.COLUMNS)
    words = ["--seeds", "1", "--tasks", "24", "--draft", str(draft), "--work", str(tmp_path), "env.preset=tiny"]
    monkeypatch.setattr("sys.argv", ["stages", *words])
    stages.main()
    kept, first, online = rows_of(out)
    assert kept == other and {first["settings"], online["settings"]} == {"env.preset=tiny"}
    assert (first["pass"], first["shown"], online["pass"]) == ("cold start", "", "online") and online["shown"]
    fallen = (*stages.STAGES[1:], *stages.LLM, *stages.LAST)
    for row in (first, online):
        assert int(row["mapped"]) == int(row["to_gate"]) + sum(int(row[name]) for name in fallen)
        assert row["shuffles_equal"] == "True"
    assert int(first["to_gate"]) > 0 and (tmp_path / "seed_0" / "skill_cold_start.md").exists()
