"""A worker behind a real endpoint: what it is told, what stops a run, what is one job's fault; programs in confines."""

import time

import pytest
from chat_server import KEY_ENV, Refusal, answering
from editor.answering import configured

from intraskill.editor.domain import Answer, Job, Query
from intraskill.editor.execution import Confines, program_of, run_program
from intraskill.editor.trials import Trials
from intraskill.editor.workers import EndpointWorker, WorkerReply
from intraskill.editor.workers_options import client_of, instruction, read_options
from intraskill.llm.client import BudgetError, EndpointError
from intraskill.method.errors import ConfigError
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.store.provenance import plan_of

EMPTY = Skill("")
SKILL = Skill("", (Chunk("Be brief", "One word."),))
CONFINES = Confines(seconds=5, memory_mb=512)


class LengthVerifier:
    version = "length"

    def score(self, query, answer):
        return float(len(answer.text) < 5)


def worker_of(asked, cache, told="Answer.", **more):
    client = client_of(asked.endpoint(**more), cache, "w")
    return EndpointWorker(client, WorkerReply(told, lambda _, text: Answer(text)), (told,))


def jobs(*texts, skill=EMPTY):
    return [Job(Query(text, text), skill, 2**40 + 7) for text in texts]


def test_the_worker_reads_instruction_skill_and_query_and_an_empty_skill_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_ENV, "sk-secret-123")
    with answering(lambda messages: "yes") as asked:
        worker = worker_of(asked, tmp_path)
        assert [a.text for a in worker.answer(jobs("one", "two", skill=SKILL))] == ["yes", "yes"]
        assert set(asked.texts("system")) == {"Answer.\n\n# Skill\n\n### Be brief\n\nOne word."}
        assert sorted(asked.texts("user")) == ["one", "two"] and set(asked.keys) == {"Bearer sk-secret-123"}
        assert {body["seed"] for body in asked.bodies} == {(2**40 + 7) % 2**31}
        worker.answer(jobs("three"))
        assert asked.texts("system")[-1] == "Answer."
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and "sk-secret" in p.read_text()]


def test_the_version_knows_model_settings_and_prompt_but_not_the_address(tmp_path):
    with answering(lambda messages: "yes") as asked, answering(lambda messages: "yes") as moved:
        version = worker_of(asked, tmp_path).version
        assert version == worker_of(moved, tmp_path, timeout_s=1.0).version
        changes = ({"model": "n"}, {"temperature": 1.0}, {"told": "x"})
        others = [worker_of(asked, tmp_path, **change).version for change in changes]
        assert version not in others and len(set(others)) == 3


def test_a_question_that_is_refused_is_the_fault_of_its_job_alone(tmp_path):
    def reply(messages):
        if messages[-1]["content"] == "bad":
            raise Refusal(400, "this exceeds the maximum context length")
        return "yes"

    with answering(reply) as asked:
        trials = Trials(worker_of(asked, tmp_path), LengthVerifier())
        assert trials.scores(jobs("good", "bad")) == (1.0, None)
        assert "worker: " in trials.faults[0] and trials.faults[0].count("context")


@pytest.mark.parametrize(
    ("status", "limit", "error", "key"),
    [
        (401, 0, EndpointError, KEY_ENV),
        (404, 0, EndpointError, "w.model"),
        (503, 0, EndpointError, "w.timeout_s"),
        (200, 4, BudgetError, "w.budget_tokens=4"),
    ],
)
def test_an_endpoint_that_fails_stops_the_run_and_the_same_command_goes_on(tmp_path, status, limit, error, key):
    broken = True

    def reply(messages):
        if broken and status != 200 and messages[-1]["content"] == "c":
            raise Refusal(status, "no")
        return "yes"

    with answering(reply) as asked:
        trials = Trials(
            worker_of(asked, tmp_path / "llm", concurrency=1, budget_tokens=limit),
            LengthVerifier(),
            tmp_path / "t.jsonl",
        )
        with pytest.raises(error) as caught:
            trials.scores(jobs("a", "b", "c"))
        assert key in str(caught.value) and "proposer" not in str(caught.value), "the keys are those of this endpoint"
        assert trials.faults == []
        paid, broken = len(asked.bodies), False
        again = Trials(worker_of(asked, tmp_path / "llm", concurrency=1), LengthVerifier(), tmp_path / "t.jsonl")
        assert again.scores(jobs("a", "b", "c")) == (1.0, 1.0, 1.0)
        assert len(asked.bodies) == paid + 1, "what was paid for is asked again"


def test_scores_known_before_a_judge_is_down_are_kept(tmp_path):
    class Fails(LengthVerifier):
        def score(self, query, answer):
            if query.id == "b":
                raise EndpointError("the judge is down")
            return 1.0

    with answering(lambda messages: "yes") as asked:
        with pytest.raises(EndpointError):
            Trials(worker_of(asked, tmp_path / "llm"), Fails(), tmp_path / "t.jsonl").scores(jobs("a", "b"))
        again = Trials(worker_of(asked, tmp_path / "llm"), Fails(), tmp_path / "t.jsonl")
        assert again.scores(jobs("a")) == (1.0,) and again.asked == 0


