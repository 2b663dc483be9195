"""The LLM client against a real server on 127.0.0.1 that misbehaves: each failure has one defined end."""

import json
import logging
import socket
import threading
import time
import traceback

import pytest
from llm.faulty_llm import TOKENS_IN, TOKENS_OUT, Reply, error, serving

from intraskill.config.overrides import compose
from intraskill.config.proposing import WHERE_AND_HOW_MUCH
from intraskill.llm.client import BadAnswerError, BudgetError, Endpoint, EndpointError, JsonClient, Limits, parse
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.net.retrying import LONGEST_PAUSE_S
from intraskill.store.provenance import claim, plan_of

KEY, KEY_ENV = "secret-key-5f3a", "TEST_LLM_KEY"
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
GOOD = '{"n": 7}'
PER_CALL = TOKENS_IN + TOKENS_OUT
ASK = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv(KEY_ENV, KEY)


FREE = Limits()


def client(server, cache, limits=FREE, watch=None, **settings):
    fast = {"timeout_s": 5.0, "retries": 2, "pause_s": 0.01}
    url = server if isinstance(server, str) else server.url
    return JsonClient(Endpoint(url, "m", KEY_ENV, **(fast | settings)), cache, limits, watch)


def read(data):
    if not isinstance(data, dict) or not isinstance(data.get("n"), int):
        raise ValueError("n must be an integer")
    return data["n"]


def numbered(i):
    return [{"role": "user", "content": f"number {i}"}]


def test_a_good_answer_is_read_and_the_schema_is_sent(tmp_path):
    with serving(GOOD) as server:
        asked = client(server, tmp_path)
        assert asked.ask(ASK, SCHEMA, read) == 7
    (request,) = server.requests
    assert request["response_format"]["json_schema"] == {"name": "answer", "strict": True, "schema": SCHEMA}
    assert (request["messages"], request["model"], request["max_tokens"]) == (ASK, "m", 4096)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert (asked.usage.calls, asked.usage.tokens, asked.usage.outcomes) == (1, PER_CALL, {"answered": 1})


@pytest.mark.parametrize(
    ("wrong", "outcome", "words"),
    [
        ('{"n": "x"}', "wrong_shape", "n must be an integer"),
        ("no json", "not_json", "not one JSON value"),
        ("", "not_json", "not one JSON value"),
        ('{"n": 1, "n": 2}', "not_json", "'n' stands twice"),
    ],
)
def test_a_wrong_answer_is_asked_again_once_with_the_exact_error(tmp_path, wrong, outcome, words):
    with serving(wrong, GOOD) as server:
        asked = client(server, tmp_path)
        assert asked.ask(ASK, SCHEMA, read) == 7
    assert words in server.requests[1]["messages"][-1]["content"]
    assert asked.usage.outcomes == {outcome: 1, "reasked": 1, "answered": 1}


def test_two_wrong_answers_drop_the_question_and_count_it(tmp_path):
    with serving('{"n": "x"}') as server:
        asked = client(server, tmp_path)
        with pytest.raises(BadAnswerError, match="wrongly twice: n must be an integer"):
            asked.ask(ASK, SCHEMA, read)
    assert len(server.requests) == 2 and (asked.usage.outcomes["reasked"], asked.usage.dropped) == (1, 1)


def test_a_truncated_answer_is_named_and_asked_to_be_shorter_then_dropped(tmp_path):
    with serving(Reply('{"n": 7', finish="length")) as server:
        asked = client(server, tmp_path, max_tokens=16)
        with pytest.raises(BadAnswerError, match="cut off after 16 tokens"):
            asked.ask(ASK, SCHEMA, read)
    assert "much shorter" in server.requests[1]["messages"][-1]["content"]
    assert asked.usage.outcomes == {"truncated": 2, "reasked": 1, "dropped": 1}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(None, refusal="I will not."),
        Reply("", finish="content_filter"),
        error(400, "blocked by content_filter"),
    ],
    ids=["refusal", "filtered answer", "filtered question"],
)
def test_a_refusal_is_counted_and_not_asked_again(tmp_path, reply):
    with serving(reply) as server:
        asked = client(server, tmp_path)
        with pytest.raises(BadAnswerError, match="refused to answer"):
            asked.ask(ASK, SCHEMA, read)
    assert len(server.requests) == 1
    assert asked.usage.outcomes == {"refused": 1, "dropped": 1}


