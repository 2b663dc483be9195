"""What worker and judge cost: shown while a run goes on, in its metrics, its summary and at its end."""

import json
from dataclasses import replace

import pytest
from chat_server import answering
from editor.editing import planted_editing
from editor.samples.ledger_books import write_tasks
from editor.test_commands import overrides, said
from editor.test_documents import reply
from editor.test_workbooks import reply as program
from planted_runs import timeless

from intraskill.editor.training import train_editor
from intraskill.llm.client import BudgetError, Usage
from intraskill.method.errors import TooFewTasksError
from intraskill.store.metrics import Metrics, Silence
from intraskill.store.run_directory import read_json


class Watcher(Silence):
    """Keeps what it was told was spent."""

    def __init__(self):
        self.usages, self.lines = [], []

    def spent(self, usage):
        self.usages.append(usage)

    def say(self, message):
        self.lines.append(message)


@pytest.fixture
def asked():
    with answering(reply) as server:
        yield server


@pytest.fixture
def documented(asked, editing_place, tmp_path):
    """A config of documents whose worker costs 1 per million tokens read, its judge 2."""
    rows = [
        {"id": f"{name}-{k}", "document": f"The {name}.", "question": f"What of {name} {k}?", "rubrics": ["Says dawn."]}
        for name in ("oak", "elm", "ash", "fir")
        for k in range(4)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = planted_editing(editing_place, "unused")
    config.run_dir, config.editor.domain = str(tmp_path / "run"), "documents"
    worker, judge = asked.endpoint(price_in=1.0, concurrency=1), asked.endpoint(price_in=2.0, concurrency=1)
    options = {"path": str(tmp_path / "rows.jsonl"), "held_out": 0.5, "worker": worker, "judge": judge}
    config.editor.options, config.editor.steps = options, 3
    return config


def kinds(asked):
    """How many questions went to the worker, and to the judge."""
    judged = sum("<criteria>" in body["messages"][1]["content"] for body in asked.bodies)
    return len(asked.bodies) - judged, judged


def spending_rows(root):
    return [row for row in Metrics(root / "metrics.jsonl").rows() if "llm/calls" in row]


def test_training_says_what_worker_and_judge_cost_in_metrics_summary_report_and_to_whoever_watches(
    documented, asked, tmp_path, capsys
):
    watcher = Watcher()
    run = train_editor(documented, watcher)
    worker, judge = kinds(asked)
    calls, cost = worker + judge, (worker + 2 * judge) / 1e6  # the server counts one token each way per answer
    assert worker > 4 < judge
    expected = {"calls": calls, "tokens_in": calls, "tokens_out": calls, "cost": pytest.approx(cost)}
    (row,) = spending_rows(run.root)
    assert {name.removeprefix("llm/"): value for name, value in row.items() if "llm/" in name} == expected
    assert read_json(run.root / "final" / "summary.json")["llm"] == expected
    words = f"{calls} answers, {calls} tokens read, {calls} written, cost {cost:.4g}"
    assert watcher.lines[-1] == f"LLM so far: {words}"
    assert [usage.calls for usage in watcher.usages] == sorted(usage.calls for usage in watcher.usages)
    assert len(watcher.usages) >= calls and watcher.usages[-1].calls == calls
    before = (run.root / "metrics.jsonl").read_bytes()
    status, out, err = said(capsys, "editor", "train", *overrides(documented))
    assert (status, kinds(asked)) == (0, (worker, judge)), err
    assert f"Paid to an LLM: {words}\nTrials: 0 asked" in out
    assert (run.root / "metrics.jsonl").read_bytes() == before
    status, out, _ = said(capsys, "report", str(run.root))
    assert status == 0 and out.endswith(f"Paid to an LLM: {words}\n")


def test_a_run_that_a_budget_stopped_says_what_it_had_paid_and_ends_with_the_rows_of_one_that_was_not(
    documented, asked, tmp_path
):
    whole = train_editor(documented).root
    paid = len(asked.bodies)
    worker = documented.editor.options["worker"]
    stopped = replace(documented, run_dir=str(tmp_path / "stopped"))
    stopped.editor.options["worker"] = worker | {"budget_tokens": 5}
    asked.bodies.clear()
    with pytest.raises(BudgetError, match=r"editor\.options\.worker\.budget_tokens=5"):
        train_editor(stopped)
    assert [row["llm/calls"] for row in spending_rows(tmp_path / "stopped")] == [len(asked.bodies)]
    stopped.editor.options["worker"] = worker
    root = train_editor(stopped).root
    assert len(asked.bodies) == paid
    assert timeless((root / "metrics.jsonl").read_bytes()) == timeless((whole / "metrics.jsonl").read_bytes())


def ledgers(editing_place, tmp_path, server):
    """A config of two streams of workbooks, one of them held out, whose evidence is two attempts that are paid for."""
    config = replace(planted_editing(editing_place, "unused"), run_dir=str(tmp_path / "run"))
    config.editor.domain, config.editor.steps = "workbooks", 1
    options = {"path": str(write_tasks(tmp_path / "data")), "worker": server.endpoint(), "execute": True}
    config.editor.options = options | {"per_stream": 2, "held_out": 0.5}
    return config


def test_a_refused_run_keeps_the_attempts_that_it_paid_for_and_the_mended_one_uses_them(editing_place, tmp_path):
    with answering(program) as server:
        config, watcher = ledgers(editing_place, tmp_path, server), Watcher()
        with pytest.raises(TooFewTasksError):
            train_editor(config, watcher)
        assert watcher.lines == ["LLM so far: 2 answers, 2 tokens read, 2 written"]
        assert {path.name for path in (tmp_path / "run").iterdir()} == {".lock", "attempts.jsonl", "llm_worker"}
        attempts, paid = (tmp_path / "run" / "attempts.jsonl").read_bytes(), len(server.bodies)
        config.editor.eval_streams = 0
        train_editor(config)
        assert paid == 2 and (tmp_path / "run" / "attempts.jsonl").read_bytes() == attempts
        asked = [json.dumps(body) for body in server.bodies]  # with the seed
        assert len(asked) == len(set(asked)) > paid


def test_a_pass_whose_streams_cost_attempts_says_what_they_cost(editing_place, tmp_path, capsys):
    with answering(program) as server:
        config = ledgers(editing_place, tmp_path, server)
        words = [word for word in overrides(config) if not word.startswith("policy.path=")]
        command = ["editor", "run", "--ckpt", str(editing_place / "model"), "--out", str(tmp_path / "skills")]
        status, out, err = said(capsys, *command, *words)
        assert status == 0, err
        paid = f"Paid to an LLM: {len(server.bodies)} answers, 2 tokens read, 2 written\nWritten: {tmp_path / 'skills'}"
        assert len(server.bodies) == 2 and paid in out


def test_a_pass_that_asks_nobody_says_nothing_of_an_llm(documented, editing_place, tmp_path, capsys):
    words = [word for word in overrides(documented) if not word.startswith("policy.path=")]
    command = ["editor", "run", "--ckpt", str(editing_place / "model"), "--out", str(tmp_path / "skills")]
    status, out, err = said(capsys, *command, *words)
    assert status == 0 and "LLM" not in out + err
    assert not (tmp_path / "skills" / "metrics.jsonl").exists()


def test_a_pass_that_is_refused_leaves_no_directory_behind(documented, editing_place, tmp_path, capsys):
    words = [word for word in overrides(documented) if not word.startswith("policy.path=")]
    command = ["editor", "run", "--ckpt", str(editing_place / "model"), "--out", str(tmp_path / "new" / "skills")]
    status, _, err = said(capsys, *command, *words, "editor.options.gradng=all")
    assert status == 2 and "did you mean 'grading'" in err
    assert not (tmp_path / "new").exists()


def test_a_run_without_an_llm_has_paid_nobody(editing_place, tmp_path, capsys):
    config = replace(planted_editing(editing_place, "unused"), run_dir=str(tmp_path / "run"))
    config.editor.steps = 1
    status, out, _ = said(capsys, "editor", "train", *overrides(config))
    assert status == 0 and "Paid" not in out
    assert spending_rows(tmp_path / "run") == [] and read_json(tmp_path / "run/final/summary.json")["llm"] is None


def test_what_two_clients_have_spent_is_added_up():
    one, two = Usage(1, 2, 3, 0.5, 1, {"answered": 1}), Usage(10, 20, 30, 0.25, 0, {"answered": 2, "dropped": 1})
    assert one + two == Usage(11, 22, 33, 0.75, 1, {"answered": 3, "dropped": 1}) == sum([one, two], Usage())
