"""The three callers of HTTP against servers that misbehave: each fault is typed, bounded, and shows no key."""

import base64
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from net.misbehaving import DRIPS, Script, dripping, endless, head, informing, misbehaving, whole

from intraskill.config.learning import RolloutConfig, VllmConfig
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.remote.transport import RemoteFault
from intraskill.llm.client import BadAnswerError, Endpoint, EndpointError, JsonClient
from intraskill.method.errors import ConfigError, EngineError, IntraSkillError
from intraskill.rl.engines.vllm_server import VllmClient

KEY, KEY_ENV = 'sk-"secret"/5f3a+c9', "TEST_NET_KEY"
SECONDS, FEW_SECONDS = 30.0, 0.4
MOST_BYTES = 48 << 20
"""The longest reply that is read, 32 MiB, and what fits into the buffers of the sockets."""
HEALTH = {"environment_version": "e", "observation_version": "o"}
ANSWER = {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}
MODELS = {"data": [{"id": "start", "max_model_len": 64}]}
Ask = Callable[[str, float], object]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


@pytest.fixture
def analyst(tmp_path: Path) -> Ask:
    def ask(url: str, seconds: float = SECONDS) -> object:
        endpoint = Endpoint(url, "m", KEY_ENV, timeout_s=seconds, retries=1, pause_s=0.01, max_tokens=16)
        return JsonClient(endpoint, tmp_path / "answers").text([{"role": "user", "content": "q"}])

    return ask


def shop(url: str, seconds: float = SECONDS) -> object:
    times = {"step_timeout_s": seconds, "reset_timeout_s": seconds, "backoff_s": 0.01}
    return RemoteShop(url=url, split_sizes={"train": 1}, slots=1, **times).tasks("train")  # type: ignore[arg-type]


def engine(url: str, seconds: float = SECONDS) -> object:
    vllm = VllmConfig(patience_s=seconds, api_key_env=KEY_ENV)
    return VllmClient(url, RolloutConfig(max_context=16, vllm=vllm)).admit()


@pytest.fixture(params=["analyst", "shop", "engine"])
def asked(request: pytest.FixtureRequest, analyst: Ask) -> Ask:
    return {"analyst": analyst, "shop": shop, "engine": engine}[request.param]


def refusal(asked: Ask, script: Script, seconds: float = SECONDS) -> tuple[IntraSkillError, int, int]:
    """Return the error, the bytes that the server could send and the number of its writes."""
    with misbehaving(script) as server, pytest.raises((EndpointError, BadAnswerError, RemoteFault, EngineError)) as got:
        asked(server.url, seconds)
    return got.value, server.sent, server.writes


# -- without end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [endless(), endless(begin=b""), informing], ids=["value", "garbage", "1xx"])
def test_a_reply_without_end_is_read_so_far_and_no_further(asked: Ask, reply: Script) -> None:
    with misbehaving(reply) as server:
        try:
            answer = asked(server.url, SECONDS)
        except (EndpointError, RemoteFault, EngineError) as error:
            assert f"beyond {32 << 20:,} bytes" in str(error) or isinstance(error, EndpointError)
        else:
            assert answer == "", "an answer of the analyst that was cut"
    assert server.sent / len(server.requests) < 2 * MOST_BYTES


@pytest.mark.parametrize("status", [400, 404])
def test_an_error_without_end_is_an_error_of_its_status(asked: Ask, status: int) -> None:
    error, sent, _ = refusal(asked, endless(status))
    assert str(status) in str(error) and sent < MOST_BYTES


def test_an_error_without_end_that_may_pass_costs_little_in_each_attempt(analyst: Ask) -> None:
    error, sent, _ = refusal(analyst, endless(500))
    assert isinstance(error, EndpointError) and "status 500" in str(error) and sent < MOST_BYTES


@pytest.mark.parametrize(
    "reply",
    [dripping(head() + b'{"a": '), dripping(b"HTTP/1.1 200 OK\r\nX: ", b"x"), dripping(b"", b"H")],
    ids=["body", "header", "status line"],
)
def test_a_reply_that_drips_ends_at_the_deadline(asked: Ask, reply: Script) -> None:
    error, _, writes = refusal(asked, reply, FEW_SECONDS)
    assert FEW_SECONDS < DRIPS * 0.04 / 4 and writes < DRIPS / 2
    if isinstance(error, RemoteFault):
        assert error.kind == "timeout"
    else:
        assert "no answer within" in str(error)


# -- another form --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"<html>oops</html>", b"[" * 100_000, b"\xff\xfe\x00", b"7" * 5000])
def test_a_reply_that_is_no_json_is_one_typed_fault(asked: Ask, body: bytes) -> None:
    error, _, _ = refusal(asked, whole(body, kind="text/html"))
    assert "oops" not in str(error) and len(str(error)) < 800


