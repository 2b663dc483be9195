"""Workbook tasks: programs of an LLM run on every test workbook, cells are compared, attempts become evidence."""

import io
import json
import zipfile
from datetime import date, datetime, time

import pytest
from chat_server import answering
from editor.answering import configured, scored, worth_of
from editor.samples.ledger_books import IDS, book, write_tasks

from intraskill.editor.domain import Answer
from intraskill.editor.domains.workbooks import CellVerifier, cells_of, preview, read_ranges, same, workbooks
from intraskill.editor.trials import Trials
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.store.run_directory import read_jsonl, write_jsonl

HEAD = "from openpyxl import load_workbook\nbook = load_workbook(INPUT)\nsheet = book.active\n"
RIGHT = HEAD + "sheet['B5'] = sum(row[1].value for row in sheet.iter_rows(min_row=2, max_row=4))\nbook.save(OUTPUT)\n"
FIXED = HEAD + "sheet['B5'] = 3.75\nbook.save(OUTPUT)\n"  # right on the first workbook of the first task only
SKILL = Skill("", (Chunk("Sum", "Read the rows."),))
LEARN = "CREATE\n### Sum\n\nRead the rows of the workbook and add them up."


def reply(messages):
    """A worker that adds up when its skill says so, and else writes one number."""
    return f"Here:\n```python\n{RIGHT if '# Skill' in messages[0]['content'] else FIXED}```"


def bench_of(asked, root, path=None, **more):
    root.mkdir(exist_ok=True)
    path = path or write_tasks(root / "data")
    options = {"path": str(path), "worker": asked.endpoint(), "execute": True, "per_stream": 2, "held_out": 0.5}
    return workbooks(configured(**options | more), root)


def test_attempts_without_a_skill_become_evidence_and_are_made_once(tmp_path):
    with answering(reply) as asked:
        domain = bench_of(asked, tmp_path).domain
        (stream,) = domain.streams("train")
        paid = len(asked.bodies)
        (unit,) = stream.units
        assert unit.source == "experience" and unit.anchors == (unit.id,) and stream.probes[0] != unit.id
        assert "1 of 1 cells are wrong, the first is Ledger!B5" in unit.text and "Reward: 0" in unit.text
        assert paid == 2, "one attempt per task that is evidence, none at a probe"
        assert bench_of(asked, tmp_path, tmp_path / "data" / "dataset.json").domain.streams("train") == (stream,)
        assert len(asked.bodies) == paid


@pytest.mark.parametrize("change", ["model", "grading", "seed", "tasks", "version"])
def test_attempts_of_another_worker_verifier_seed_or_at_other_tasks_are_refused_until_they_are_deleted(
    tmp_path, change
):
    with answering(reply) as asked:
        bench_of(asked, tmp_path).domain.streams("train")
        path = tmp_path / "data" / "dataset.json"
        more = {"model": {"worker": asked.endpoint(model="n")}, "grading": {"grading": "share"}, "seed": {"seed": 1}}
        if change == "tasks":
            path.write_text(path.read_text().replace("Write the sum", "Put the sum"))
        if change == "version":  # rows said nothing of what made them
            kept = [{k: v for k, v in row.items() if k != "by"} for row in read_jsonl(tmp_path / "attempts.jsonl")]
            write_jsonl(tmp_path / "attempts.jsonl", kept)
        domain = bench_of(asked, tmp_path, path, **more.get(change, {})).domain
        paid = len(asked.bodies)
        message = r"attempts\.jsonl holds 2 attempts of another worker, .*, at other tasks, or of an earlier version;"
        with pytest.raises(ArtifactError, match=message):
            domain.streams("train")
        assert len(asked.bodies) == paid
        (tmp_path / "attempts.jsonl").unlink()
        assert len(domain.streams("train")) == 1


def test_attempts_that_were_kept_can_be_given_as_trajectories(tmp_path):
    with answering(reply) as asked:
        made = bench_of(asked, tmp_path).domain.streams("train")
        kept = tmp_path / "attempts.jsonl"
        path = tmp_path / "data" / "dataset.json"
        again = bench_of(asked, tmp_path / "other", path, trajectories=str(kept)).domain.streams("train")
        assert made == again and len(asked.bodies) == 2