def test_a_worker_that_breaks_in_our_own_code_is_a_fault(tmp_path):
    def finish(job, text):
        raise ZeroDivisionError("oh")

    with answering(lambda messages: "yes") as asked:
        worker = EndpointWorker(client_of(asked.endpoint(), tmp_path, "w"), WorkerReply("x", finish), ())
        assert worker.answer(jobs("a"))[0].fault == "worker: ZeroDivisionError: oh"


def test_options_of_an_endpoint_are_checked_by_name_and_type(tmp_path):
    with pytest.raises(ConfigError, match=r"w\.modle is no option, did you mean 'model'\?"):
        client_of({"base_url": "http://127.0.0.1:1/v1", "modle": "m"}, tmp_path, "w")
    with pytest.raises(ConfigError, match=r"w\.model is missing"):
        client_of({"base_url": "http://127.0.0.1:1/v1"}, tmp_path, "w")
    with pytest.raises(ConfigError, match=r"w\.base_url is missing"):
        client_of(None, tmp_path, "w")
    with pytest.raises(ConfigError, match=r"w\.retries=-1 is outside"):
        client_of({"base_url": "http://127.0.0.1:1/v1", "model": "m", "retries": -1}, tmp_path, "w")
    with pytest.raises(ConfigError, match=r"w\.base_url=nowhere is no address"):
        client_of({"base_url": "nowhere", "model": "m"}, tmp_path, "w")
    with pytest.raises(ConfigError, match=r"set w\.price_in"):
        client_of({"base_url": "http://127.0.0.1:1/v1", "model": "m", "budget_cost": 1.0}, tmp_path, "w")
    with pytest.raises(ConfigError, match="give an int"):
        client_of({"base_url": "http://127.0.0.1:1/v1", "model": "m", "retries": "many"}, tmp_path, "w")
    assert read_options({"a": 1}, {"a": 0.5}, "o") == {"a": 1.0}


def test_a_resumed_run_may_have_another_address_and_budget_but_no_other_model():
    first, moved, other = (
        plan_of(configured(path="x", worker={"base_url": url, "model": model, "budget_tokens": budget}))
        for url, model, budget in (("a", "m", 1), ("b", "m", 2), ("a", "n", 1))
    )
    assert first == moved != other and first["editor.options"] == {"path": "x", "worker": {"model": "m"}}


@pytest.mark.parametrize("name", ["judge", "documents", "workbooks", "dialogues", "user"])
def test_both_languages_have_the_same_placeholders(name):
    values = {"seconds": "S1", "policy": "P1", "tools": "T1", "situation": "U1"}
    english, chinese = (instruction(f"editor_{name}", language, **values) for language in ("en", "zh"))
    assert english != chinese and "$" not in english + chinese
    assert all((value in english) == (value in chinese) for value in values.values())
    with pytest.raises(ConfigError, match="no prompts"):
        instruction("editor_judge", "fr")


def test_a_program_reads_and_writes_only_files_of_its_own_folder_by_name():
    ran = run_program("open('b','w').write(open('a').read()*2)", {"a": b"x"}, ("b",), CONFINES)
    assert (ran.trouble, ran.outputs) == ("", {"b": b"xx"})
    assert run_program("pass", {}, ("b",), CONFINES).trouble == "it did not write b"


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("1/0", "ZeroDivisionError: division by zero"),
        ("x = bytearray(2**30)", "MemoryError"),
        ("while True: pass", "longer than 1 seconds"),
        ("import time; time.sleep(60)", "longer than 1 seconds"),
        ("import os; os._exit(3)", "status 3"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("f = open('b', 'wb')\nfor _ in range(600): f.write(b'x' * 2**20)", "File too large"),
        ("def", "SyntaxError"),
    ],
)
def test_a_program_that_breaks_a_limit_is_ended_and_says_so(code, trouble):
    seconds = 1 if "longer" in trouble else 30  # a busy machine needs more than one to write so much
    assert trouble in run_program(code, {}, (), Confines(seconds=seconds, memory_mb=256)).trouble


def test_a_program_sees_no_variable_of_ours_and_leaves_no_process_behind(monkeypatch, tmp_path):
    monkeypatch.setenv(KEY_ENV, "sk-secret-123")
    code = f"import os; open('b','w').write(repr(os.environ.get({KEY_ENV!r})) + os.environ['HOME'])"
    home = run_program(code, {}, ("b",), CONFINES).outputs["b"].decode()
    assert home.startswith("None/") and "program-" in home
    mark = tmp_path / "mark"
    child = f"import time; time.sleep(1.5); open({str(mark)!r}, 'w')"
    run_program(f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}])", {}, (), CONFINES)
    time.sleep(2.0)
    assert not mark.exists()


def test_the_last_fenced_block_is_the_program():
    assert program_of("<think>```python\n0\n```</think>So:\n```python\n1\n```\nor\n```py\n2\n```\n") == "2\n"
    assert program_of("x = 1") == "x = 1"
