"""Replies in the shapes that providers document: what is an answer, what is an error, what is asked again.

The bodies are built from the public API references of OpenRouter (errors inside a 200), DeepSeek and vLLM
(``reasoning_content``, ``reasoning``), Mistral and the Responses style (content as a list of parts).
"""

import json
import threading
import time
from contextlib import suppress

import pytest
from llm.faulty_llm import USAGE, Reply, error, serving
from llm.test_llm import ASK, GOOD, KEY, KEY_ENV, SCHEMA, client, numbered, read

from intraskill.llm.client import BadAnswerError, EndpointError, parse
from intraskill.store.json_rows import value_of


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv(KEY_ENV, KEY)


def whole(message, finish="stop", usage=USAGE, **choice):
    """Return a whole completion of one message."""
    body = {"id": "gen-1", "object": "chat.completion", "model": "m", "usage": usage}
    choices = [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}, **choice}]
    return Reply(body=json.dumps(body | {"choices": choices}).encode())


def raw(data):
    return Reply(body=json.dumps(data).encode())


ANSWERS = {
    "OpenAI": whole({"content": GOOD, "refusal": None, "annotations": []}),
    "DeepSeek reasoner": whole({"content": GOOD, "reasoning_content": 'Say {"n": 1}? No.'}),
    "vLLM, all of it taken for reasoning": whole({"content": None, "reasoning_content": f"\n{GOOD}\n"}),
    "vLLM 0.12 and OpenRouter, the same": whole({"content": "", "reasoning": GOOD}),
    "list of parts": whole({"content": [{"type": "text", "text": '{"n": '}, {"type": "text", "text": "7}"}]}),
    "thinking part and text part": whole(
        {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": GOOD}]}
    ),
    "llama.cpp, closing tag only": whole({"content": f"First 1, then 2.\n</think>\n\n{GOOD}"}),
    "a tag in a string": whole({"content": '{"n": 7, "why": "</think> ends it"}'}),
    "Windows fence": whole({"content": f"```json\r\n{GOOD}\r\n```"}),
    "fence in a string": whole({"content": '```json\n{"n": 7, "code": "```py\\nx\\n```"}\n```'}),
}


@pytest.mark.parametrize("shape", ANSWERS)
def test_an_answer_is_read_whatever_shape_it_comes_in(tmp_path, shape):
    with serving(ANSWERS[shape]) as server:
        assert client(server, tmp_path).ask(ASK, SCHEMA, read) == 7
    assert len(server.requests) == 1


def test_reasoning_that_is_more_than_json_is_no_answer(tmp_path):
    reply = whole({"content": None, "reasoning_content": f"I think {GOOD} is right."})
    with serving(reply) as server, pytest.raises(BadAnswerError):
        client(server, tmp_path).ask(ASK, SCHEMA, read)
    with serving(whole({"content": None, "reasoning_content": GOOD})) as server:
        assert client(server, tmp_path).text(ASK) == ""  # plain text is never taken out of a thought


BUSY = {"code": 429, "message": "upstream is busy"}
ERRORS = {
    "OpenRouter, no credits": (raw({"error": {"code": 402, "message": "Insufficient credits"}}), 1, "Insufficient"),
    "OpenRouter, provider down": (raw({"error": {"code": 502, "message": "Provider returned error"}}), 3, "Provider"),
    "error in the first choice": (whole({"content": '{"n": '}, "error", error=BUSY), 3, "upstream is busy"),
    "finish_reason error": (whole({"content": GOOD}, "error"), 3, "finish_reason error"),
    "an error without a code": (raw({"error": "model is loading"}), 3, "model is loading"),
}


@pytest.mark.parametrize("shape", ERRORS)
def test_an_error_inside_a_success_is_shown_and_repeated_as_its_status_would_be(tmp_path, shape):
    reply, requests, words = ERRORS[shape]
    with serving(reply) as server:
        asked = client(server, tmp_path)
        with pytest.raises(EndpointError, match=words):
            asked.ask(ASK, SCHEMA, read)
    assert len(server.requests) == requests
    assert not list(tmp_path.glob("*.json"))


def test_a_passing_error_inside_a_success_is_waited_out(tmp_path):
    with serving(ERRORS["OpenRouter, provider down"][0], ANSWERS["OpenAI"]) as server:
        assert client(server, tmp_path).ask(ASK, SCHEMA, read) == 7


@pytest.mark.parametrize(
    "reply",
    [
        whole({"content": None, "refusal": "I can't help with that."}),
        whole({"content": ""}, "content_filter"),
        whole({"content": ""}),
        whole({"content": None, "tool_calls": [{"id": "1", "type": "function"}]}, "tool_calls"),
    ],
    ids=["refusal", "filter", "empty stop", "tool calls"],
)
def test_what_is_no_answer_today_is_asked_again_tomorrow_and_its_cost_stays(tmp_path, reply):
    with serving(reply) as server, pytest.raises(BadAnswerError):
        client(server, tmp_path).ask(ASK, SCHEMA, read)
    with serving(GOOD) as server:
        again = client(server, tmp_path)
        assert again.usage.tokens > 0  # what was paid yesterday counts
        assert again.ask(ASK, SCHEMA, read) == 7
        assert len(server.requests) == 1
        assert client(server, tmp_path).ask(ASK, SCHEMA, read) == 7
        assert len(server.requests) == 1  # an answer is asked for once


@pytest.mark.parametrize("tokens", [10**400, 10**12, -5, "12", 1e308])
def test_a_count_of_tokens_beyond_sense_neither_ends_a_run_nor_its_resume(tmp_path, tokens):
    body = whole({"content": GOOD}, usage={"prompt_tokens": 1, "completion_tokens": 1}).body
    reply = Reply(body=body.replace(b'"completion_tokens": 1', f'"completion_tokens": {json.dumps(tokens)}'.encode()))
    with serving(reply) as server:
        asked = client(server, tmp_path)
        assert asked.ask(ASK, SCHEMA, read) == 7 and asked.usage.tokens < 10**9
        assert client(server, tmp_path).ask(ASK, SCHEMA, read) == 7


def test_a_file_of_an_older_run_with_such_a_count_is_asked_again(tmp_path):
    with serving(GOOD) as server:
        client(server, tmp_path).ask(ASK, SCHEMA, read)
        (path,) = tmp_path.glob("*.json")
        path.write_text(path.read_text().replace('"tokens_out": 5', f'"tokens_out": {10**400}'))
        again = client(server, tmp_path)
        assert again.ask(ASK, SCHEMA, read) == 7 and again.usage.outcomes["corrupt_cache"] == 1


def test_a_rate_limit_of_one_thread_holds_back_the_others(tmp_path):
    times, lock = [], threading.Lock()

    def answer(request):
        with lock:
            times.append(time.monotonic())
            return error(429, "slow down", **{"Retry-After": "0.6"}) if len(times) == 1 else Reply(GOOD)

    with serving(answer=answer) as server:
        asked = client(server, tmp_path, concurrency=4, retries=3)
        asked_of = lambda i: asked.ask(numbered(i), SCHEMA, read)  # noqa: E731
        first = threading.Thread(target=asked_of, args=(0,))
        first.start()
        while not times:
            time.sleep(0.01)
        time.sleep(0.1)
        assert asked.each([1, 2, 3], asked_of) == [7, 7, 7]
        first.join()
    assert min(times[1:]) - times[0] >= 0.6


def test_the_time_to_refuse_a_text_grows_with_its_length_and_not_with_its_square():
    def seconds(read_text, text):
        began = time.perf_counter()
        with suppress(ValueError):
            read_text(text)
        return time.perf_counter() - began

    shapes = {
        "a repeated key": lambda n: "{" + ",".join(['"a": 1'] * n) + "}",
        "opened thoughts": lambda n: "<think>" * n,
        "opened fences": lambda n: "```json\n" * n,
        "brackets": lambda n: "[" * n,
    }
    for name, make in shapes.items():
        for read_text in (parse, value_of):
            small, large = (min(seconds(read_text, make(n)) for _ in range(3)) for n in (4_000, 64_000))
            assert large < max(0.05, 100 * small), name  # 16 times the text; the square would be 256 times


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_named_and_not_followed_with_the_key(tmp_path, status):
    with serving(GOOD) as other:
        reply = Reply(status=status, body=b"", headers={"Location": f"{other.url}/chat/completions"})
        with serving(reply) as server, pytest.raises(EndpointError, match=f"sends this client to {other.url}"):
            client(server, tmp_path).ask(ASK, SCHEMA, read)
        assert not other.requests
