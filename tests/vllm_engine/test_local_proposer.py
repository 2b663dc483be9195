"""SmolLM2 behind vLLM's OpenAI-compatible server on 127.0.0.1, asked by the client with the analysts' schemas."""

import json
import logging
import os
import time

import pytest
from vllm_engine.real import VllmServer, need_vllm

from intraskill.llm.client import BadAnswerError, Endpoint, EndpointError, JsonClient
from intraskill.method.errors import ConfigError
from intraskill.proposers.llm import DECISION, DIAGNOSIS
from intraskill.proposers.llm import SCHEMA as LESSONS
from intraskill.proposers.reduce import SCHEMA as OUTPUTS
from intraskill.proposers.schema import checked
from intraskill.recipes.smollm import smollm_directory

pytestmark = pytest.mark.vllm
need_vllm()

MODEL, KEY, KEY_ENV = "start", "local-secret-91c7", "TEST_LLM_KEY"
FLAGS = (
    *("--dtype", "bfloat16", "--enforce-eager", "--generation-config", "vllm", "--max-model-len", "2048"),
    *("--api-key", KEY, "--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
)
"""The key is asked for, so that a client without it is turned away. JSON allows any white space, and so small a model
fills its whole answer with line breaks where the schema's grammar lets it."""
COLOR = {
    "type": "object",
    "properties": {"color": {"type": "string", "enum": ["red", "green", "blue"]}, "sure": {"type": "integer"}},
    "required": ["color", "sure"],
    "additionalProperties": False,
}
SCHEMAS = {"color": COLOR, "lessons": LESSONS, "diagnosis": DIAGNOSIS, "decision": DECISION, "outputs": OUTPUTS}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    try:
        model = smollm_directory()
    except ConfigError as missing:
        pytest.skip(str(missing))
    running = VllmServer(model, tmp_path_factory.mktemp("vllm") / "log", FLAGS)
    running.start()
    try:
        yield running.wait()
    finally:
        running.kill()


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv(KEY_ENV, KEY)


def client(server, cache, **settings):
    given = {"timeout_s": 300.0, "retries": 0, "max_tokens": 128} | settings
    return JsonClient(Endpoint(f"{server.url}/v1", MODEL, KEY_ENV, **given), cache)


def question(words):
    return [{"role": "system", "content": "Answer in JSON."}, {"role": "user", "content": words}]


def shown(name, begin, usage):
    spent = f"{usage.tokens_in} + {usage.tokens_out} tokens"
    logging.getLogger(__name__).info("%s: %.1f s, %s, %s", name, time.monotonic() - begin, spent, usage.outcomes)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_model_is_held_to_a_schema_of_its_own(server, tmp_path, stream):
    asked, begin = client(server, tmp_path, stream=stream), time.monotonic()
    answer = asked.ask(question("Which color has grass?"), COLOR, lambda data: checked(data, COLOR))
    shown("color", begin, asked.usage)
    assert answer["color"] in ("red", "green", "blue") and isinstance(answer["sure"], int)
    assert asked.usage.outcomes == {"answered": 1} and asked.usage.tokens_in > 10 < asked.usage.tokens_out


def test_whole_and_streamed_answers_are_the_same(server, tmp_path):
    texts = [
        client(server, tmp_path / str(stream), stream=stream, max_tokens=24).text(question("Say hello."))
        for stream in (False, True)
    ]
    assert texts[0] == texts[1] != ""


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_server_takes_every_schema_of_the_analysts(server, tmp_path, name):
    """What a model of 135 million parameters writes is not judged; it must be held to the shape, or be cut off."""
    asked, begin = client(server, tmp_path, structured="on"), time.monotonic()
    words = "The search for a red mug found nothing. Write one short lesson."
    try:
        asked.ask(question(words), SCHEMAS[name], lambda data: checked(data, SCHEMAS[name]))
    except BadAnswerError as error:
        assert "cut off" in str(error)
    shown(name, begin, asked.usage)
    assert asked.usage.outcomes.keys() <= {"answered", "truncated", "reasked", "dropped"}


def test_without_the_schema_the_model_writes_no_such_json(server, tmp_path):
    asked = client(server, tmp_path, structured="off", max_tokens=64)
    with pytest.raises(BadAnswerError):
        asked.ask(question("Which color has grass?"), COLOR, lambda data: checked(data, COLOR))


def test_an_answer_that_meets_the_limit_is_truncated_and_dropped(server, tmp_path):
    asked = client(server, tmp_path, max_tokens=4)
    with pytest.raises(BadAnswerError, match="cut off after 4 tokens"):
        asked.ask(question("Which color has grass?"), COLOR, dict)
    assert asked.usage.outcomes == {"truncated": 2, "reasked": 1, "dropped": 1} and asked.usage.tokens_out == 8


def test_a_question_longer_than_the_model_is_dropped(server, tmp_path):
    asked = client(server, tmp_path)
    with pytest.raises(BadAnswerError, match="too long"):
        asked.ask(question("word " * 3000), COLOR, dict)
    assert asked.usage.outcomes == {"too_long": 1, "dropped": 1}


def test_several_questions_at_once_keep_their_order_and_a_second_run_asks_nothing(server, tmp_path):
    def ask_all(asked):
        begin = time.monotonic()
        found = asked.each(
            range(8), lambda i: asked.ask(question(f"Color {i}?"), COLOR, lambda data: checked(data, COLOR))
        )
        shown(f"8 at {asked.endpoint.concurrency} a time", begin, asked.usage)
        return [json.dumps(one) for one in found]

    at_once, alone = client(server, tmp_path, concurrency=8), client(server, tmp_path / "alone", concurrency=1)
    first = ask_all(at_once)
    assert len(first) == len(ask_all(alone)) == 8
    again = client(server, tmp_path, concurrency=8)
    assert ask_all(again) == first and again.usage.cached == 8 and again.usage.calls == 8


def test_a_server_slower_than_the_patience_is_one_error(server, tmp_path):
    with pytest.raises(EndpointError, match=r"no answer within proposer\.timeout_s=0\.3"):
        client(server, tmp_path, timeout_s=0.3, max_tokens=512).text(question("Write a long story."))


@pytest.mark.parametrize(
    ("change", "words"), [({"key": "wrong-key-0000"}, "check the key"), ({"model": "gone"}, "check proposer.model")]
)
def test_a_wrong_key_and_a_wrong_model_are_named(server, tmp_path, monkeypatch, change, words):
    monkeypatch.setenv(KEY_ENV, change.get("key", KEY))
    asked = Endpoint(f"{server.url}/v1", change.get("model", MODEL), KEY_ENV)
    with pytest.raises(EndpointError, match=words) as caught:
        JsonClient(asked, tmp_path).text(question("Hello"))
    assert "in 1 attempt " in str(caught.value) and os.environ[KEY_ENV] not in str(caught.value)