def test_a_question_too_long_for_the_model_is_dropped_and_the_run_goes_on(tmp_path):
    with serving(error(400, "This model's maximum context length is 2048 tokens"), GOOD) as server:
        asked = client(server, tmp_path, concurrency=1)
        found = asked.each([0, 1], lambda i: asked.ask(numbered(i), SCHEMA, read))
    assert isinstance(found[0], BadAnswerError) and found[1] == 7 and len(server.requests) == 2


PASSING = {
    "dropped": Reply(drop=-1),
    "429": error(429, "slow down"),
    "500": error(500, "oops"),
    "garbage": Reply(body=b"<html>garbage"),
    "no choices": Reply(body=b'{"choices": []}'),
    "no text": Reply(body=b'{"choices": [{"message": {"content": 7}}]}'),
    "slow": Reply(GOOD, seconds=0.6),
    "dripping": Reply(GOOD, drip_s=0.05),
}


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING)
def test_passing_trouble_is_waited_out(tmp_path, trouble):
    with serving(trouble, GOOD) as server:
        asked = client(server, tmp_path, timeout_s=0.3)
        assert asked.ask(ASK, SCHEMA, read) == 7
    assert len(server.requests) == 2 and asked.usage.outcomes == {"retried": 1, "answered": 1}


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING)
def test_lasting_trouble_ends_in_one_clear_error(tmp_path, trouble):
    with serving(trouble) as server, pytest.raises(EndpointError, match="in 2 attempts") as caught:
        client(server, tmp_path, timeout_s=0.3, retries=1).ask(ASK, SCHEMA, read)
    assert server.url in str(caught.value) and KEY_ENV in str(caught.value) and len(server.requests) == 2