@pytest.mark.parametrize("status", [404, 405, 418])
def test_a_server_that_is_no_vllm_is_named(status: int) -> None:
    words = rf"does not answer /version as vLLM does \(status {status}: Not Found"
    with misbehaving(whole({"detail": "Not Found"}, status)) as server, pytest.raises(EngineError, match=words):
        engine(server.url)


def test_no_redirect_is_followed_with_a_key(asked: Ask) -> None:
    with misbehaving(whole(ANSWER)) as elsewhere:
        for status in (301, 302, 307, 308):
            error, _, _ = refusal(asked, whole(b"{}", status, Location=elsewhere.url))
            assert f"status {status} sends this client to http" in str(error)
        assert elsewhere.requests == []


# -- told to wait --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"Retry_After": "nan"}, {"Retry_After": "0"}, {"Retry_After": "inf"}])
def test_a_server_that_turns_a_request_away_is_asked_again(asked: Ask, headers: dict[str, str]) -> None:
    good = {shop: [whole(HEALTH), whole(b"", 404)], engine: [whole({"version": "0.31.0"}), whole(MODELS)]}
    with misbehaving(whole(b"{}", 429, **headers), *good.get(asked, [whole(ANSWER)])) as server:
        assert asked(server.url, SECONDS)
    assert server.requests[0] == server.requests[1]


def test_a_server_that_turns_everything_away_is_a_fault_that_says_so() -> None:
    error, _, _ = refusal(shop, whole(b"{}", 429, Retry_After="0"))
    assert isinstance(error, RemoteFault) and error.kind == "busy" and "status 429" in str(error)


# -- the key -------------------------------------------------------------------------------------------------------

FORMS = {
    "plain": KEY,
    "in JSON": json.dumps(KEY)[1:-1],
    "in JSON with solidus": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "in \\u": "".join(f"\\u{ord(letter):04X}" for letter in KEY),
    "in \\x": "".join(f"\\x{ord(letter):02x}" for letter in KEY),
    "in an address": quote(KEY, safe=""),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of the header": base64.b64encode(f"Bearer {KEY}!".encode()).decode(),
    "base64 of a pair": base64.urlsafe_b64encode(f"me:{KEY} and more".encode()).decode(),
}
QUOTES = {
    "refusal in JSON": lambda text: whole({"error": {"message": text}}, 418),
    "refusal in words": lambda text: whole(text.encode(), 400),
    "failure": lambda text: whole({"detail": text}, 501),
    "no JSON": lambda text: whole(text.encode()),
    "content type": lambda text: whole(b"no JSON", kind=text),
    "packing": lambda text: whole(b"", Content_Encoding=text),
    "another shape": lambda text: whole({"choices": text, "version": text}),
    "stream": lambda text: whole(b"data: " + json.dumps({"error": text}).encode() + b"\n\n", kind="text/event-stream"),
    "no HTTP": lambda text: lambda send, _: send(text.encode() + b"\r\n\r\n"),
}


LASTING = ("refusal in JSON", "refusal in words", "no JSON", "content type", "packing", "another shape", "stream")


@pytest.mark.parametrize("place", QUOTES)
@pytest.mark.parametrize("who", ["analyst", "engine"])
def test_a_key_that_a_server_quotes_is_shown_nowhere(who: str, place: str, analyst: Ask) -> None:
    ask, brief = {"analyst": (analyst, SECONDS), "engine": (engine, SECONDS if place in LASTING else 1.0)}[who]
    for form in FORMS if brief == SECONDS else ("plain", "base64"):
        for before in (0, 190, 290):
            reply = QUOTES[place]("x" * before + FORMS[form])
            with misbehaving(reply) as server, pytest.raises((EndpointError, EngineError, ConfigError)) as got:
                ask(server.url, brief)
            assert f"Bearer {KEY}".encode() in server.requests[0]
            below = got.value.__traceback__.tb_next  # type: ignore[union-attr]  # this test's own frame holds the key
            shown = traceback.TracebackException(type(got.value), got.value, below, capture_locals=True)
            assert fragments(form) & parts("".join(shown.format(chain=True))) == set(), (form, before)


PIECE = 8
"""Letters of the key, or of one of its forms, in a row that give it away."""


def parts(text: str) -> set[str]:
    return {text[begin : begin + PIECE] for begin in range(len(text) - PIECE + 1)}


def fragments(form: str) -> set[str]:
    """Return all pieces of the key and of a form; of base64 only what holds nothing but the key."""
    written = FORMS[form]
    if form.startswith("base64 of"):
        written = written[-20:-8] if form.endswith("header") else written[6:24]
    return parts(KEY) | parts(written)
