"""An LLM's answers are paid for once, whenever the process dies, and the same inputs end in the same skill."""

import json
import multiprocessing
import signal
from collections import Counter
from contextlib import contextmanager

import httpx  # noqa: F401  # once here, not in every forked child
import pytest
import statsmodels.regression.linear_model  # noqa: F401
from chat_server import answering
from dying import dies_at
from planted_runs import content, planted_config

from intraskill.cli import main
from intraskill.llm.client import BudgetError, Usage
from intraskill.method.randomness import content_hash
from intraskill.report.live import LiveMonitor, PlainMonitor
from intraskill.report.summary import summarise
from intraskill.rounds.coldstart import run_cold_start
from intraskill.rounds.loop import run
from intraskill.store.metrics import Silence

KINDS = {"coldstart": lambda config: run_cold_start(config, None), "train": run}
VERBS, NOUNS = ("Read", "Compare", "Check", "Count", "Sort"), ("names", "sizes", "colors", "prices", "brands")


def lesson(about):
    """A proposal whose words are a function of what it is about."""
    number = int(content_hash(about)[:6], 16)
    title = f"{VERBS[number % 5]} the {NOUNS[number // 5 % 5]}"
    chunk = {"title": title, "applies_when": "", "procedure": [f"{title} first."], "verify": "", "avoid": ""}
    return {"op": "ADD", "targets": [], "chunks": [chunk], "root_cause": "cause", "expected_effect": "effect"}


def proposer(messages):
    """Answer as a proposer would: lessons of successes and failures; the first two inputs of a batch are one."""
    system, task, turns = messages[0]["content"], messages[1]["content"], len(messages) // 2
    if "full success" in system:
        answer = {"lean_path": [1], "lessons": [{"action": 1, "proposal": lesson(task)}]}
    elif "failed one episode" in system:
        # The planted world pays what an action says, so the fix always succeeds.
        told = {"private_notes": "a note", "proposals": [lesson(task)]}
        diagnosis = {"responsible_action": 1, "diagnosis": "d", "fix": "f"}
        answer = (diagnosis, {"action": "1", "done": ""}, told)[turns - 1]
    else:
        answer = {"outputs": [{"inputs": [1, 2], "proposal": lesson(task)}]}
    return json.dumps(answer)


def small_config(root, url, concurrency=1):
    config = planted_config(root, tasks_per_split={"train": 12, "skill_validation": 30, "test": 8})
    config.rounds, config.grpo.steps_per_round, config.grpo.groups_per_step = 1, 2, 2
    config.coldstart.tasks, config.frontier.max_tasks, config.rollout.batch = 4, 2, 30
    config.proposer.name, config.proposer.model, config.proposer.base_url = "openai", "m", url
    config.proposer.price_in, config.proposer.concurrency = 1.0, concurrency
    return config


def _until(kind, config, syncs, counted):
    count = dies_at(syncs)
    KINDS[kind](config)
    counted.write_text(str(count()))


def until(kind, config, syncs, counted):
    """Run in a child that dies at its n-th fsync (0 = never) and leaves the number of all; return its exit status."""
    child = multiprocessing.get_context("fork").Process(target=_until, args=(kind, config, syncs, counted))
    child.start()
    child.join()
    return child.exitcode


def paid(asked):
    return Counter(json.dumps(body["messages"]) for body in asked.bodies)


@contextmanager
def whole_run(kind, place):
    """The files of a run that nobody kills, its questions and its number of syncs."""
    with answering(proposer) as asked:
        root = place / "whole"
        assert until(kind, small_config(root, asked.url), 0, place / "syncs") == 0
        yield asked, content(root), paid(asked), int((place / "syncs").read_text())


def check_kills(kind, place, moments):
    """Die at each of these moments, go on, and compare."""
    with whole_run(kind, place) as (asked, expected, questions, syncs):
        assert len(questions) > 8 and set(questions.values()) == {1}
        for moment in moments(syncs):
            asked.bodies.clear()
            config = small_config(place / f"{kind}-{moment}", asked.url)
            assert until(kind, config, moment, place / "ignored") == -signal.SIGKILL
            assert until(kind, config, 0, place / "ignored") == 0
            assert paid(asked) == questions, f"killed at sync {moment}: a question was paid twice, or another asked"
            found = content(place / f"{kind}-{moment}")
            assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == [], moment


