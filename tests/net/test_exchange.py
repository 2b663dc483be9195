"""The exchange and the policy of repetition by themselves."""

import gzip
import math
import time
import tracemalloc
from email.utils import formatdate

import pytest
from net.misbehaving import misbehaving, whole

from intraskill.net.exchange import HttpCall, HttpClient, HttpReply
from intraskill.net.failures import HttpFailure, wait_asked
from intraskill.net.keys import key_in, scrub
from intraskill.net.retrying import LONGEST_PAUSE_S, Patience, persist

MOST = 1 << 20
KEY, KEY_ENV = "sk-5f3a9c17", "TEST_NET_KEY"


def answer_to(script: object, most_bytes: int = MOST) -> HttpReply | HttpFailure:
    with misbehaving(script) as server:
        return HttpClient().attempt(HttpCall(url=server.url, seconds=30.0, most_bytes=most_bytes))


def test_a_packed_reply_is_unpacked() -> None:
    reply = answer_to(whole(gzip.compress(b'{"a": 1}'), Content_Encoding="gzip"))
    assert isinstance(reply, HttpReply) and reply.body == b'{"a": 1}' and not reply.cut


def test_a_bomb_is_unpacked_to_the_limit_and_no_further() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < MOST
    tracemalloc.start()
    reply = answer_to(whole(bomb, Content_Encoding="gzip"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(reply, HttpReply) and len(reply.body) == MOST and reply.cut
    assert peak < 16 * MOST, "a block is not unpacked whole before it is measured"


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"whole")[:-9]], ids=["no gzip", "cut gzip"])
@pytest.mark.parametrize("packing", ["gzip", "br", "gzip, gzip"])
def test_what_cannot_be_unpacked_is_a_failure(body: bytes, packing: str) -> None:
    reply = answer_to(whole(body, Content_Encoding=packing))
    assert isinstance(reply, HttpFailure) and reply.kind == "protocol"


@pytest.mark.parametrize("size", [MOST, MOST + 1])
def test_the_limit_itself_is_allowed(size: int) -> None:
    reply = answer_to(whole(bytes(size)))
    assert isinstance(reply, HttpReply) and reply.cut == (size > MOST) and len(reply.body) == MOST


@pytest.mark.parametrize("url", ["node1:8000", "ftp://127.0.0.1", "http://a..b", ""])
def test_an_address_that_is_none_is_a_failure_of_the_address(url: str) -> None:
    reply = HttpClient().attempt(HttpCall(url=url, seconds=5.0))
    assert isinstance(reply, HttpFailure) and reply.kind == "address" and not reply.passing


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "300"}, 0.3),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read(headers: dict[str, str], wait_s: float | None) -> None:
    assert wait_asked(headers) == pytest.approx(wait_s)


def test_a_date_is_a_wait_until_then() -> None:
    asked = wait_asked({"retry-after": formatdate(time.time() + 50, usegmt=True)})
    assert asked is not None and 40 < asked <= 50


def pauses(failure: HttpFailure, count: int = 8) -> list[float]:
    return [Patience(first_s=0.5).pause_s(failure, attempt, "a") for attempt in range(count)]


def test_pauses_grow_are_spread_and_end_at_the_longest() -> None:
    found = pauses(HttpFailure("dropped", ""))
    for attempt, pause_s in enumerate(found):
        assert 0.75 <= pause_s / min(0.5 * 2**attempt, LONGEST_PAUSE_S) <= 1.25
    assert len({round(pause_s / 2**attempt, 6) for attempt, pause_s in enumerate(found)}) > 4
    assert found == pauses(HttpFailure("dropped", "")), "the same address gives the same pauses"
    assert found[0] != Patience(first_s=0.5).pause_s(HttpFailure("dropped", ""), 0, "another")


def test_a_429_that_names_no_wait_is_given_a_minute_in_four_pauses() -> None:
    assert sum(pauses(HttpFailure("status", "", 429), 4)) > 0.75 * 75
    assert sum(pauses(HttpFailure("status", "", 503), 4)) < 1.25 * 7.5


def test_a_wait_that_is_asked_for_is_kept_up_to_the_longest() -> None:
    assert 20 <= pauses(HttpFailure("status", "", 429, wait_s=20.0))[0] <= 25
    assert pauses(HttpFailure("status", "", 503, wait_s=1e9))[0] == LONGEST_PAUSE_S
    assert pauses(HttpFailure("status", "", 429, wait_s=0.01))[3] > 1, "a short wait does not end the growing ones"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_does_not_pass(status: int) -> None:
    assert not HttpFailure("status", "", status).passing


@pytest.mark.parametrize(("retries", "total_s", "attempts"), [(3, math.inf, 4), (0, math.inf, 1), (math.inf, 0.0, 1)])
def test_patience_ends_after_its_attempts_or_its_time(retries: float, total_s: float, attempts: int) -> None:
    failure = HttpFailure("refused", "")
    patience = Patience(retries, total_s, first_s=0.001)
    assert persist(lambda _: failure, lambda one: one.passing, patience, "a") == (failure, attempts)
    assert persist(lambda _: failure, lambda _: False, patience, "a") == (failure, 1)


def test_a_key_stays_out_of_a_text_and_a_short_one_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, f" {KEY}\n")
    assert key_in(KEY_ENV) == KEY and scrub(f"a {KEY}b", KEY_ENV) == "a …b"
    assert scrub(f"a {KEY[:-1]}", KEY_ENV) == f"a {KEY[:-1]}"
    monkeypatch.setenv(KEY_ENV, "EMPTY")
    assert scrub("an EMPTY list", KEY_ENV) == "an EMPTY list"
    assert key_in("") == "" and scrub("a", "") == "a"


def test_many_backslashes_are_looked_through_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, "\\" * 12 + KEY)
    text = "\\" * 300_000
    assert scrub(text, KEY_ENV) == text