def test_a_server_that_is_down_is_one_clear_error(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
    with pytest.raises(EndpointError, match=r"check that the server runs"):
        client(url, tmp_path).ask(ASK, SCHEMA, read)


@pytest.mark.parametrize(("status", "words"), [(401, "check the key"), (403, "check the key"), (404, "proposer.model")])
def test_what_no_repeat_can_mend_is_not_repeated(tmp_path, status, words):
    with serving(error(status, "no")) as server, pytest.raises(EndpointError, match=words):
        client(server, tmp_path).ask(ASK, SCHEMA, read)
    assert len(server.requests) == 1


@pytest.mark.parametrize(("header", "asked_s"), [({"Retry-After": "0.3"}, 0.3), ({"retry-after-ms": "300"}, 0.3)])
def test_the_wait_that_a_server_asks_for_is_kept(tmp_path, header, asked_s):
    with serving(Reply(status=429, body=b"{}", headers=header), GOOD) as server:
        begin = time.monotonic()
        client(server, tmp_path).ask(ASK, SCHEMA, read)
        waited = time.monotonic() - begin
    assert asked_s <= waited < 10 * asked_s


def test_a_wait_without_measure_is_capped_and_growing_pauses_too(tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr("intraskill.net.retrying.time.sleep", waits.append)
    with serving(error(429, "", **{"Retry-After": "86400"}), *[error(503, "")] * 9, GOOD) as server:
        client(server, tmp_path, retries=10, pause_s=1.0).ask(ASK, SCHEMA, read)
    pauses = [wait for wait in waits if wait]
    assert pauses[0] == LONGEST_PAUSE_S and max(pauses) <= 1.25 * LONGEST_PAUSE_S
    growing = [wait for wait in pauses if wait < LONGEST_PAUSE_S / 2]  # without those of the other threads' wait
    assert growing[0] < growing[1] < growing[2]


def test_a_server_without_structured_output_is_asked_in_plain_text_and_that_is_noted_once(tmp_path, caplog):
    def answer(request):
        return error(400, "response_format is not supported") if "response_format" in request else Reply(GOOD)

    with serving(answer=answer) as server:
        asked = client(server, tmp_path)
        assert asked.each(range(6), lambda i: asked.ask(numbered(i), SCHEMA, read)) == [7] * 6
        before = len(server.requests)
        asked.ask(ASK, SCHEMA, read)
    assert len(server.requests) == before + 1 and asked.usage.outcomes["unstructured"] == 1
    assert sum("no structured output" in record.message for record in caplog.records) == 1


def test_structured_output_can_be_left_out_or_insisted_on(tmp_path):
    with serving(GOOD) as server:
        client(server, tmp_path, structured="off").ask(ASK, SCHEMA, read)
    assert "response_format" not in server.requests[0]
    with serving(error(400, "response_format")) as server, pytest.raises(EndpointError, match=r"proposer\.structured"):
        client(server, tmp_path / "b", structured="on").ask(ASK, SCHEMA, read)
    assert len(server.requests) == 1


def test_a_server_that_wants_the_newer_name_of_the_limit_gets_it(tmp_path):
    def answer(request):
        return error(400, "use 'max_completion_tokens' instead") if "max_tokens" in request else Reply(GOOD)

    with serving(answer=answer) as server:
        assert client(server, tmp_path).ask(ASK, SCHEMA, read) == 7
    assert server.requests[-1]["max_completion_tokens"] == 4096 and "response_format" in server.requests[-1]


def test_a_streamed_answer_is_put_together_with_its_usage(tmp_path):
    text = json.dumps({"n": 7, "words": "grün 颜色 \u2028"}, ensure_ascii=False)
    with serving(text) as server:
        asked = client(server, tmp_path, stream=True)
        assert asked.ask(ASK, SCHEMA, dict) == json.loads(text)
    assert asked.usage.tokens == PER_CALL and server.requests[0]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("drop", [0, 2, 4])
def test_a_stream_that_breaks_is_asked_for_again(tmp_path, drop):
    with serving(Reply(GOOD, drop=drop), GOOD) as server:
        asked = client(server, tmp_path, stream=True)
        assert asked.ask(ASK, SCHEMA, read) == 7
    assert asked.usage.outcomes["retried"] == 1 and asked.usage.calls == 1


def test_an_answer_without_end_is_cut_and_counted_as_truncated(tmp_path):
    with serving(Reply("x" * 30, endless=True)) as server:
        asked = client(server, tmp_path, stream=True, max_tokens=16)
        with pytest.raises(BadAnswerError, match="cut off"):
            asked.ask(ASK, SCHEMA, read)
    assert asked.usage.outcomes["truncated"] == 2
    huge = Reply(json.dumps({"n": 7, "pad": "x" * 3_000_000}))
    with serving(huge) as server, pytest.raises(BadAnswerError, match="cut off"):
        client(server, tmp_path / "b", max_tokens=16).ask(ASK, SCHEMA, read)


def test_tokens_that_a_server_does_not_count_are_estimated(tmp_path):
    with serving(Reply(GOOD, usage=None)) as server:
        asked = client(server, tmp_path)
        asked.ask(ASK, SCHEMA, read)
    assert asked.usage.tokens_in > 0 < asked.usage.tokens_out and asked.usage.outcomes["estimated"] == 1


@pytest.mark.parametrize("count", [-5, float("inf"), "many"])
def test_a_count_of_tokens_that_no_budget_could_use_is_estimated(tmp_path, count):
    with serving(Reply(GOOD, usage={"prompt_tokens": count, "completion_tokens": count})) as server:
        asked = client(server, tmp_path, Limits(max_tokens=1))
        asked.ask(ASK, SCHEMA, read)
        with pytest.raises(BudgetError):
            asked.ask(numbered(1), SCHEMA, read)
    assert asked.usage.tokens_in > 0 < asked.usage.tokens_out and asked.usage.outcomes["estimated"] == 1


def test_half_a_surrogate_pair_is_replaced_so_that_the_answer_can_be_kept_and_is_paid_once(tmp_path):
    body = json.dumps({"choices": [{"message": {"content": '{"n": 7, "t": "\ud800"}'}, "finish_reason": "stop"}]})
    for _ in range(2):
        with serving(Reply(body=body.encode())) as server:
            asked = client(server, tmp_path)
            assert asked.ask(ASK, SCHEMA, dict) == {"n": 7, "t": "�"}
    assert asked.usage.cached == 1 and server.requests == []


def test_an_answer_is_paid_once_in_a_life_wherever_the_server_stands(tmp_path):
    with serving(GOOD) as server:
        client(server, tmp_path).ask(ASK, SCHEMA, read)
    with serving(GOOD) as moved:
        again = client(moved, tmp_path)
        assert again.ask(ASK, SCHEMA, read) == 7
        assert moved.requests == [] and (again.usage.cached, again.usage.calls) == (1, 1)
        for other in ({"temperature": 0.5}, {"max_tokens": 99}):
            client(moved, tmp_path, **other).ask(ASK, SCHEMA, read)
        client(moved, tmp_path).ask(ASK, {"type": "object"}, read)
        again.text(ASK)
        again.text(ASK, seed=1)
        assert len(moved.requests) == 5


def test_the_same_question_from_many_threads_is_paid_once(tmp_path):
    with serving(Reply(GOOD, seconds=0.1)) as server:
        asked = client(server, tmp_path, concurrency=8)
        assert asked.each(range(8), lambda _: asked.ask(ASK, SCHEMA, read)) == [7] * 8
    assert len(server.requests) == 1 and asked.usage.cached == 7


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"answer": {"text": 3}}', b"\xff\xfe", b'{"question": 1}'])
def test_a_damaged_cache_file_is_asked_again_and_counted(tmp_path, damage):
    with serving(GOOD) as server:
        client(server, tmp_path).ask(ASK, SCHEMA, read)
        (path,) = tmp_path.iterdir()
        sound = path.read_bytes()
        path.write_bytes(damage)
        again = client(server, tmp_path)
        assert again.ask(ASK, SCHEMA, read) == 7
    assert again.usage.outcomes["corrupt_cache"] == 1 and len(server.requests) == 2
    assert path.read_bytes() == sound and list(tmp_path.iterdir()) == [path]


def test_answers_keep_the_order_of_the_items_and_the_limit_of_calls_at_once(tmp_path):
    def answer(request):
        number = int(request["messages"][0]["content"].split()[1])
        return Reply(json.dumps({"n": number if number != 5 else "x"}), seconds=0.02 * (10 - number))

    with serving(answer=answer) as server:
        asked = client(server, tmp_path, concurrency=3)
        found = asked.each(range(10), lambda i: asked.ask(numbered(i), SCHEMA, read) if i != 5 else bad(asked))
    assert [one for i, one in enumerate(found) if i != 5] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert isinstance(found[5], BadAnswerError) and server.most_open == 3


def bad(asked):
    raise BadAnswerError("no")


def test_an_endpoint_that_fails_stops_the_rest_and_a_resume_pays_only_what_is_left(tmp_path):
    broken = threading.Event()
    broken.set()

    def answer(request):
        failing = broken.is_set() and request["messages"][0]["content"] == "number 3"
        return error(401, "no") if failing else Reply(GOOD, seconds=0.05)

    with serving(answer=answer) as server:
        asked = client(server, tmp_path, concurrency=2)
        with pytest.raises(EndpointError, match="check the key"):
            asked.each(range(20), lambda i: asked.ask(numbered(i), SCHEMA, read))
        assert 3 <= asked.usage.calls < 20
        broken.clear()
        again = client(server, tmp_path, concurrency=2)
        assert again.each(range(20), lambda i: again.ask(numbered(i), SCHEMA, read)) == [7] * 20
        assert again.usage.calls == 20 and len(server.requests) == 21


@pytest.mark.parametrize(
    ("limits", "raised", "words"),
    [
        (Limits(max_calls=4), Limits(), "4 calls are allowed"),
        (Limits(max_tokens=4 * PER_CALL), Limits(max_tokens=100 * PER_CALL), r"proposer\.budget_tokens=60 and 60"),
        (
            Limits(max_cost=4 * PER_CALL / 1e6, price_in=1.0, price_out=1.0),
            Limits(max_cost=1.0, price_in=1.0, price_out=1.0),
            r"proposer\.budget_cost=6e-05",
        ),
    ],
    ids=["calls", "tokens", "cost"],
)
def test_a_budget_stops_cleanly_and_a_higher_one_goes_on(tmp_path, limits, raised, words):
    with serving(GOOD) as server:
        asked = client(server, tmp_path, limits, concurrency=1)
        with pytest.raises(BudgetError, match=words) as caught:
            asked.each(range(9), lambda i: asked.ask(numbered(i), SCHEMA, read))
        assert "raise the limit and run the same command again" in str(caught.value) and len(server.requests) == 4
        same = client(server, tmp_path, limits)
        assert same.usage.calls == 4 and same.ask(numbered(0), SCHEMA, read) == 7
        with pytest.raises(BudgetError):
            same.ask(numbered(8), SCHEMA, read)
        more = client(server, tmp_path, raised)
        assert more.each(range(9), lambda i: more.ask(numbered(i), SCHEMA, read)) == [7] * 9
    assert len(server.requests) == 9


def test_a_limit_of_calls_is_exact_among_threads(tmp_path):
    with serving(Reply(GOOD, seconds=0.02)) as server:
        asked = client(server, tmp_path, Limits(max_calls=10), concurrency=8)
        with pytest.raises(BudgetError):
            asked.each(range(40), lambda i: asked.ask(numbered(i), SCHEMA, read))
    assert len(server.requests) == 10


def test_a_cost_limit_without_prices_is_refused():
    with pytest.raises(ConfigError, match="never reached; set proposer.price_in"):
        Limits(max_cost=1.0)


def test_whoever_watches_sees_the_use_grow(tmp_path):
    seen = []
    with serving(GOOD) as server:
        asked = client(server, tmp_path, watch=seen.append)
        asked.each(range(5), lambda i: asked.ask(numbered(i), SCHEMA, read))
        client(server, tmp_path, watch=seen.append).ask(numbered(0), SCHEMA, read)
    assert [usage.calls for usage in seen[:5]] == sorted(usage.calls for usage in seen[:5])
    assert seen[4].tokens == 5 * PER_CALL and seen[5].cached == 1


def test_plain_text_comes_as_it_is_with_its_seed_and_length(tmp_path):
    with serving(Reply("```json\n{}\n``` and", finish="length")) as server:
        asked = client(server, tmp_path, max_tokens=9)
        assert asked.text(ASK, seed=4) == "```json\n{}\n``` and"
    assert (server.requests[0]["max_tokens"], server.requests[0]["seed"]) == (9, 4)
    assert "response_format" not in server.requests[0] and asked.usage.outcomes == {"truncated": 1}


LEAKS = {
    "an error that quotes it": error(401, f"wrong key {KEY}"),
    "an answer that quotes it": Reply(f"{KEY} is no JSON"),
    "a refusal that quotes it": Reply(None, refusal=f"not with {KEY}"),
    "a broken reply that quotes it": Reply(body=KEY.encode()),
    "a dropped connection": Reply(drop=-1),
}


@pytest.mark.parametrize("reply", LEAKS.values(), ids=LEAKS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_key_is_in_no_file_no_message_no_log_and_no_traceback(tmp_path, caplog, capfd, reply, stream):
    caplog.set_level(logging.DEBUG)
    with serving(reply) as server, pytest.raises((BadAnswerError, EndpointError)) as caught:
        client(server, tmp_path, stream=stream, retries=1).ask(ASK, SCHEMA, read)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    below = caught.value.__traceback__.tb_next  # this test's own frame holds the key
    shown = traceback.TracebackException(type(caught.value), caught.value, below, capture_locals=True)
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in str(error) + repr(error) + repr(vars(error))
        assert not hasattr(error, "request")
        error = error.__cause__ or error.__context__
    assert KEY not in "".join(shown.format(chain=True))
    assert KEY not in caplog.text and KEY not in "".join(capfd.readouterr())
    assert all(KEY not in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_a_key_that_no_header_can_hold_is_named_without_being_shown(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_ENV, "schlüssel-5f3a")
    with serving(GOOD) as server, pytest.raises(EndpointError, match=KEY_ENV) as caught:
        client(server, tmp_path).ask(ASK, SCHEMA, read)
    assert "5f3a" not in str(caught.value) and server.requests == []


@pytest.mark.parametrize(
    "url", ["localhost:8000", "", "ftp://a/v1", "http://", "http://user:pass@host/v1", "http://h/v1/chat/completions"]
)
def test_an_address_that_is_none_or_a_route_or_holds_a_password_is_refused(tmp_path, url):
    with pytest.raises(ConfigError, match=r"proposer\.base_url") as caught:
        client(url, tmp_path)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "unwrapped"),
    [
        ('{"a": 1}', False),
        ('  {"a": 1}\n', False),
        ('```json\n{"a": 1}\n```', True),
        ('```\n{"a": 1}```', True),
        ('<think>\nwhat {"b": 2} now\n</think>\n\n{"a": 1}', True),
        ('<think></think>```json\n{"a": 1}\n```\n', True),
    ],
)
def test_a_fence_and_a_think_block_are_taken_off(text, unwrapped):
    assert parse(text) == ({"a": 1}, unwrapped)


@pytest.mark.parametrize(
    "text",
    [
        'Here it is: {"a": 1}',
        '{"a": 1} Done.',
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": NaN}',
        '{"a": 1}{"a": 2}',
        '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```',
        '<think>{"a": 1}',
        '{"a": "\\ud800"}',
        '{"a": 1, "a": 1}',
        "[" * 100_000,
        "",
    ],
)
def test_nothing_else_is_taken_for_json_and_nothing_is_repaired(text):
    with pytest.raises(ValueError, match=r"JSON|twice|surrogate|deep|finite"):
        parse(text)


def test_a_run_goes_on_with_another_budget_address_and_pace_but_not_with_another_model(tmp_path):
    words = ["proposer.name=openai", "proposer.model=m"]
    changed = {
        **{"base_url": "http://other/v1", "api_key_env": "OTHER", "concurrency": 9, "timeout_s": 9.0, "retries": 9},
        **{"stream": True, "budget_tokens": 9, "budget_cost": 9.0, "price_in": 9.0, "price_out": 9.0},
    }
    assert set(changed) == set(WHERE_AND_HOW_MUCH)
    claim(tmp_path / "run", plan_of(compose(words)), {})
    other = plan_of(compose([*words, *(f"proposer.{name}={value}" for name, value in changed.items())]))
    claim(tmp_path / "run", other, {})
    with pytest.raises(ArtifactError, match=r"proposer\.model: 'm' there, 'n' here"):
        claim(tmp_path / "run", plan_of(compose([*words, "proposer.model=n"])), {})
