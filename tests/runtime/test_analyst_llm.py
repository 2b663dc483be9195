"""The LLM analyst against a real HTTP server on 127.0.0.1: time-outs, garbage, 429, wrong answers, the cache."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from shop_rollouts import failed, rollout, search

from intraskill.method.firewall import Firewall
from intraskill.method.skill import Chunk, Skill
from intraskill.runtime.analyst_llm import SCHEMA, LlmAnalyst, describe, read_proposals
from intraskill.runtime.llm import BadAnswerError, Endpoint, EndpointError, JsonClient
from intraskill.runtime.trace2skill import harvest_edits

KEY = "secret-key-5f3a"
CHUNK = {"title": "Query", "applies_when": "", "procedure": ["Name the color."], "verify": "", "avoid": "Haste."}
ADD = {"op": "ADD", "targets": [], "chunks": [CHUNK], "root_cause": "thin query", "expected_effect": "fewer misses"}
GOOD = json.dumps({"proposals": [ADD]})
FAILED = rollout("Find a red mug.", [search("mug")], failed(r_att=0.0))


class Script:
    """What the server does at each request, in order; the last entry repeats."""

    def __init__(self, *steps):
        self.steps, self.requests, self.keys = list(steps), [], []

    def next(self):
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


@contextmanager
def server(*steps):
    script = Script(*steps)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            script.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            script.keys.append(self.headers["Authorization"])
            step = script.next()
            if step == "hang":
                time.sleep(1.0)
                return
            if step == "drop":
                self.connection.close()
                return
            status, body = step if isinstance(step, tuple) else (200, completion(step))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("retry-after-ms", "5")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield script, f"http://127.0.0.1:{httpd.server_port}/v1"
    finally:
        httpd.shutdown()
        httpd.server_close()


def completion(content):
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return json.dumps(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    ).encode()


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("TEST_LLM_KEY", KEY)


def client(url, cache, **settings):
    return JsonClient(Endpoint(url, "m", "TEST_LLM_KEY", **{"timeout_s": 5.0, "retries": 2} | settings), cache)


def ask(url, cache, **settings):
    return client(url, cache, **settings).ask("s", "q", SCHEMA, lambda data: read_proposals(data, Skill("p"), ("r",)))


def test_a_good_answer_becomes_a_candidate_edit(tmp_path):
    with server(GOOD) as (script, url):
        harvest = harvest_edits([FAILED], Skill("p"), LlmAnalyst(client(url, tmp_path)), Firewall(), limit=6)
    (edit,) = harvest.edits
    assert edit.adds == (Chunk("Query", "Procedure:\n1. Name the color.\nAvoid: Haste."),)
    assert edit.support[0].startswith("t1#0@") and harvest.analyst == "llm:m"
    assert script.keys == [f"Bearer {KEY}"]
    assert script.requests[0]["response_format"]["json_schema"]["strict"] is True


def test_a_wrong_answer_is_asked_again_once_with_the_exact_error(tmp_path):
    with server('{"proposals": 3}', GOOD) as (script, url):
        assert len(ask(url, tmp_path)) == 1
    assert "the answer.proposals must be a JSON array, got int" in script.requests[1]["messages"][-1]["content"]


def test_two_wrong_answers_drop_the_item_and_count_it(tmp_path):
    with server("no json at all") as (script, url):
        with pytest.raises(BadAnswerError, match="wrongly twice"):
            ask(url, tmp_path / "a")
        analysis = LlmAnalyst(client(url, tmp_path / "b")).analyse([FAILED], Skill("p"))
    assert analysis.proposals == () and analysis.counts["bad_answer"] == 1
    assert len(script.requests) == 4


def test_an_answer_is_asked_for_only_once_in_a_life(tmp_path):
    with server(GOOD) as (script, url):
        first, again = ask(url, tmp_path), ask(url, tmp_path)
        assert first == again and len(script.requests) == 1
        client(url, tmp_path).ask("s", "another question", SCHEMA, lambda data: data)
        assert len(script.requests) == 2


@pytest.mark.parametrize("trouble", ["drop", (429, b"{}"), (500, b"{}")], ids=["dropped", "429", "500"])
def test_passing_trouble_is_waited_out(tmp_path, trouble):
    with server(trouble, GOOD) as (script, url):
        assert len(ask(url, tmp_path)) == 1
    assert len(script.requests) == 2


@pytest.mark.parametrize(
    "trouble",
    ["hang", (429, b"{}"), (401, f'{{"error": {{"message": "wrong key {KEY}"}}}}'.encode()), (200, b"<html>garbage")],
    ids=["hang", "429", "401", "garbage"],
)
def test_lasting_trouble_stops_with_one_clear_error_that_does_not_hold_the_key(tmp_path, trouble):
    with server(trouble) as (_, url), pytest.raises(EndpointError) as caught:
        ask(url, tmp_path, timeout_s=0.2, retries=1)
    assert url in str(caught.value) and "TEST_LLM_KEY" in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_server_without_structured_output_is_asked_in_plain_text(tmp_path):
    with server((400, b'{"error": {"message": "response_format is not supported"}}'), GOOD) as (script, url):
        assert len(ask(url, tmp_path)) == 1
    assert ["response_format" in request for request in script.requests] == [True, False]


def test_the_key_is_nowhere_on_disk(tmp_path):
    with server(GOOD) as (_, url):
        ask(url, tmp_path)
    files = list(tmp_path.iterdir())
    assert len(files) == 1 and all(KEY not in path.read_text() for path in files)


def test_failures_are_read_first_within_the_budget(tmp_path):
    solved = rollout("Find a mug.", [search("mug")], {"r_success": 1.0}, task_id="t0")
    with server(json.dumps({"proposals": []})) as (script, url):
        analysis = LlmAnalyst(client(url, tmp_path), max_calls=1).analyse([solved, FAILED], Skill("p"))
    assert "Find a red mug." in script.requests[0]["messages"][1]["content"]
    assert analysis.counts["over_budget"] == 1 and analysis.counts["no_proposal"] == 1


def test_the_question_shows_chunk_ids_and_which_were_shown():
    care, haste = Chunk("Care", "Read."), Chunk("Haste", "Run.")
    text = describe(rollout("R", [], failed(), visible=frozenset({care.id})), Skill("p", (care, haste)))
    assert f"[{care.id}] (shown) Care" in text and f"[{haste.id}] Haste" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "RENAME"}, "op is 'RENAME', it must be one of ADD"),
        ({"targets": ["gone-1"]}, "targets names 'gone-1'"),
        ({"targets": [1]}, "targets must hold strings only"),
        ({"op": "DELETE"}, "says DELETE but has the shape of ADD"),
        ({"chunks": [{"title": "x"}]}, "has the keys"),
        ({"chunks": [CHUNK | {"title": " "}]}, "title must be one non-empty line"),
    ],
)
def test_what_does_not_fit_is_named_exactly(change, message):
    with pytest.raises(ValueError, match=message):
        read_proposals({"proposals": [ADD | change]}, Skill("p"), ("r",))
    assert len(read_proposals({"proposals": [ADD]}, Skill("p"), ("r",))) == 1