@pytest.mark.parametrize(("kind", "step"), [("coldstart", 4), ("train", 19)])
def test_a_run_killed_once_pays_once_and_ends_in_the_same_skill(tmp_path, kind, step):
    check_kills(kind, tmp_path, lambda syncs: range(3, syncs, step))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_at_every_sync_pays_once_and_ends_in_the_same_skill(tmp_path, kind):
    check_kills(kind, tmp_path, lambda syncs: range(1, syncs + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_dies_again_and_again_pays_no_answer_twice(tmp_path, kind):
    """Each life is longer than the last one, since a stage that is not finished begins anew."""
    with whole_run(kind, tmp_path) as (asked, expected, questions, _):
        asked.bodies.clear()
        config, lives = small_config(tmp_path / "mortal", asked.url), 0
        while until(kind, config, 5 + 2 * lives, tmp_path / "ignored") != 0:
            lives += 1
        assert lives > 1 and paid(asked) == questions
        assert content(tmp_path / "mortal") == expected


def test_of_several_answers_awaited_at_once_only_those_under_way_are_asked_again(tmp_path):
    """What nobody has received cannot be kept: it is the price of asking several at a time."""
    with whole_run("coldstart", tmp_path) as (asked, expected, questions, syncs):
        for moment in range(2, syncs, 9):
            asked.bodies.clear()
            config = small_config(tmp_path / f"wide-{moment}", asked.url, concurrency=4)
            assert until("coldstart", config, moment, tmp_path / "ignored") == -signal.SIGKILL
            assert until("coldstart", config, 0, tmp_path / "ignored") == 0
            again = paid(asked)
            assert set(again) == set(questions) and again.total() - len(again) <= 3
            assert (tmp_path / f"wide-{moment}" / "draft.md").read_bytes() == expected["draft.md"]


class Watcher(Silence):
    """Keeps what it was told."""

    def __init__(self):
        self.calls, self.lines = [], []

    def spent(self, usage):
        self.calls.append(usage.calls)

    def say(self, message):
        self.lines.append(message)


def test_whoever_watches_hears_what_was_paid_and_summary_and_report_say_it(tmp_path, capsys):
    watcher = Watcher()
    with answering(proposer) as asked:
        root = run(small_config(tmp_path / "run", asked.url), watcher)
        calls = len(asked.bodies)
    assert watcher.calls == sorted(watcher.calls) and watcher.calls[-1] == calls > 8
    # The server counts one token read and one written per answer; a million tokens read cost 1.
    assert summarise(root)["llm"] == {"calls": calls, "tokens_in": calls, "tokens_out": calls, "cost": calls / 1e6}
    words = f"{calls} answers, {calls} tokens read, {calls} written, cost {calls / 1e6:.4g}"
    assert watcher.lines.count(f"LLM so far: {words}") == 1
    assert main(["report", str(root)]) == 0 and f"Paid to an LLM: {words}" in capsys.readouterr().out
    assert "proposals" not in summarise(root)["timing"]["stages"], "nobody timed it"


def test_a_run_that_its_budget_stopped_says_what_it_had_paid(tmp_path):
    with answering(proposer) as asked:
        config = small_config(tmp_path / "run", asked.url)
        config.proposer.budget_tokens = 7
        with pytest.raises(BudgetError, match=r"proposer\.budget_tokens=7"):
            run(config)
        assert summarise(tmp_path / "run")["llm"]["calls"] == len(asked.bodies) == 4
        config.proposer.budget_tokens = 0
        run(config)
        assert summarise(tmp_path / "run")["llm"]["calls"] == len(asked.bodies) == len(paid(asked))


def test_a_run_without_an_llm_has_paid_nobody(tmp_path):
    summary = summarise(run(planted_config(tmp_path / "run")))
    assert summary["llm"] is None


@pytest.mark.parametrize("kind", [LiveMonitor, PlainMonitor])
def test_the_monitors_show_what_was_paid_beside_the_stage(kind, capsys):
    with kind() as shown:
        shown.stage(0, "cold_start", 2)
        for calls in (1, 2):
            shown.spent(Usage(calls, 1500 * calls, 20))
        shown.advance(2)
        shown.stage(0, "bare", 2)
    told = capsys.readouterr().err
    assert "LLM so far" in told and "tokens read" in told
    assert kind is LiveMonitor or told.count("LLM so far") == 1, "not a line per answer"