def test_recorded_attempts_are_used_in_their_place(tmp_path):
    turn = {"page": "code", "action": "wrote a formula", "feedback": "cell B5 is empty"}
    rows = [{"task_id": name, "request": "r", "reward": 0.0, "turns": [turn]} for name in IDS]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with answering(reply) as asked:
        (stream,) = bench_of(asked, tmp_path, trajectories=str(path)).domain.streams("train")
        assert "wrote a formula -> cell B5 is empty" in stream.units[0].text and asked.bodies == []
        path.write_text(json.dumps(rows[0] | {"task_id": "stranger"}))
        with pytest.raises(ArtifactError, match="holds no attempt at any of the tasks"):
            bench_of(asked, tmp_path / "b", trajectories=str(path)).domain.streams("train")


def test_an_edit_that_makes_programs_right_is_rewarded_and_a_skill_is_worth_its_probes(tmp_path):
    with answering(reply) as asked:
        bench = bench_of(asked, tmp_path)
        trials = Trials(bench.worker, bench.verifier, tmp_path / "trials.jsonl")
        found = scored(bench, trials, [LEARN, "NOOP"])
        assert [one.reward for one in found.rollouts] == [1.0, 0.0] and found.edited[0] == (1.0,)
        (worth,) = worth_of(bench, trials, SKILL)
        assert (worth.before, worth.after) == (0.0, 1.0) and trials.faults == []
        shown = asked.texts("user")[-1]
        assert "Sheet 'Ledger', used range A1:B4:" in shown and "item | price" in shown and "'Ledger'!B5" in shown


def test_hard_score_needs_every_workbook_and_share_counts_them(tmp_path):
    with answering(reply) as asked:
        query = bench_of(asked, tmp_path).domain.query("total-1")
        wanted, wrong = {"Ledger!B5": 3.75}, {"Ledger!B5": 3.76}
        assert CellVerifier().score(query, Answer(facts={"cells": [wanted, {"Ledger!B5": 6.75}]})) == 1.0
        for cells in ([wanted, wrong], [wanted, None], [wanted, {}]):
            assert CellVerifier().score(query, Answer(facts={"cells": cells})) == 0.0
            assert CellVerifier(grading="share").score(query, Answer(facts={"cells": cells})) == 0.5
        assert CellVerifier(decimals=1).score(query, Answer(facts={"cells": [wrong, {"Ledger!B5": 6.75}]})) == 1.0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("1/0", "ZeroDivisionError: division by zero"),
        ("pass", "it did not write output.xlsx"),
        ("open(OUTPUT, 'w').write('x')", "what it wrote is no workbook"),
        (
            HEAD + "sheet.title = 'Other'\nbook.save(OUTPUT)",
            "has no sheet 'Ledger'; its sheets are Other",
        ),
        (HEAD + "sheet['B5'] = '=SUM(B2:B4)'\nbook.save(OUTPUT)", "1 of 1 cells are wrong"),
        ("while True: pass", "longer than 1 seconds"),
    ],
)
def test_a_program_that_fails_is_a_wrong_answer_and_says_why(tmp_path, code, words):
    with answering(lambda messages: f"```python\n{code}\n```") as asked:
        bench = bench_of(asked, tmp_path, seconds=1 if "longer" in words else 20)
        (stream,) = bench.domain.streams("train")
        assert words in stream.units[0].text and "Reward: 0" in stream.units[0].text


def test_an_answer_workbook_without_the_range_is_a_fault_and_never_a_score(tmp_path):
    with answering(reply) as asked:
        path = write_tasks(tmp_path / "data")
        path.write_text(path.read_text().replace("'Ledger'!B5", "'Totals'!B5"))
        bench = bench_of(asked, tmp_path, path)
        with pytest.raises(ArtifactError, match=r"_answer.xlsx has no sheet 'Totals'; its sheets are Ledger"):
            bench.domain.streams("train")
        assert not (tmp_path / "attempts.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answer_position": "Ledger"}, "is no range such as Sheet1!A1:B5"),
        ({"answer_position": "B5:A1"}, "the wrong way round"),
        ({"answer_position": ""}, "answer_position is missing"),
        ({"spreadsheet_path": "absent"}, "absent does not exist"),
        ({"id": "total-9"}, "holds no 1_total-9_input.xlsx"),
        ({"id": "total-2"}, "holds no 1_total-2_input.xlsx"),
    ],
)
def test_tasks_that_cannot_be_used_are_named(tmp_path, change, words):
    path = write_tasks(tmp_path / "data")
    rows = json.loads(path.read_text())
    path.write_text("\n".join(json.dumps(row) for row in [rows[0] | change, *rows[1:]]))
    with answering(reply) as asked, pytest.raises(ArtifactError) as error:
        bench_of(asked, tmp_path, path)
    assert words in str(error.value) and "line 1: " in str(error.value)


def test_an_answer_workbook_that_is_missing_is_named(tmp_path):
    path = write_tasks(tmp_path / "data")
    (tmp_path / "data/spreadsheet/total-3/2_total-3_answer.xlsx").unlink()
    with answering(reply) as asked, pytest.raises(ArtifactError, match=r"entry 3: .*2_total-3_answer.xlsx does not"):
        bench_of(asked, tmp_path, path)


def test_nothing_runs_unless_execution_is_switched_on(tmp_path):
    with answering(reply) as asked:
        with pytest.raises(ConfigError, match=r"in no sandbox; .* editor\.options\.execute=true"):
            bench_of(asked, tmp_path, execute=False)
        with pytest.raises(ConfigError, match=r"exceute is no option, did you mean 'execute'\?"):
            bench_of(asked, tmp_path / "b", exceute=True)
        with pytest.raises(ConfigError, match="memory_mb=1 is too low"):
            bench_of(asked, tmp_path / "c", memory_mb=1)


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        (1, 1.004, True), (1, 1.02, False), (None, "", True), (None, 0, False), ("a", "A", False), ("1.5", 1.5, True),
        ("x", 1, False), (datetime(2024, 5, 1), 45413, True), (datetime(2024, 5, 1, 9), date(2024, 5, 1), True),
        (datetime(2024, 5, 1), "2024-05-01", False), (time(9, 30, 5), time(9, 30), True), (time(9, 30), 9.5, False),
        (True, 1, True), ("nan", "nan", True), (0.0, -0.0, True),
    ],
)  # fmt: skip
def test_cells_are_equal_as_the_public_benchmark_has_it(first, second, equal):
    assert same(first, second, 2) is equal and same(second, first, 2) is equal


def test_ranges_are_read_in_every_public_form(tmp_path):
    one, two = read_ranges("'My, sheet''s'!$A$1:b2,Other!C3")
    assert (one.sheet, one.bounds, two.sheet, two.bounds) == ("My, sheet's", "A1:B2", "Other", "C3:C3")
    assert read_ranges("A1")[0].sheet == ""
    book(tmp_path / "a.xlsx", [[1, 2], [3, None]])
    content = (tmp_path / "a.xlsx").read_bytes()
    assert cells_of(content, read_ranges("A1:B2"), "a") == {
        "Ledger!A1": 1, "Ledger!B1": 2, "Ledger!A2": 3, "Ledger!B2": None,
    }  # fmt: skip
    assert list(cells_of(content, read_ranges("Ledger!B1"), "a").values()) == [2]
    assert preview(content, "a", 1).splitlines()[-1] == "1 | 2"


def test_a_workbook_that_unpacks_to_too_much_is_refused_unread():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as book_file, book_file.open("a", "w") as part:
        for _ in range(257):
            part.write(bytes(1 << 20))
    assert len(packed.getvalue()) < 1 << 20
    with pytest.raises(ArtifactError, match="unpacks to 257 MiB"):
        cells_of(packed.getvalue(), read_ranges("A1"), "bomb")


def test_files_of_the_verified_edition_are_found_by_their_own_names(tmp_path):
    path = write_tasks(tmp_path / "data")
    for file in sorted((tmp_path / "data").rglob("*.xlsx")):
        file.rename(str(file).replace("_input", "_init").replace("_answer", "_golden"))
    with answering(reply) as asked:
        cases = bench_of(asked, tmp_path, path).domain.query("total-1").facts["cases"]
    assert [case.expected.name for case in cases] == ["1_total-1_golden.xlsx", "2_total-1_golden.xlsx"]
