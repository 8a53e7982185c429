"""A handler between two connections: nothing is dialled before its verdict, and its answer is cleaned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.exchange import AllowByHandler, AnswerByHandler, DenyByHandler, HandlerFault
from egress.rules.decide.outbound import Outbound
from egress.shares.pool import Resource
from egress.types import Verdict
from tests.unit.relay.wires import VALUE, Lab, get, h2_lab, policy_of, post, response

RULES = """
version: 1
secrets:
  api: {from: "env:API", hosts: ["api.example.test"]}
hosts:
  api.example.test:
    allow:
      - {id: plain, methods: [GET, HEAD, POST], paths: ["/v1/**"], handler: {use: asked}}
      - {id: read, methods: [POST], paths: ["/v2/**"], handler: {use: reader}}
    inject:
      - bearer: api
"""
OUTBOUND = Outbound({"asked": 0, "reader": 1000})


def lab(*, at_hand: bool = True) -> Lab:
    made = Lab(RULES, at_hand=at_hand)
    made.desk.current = replace(policy_of(RULES), outbound=OUTBOUND)
    return made


def test_nothing_is_dialled_announced_or_fetched_before_the_verdict() -> None:
    one = lab(at_hand=False)
    one.says(get())
    assert (dict(one.opening), one.desk.begun, one.fetching) == ({}, [], [])
    one.handles(AllowByHandler())
    one.fetches()
    one.opens()
    (asked,) = one.requests()
    assert asked.headers["authorization"] == f"Bearer {VALUE.decode()}"
    one.answers(response())
    assert one.record.facts["handler_verdict"] == "allow"
    one.check()


@pytest.mark.parametrize("verdict", [DenyByHandler("no"), HandlerFault("timeout")])
def test_a_denial_leaves_no_trace_upstream(verdict: DenyByHandler | HandlerFault) -> None:
    one = lab()
    one.says(get())
    one.handles(verdict)
    (answer,) = one.responses()
    assert (answer.status, answer.is_whole) == (403, True)
    assert not one.desk.begun
    assert one.record.verdict is Verdict.DENY
    one.check()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_an_answer_is_the_response_and_the_connection_goes_on(method: str) -> None:
    one = lab()
    one.says(get(method=method) if method != "POST" else post(b"body"))
    one.handles(AnswerByHandler(201, (("x-a", "1"),), b"made"))
    one.says(get())
    one.handles(AllowByHandler())
    one.opens()
    one.answers(response(b"second"))
    first, second = one.responses(method, "GET")
    assert (first.status, first.headers["x-a"], first.is_whole) == (201, "1", True)
    assert first.body == (b"" if method == "HEAD" else b"made")
    assert (second.status, second.body) == (200, b"second")
    record = one.desk.records[0]
    assert (record.verdict, record.status, record.injected) == (Verdict.ALLOW, 201, ())
    assert not one.desk.left or len(one.desk.left) == 1
    one.check()


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body(status: int) -> None:
    one = lab()
    one.says(get())
    one.handles(AnswerByHandler(status, (), b""))
    (answer,) = one.responses()
    assert (answer.status, answer.body, answer.is_whole) == (status, b"", True)
    assert "content-length" not in answer.headers


def test_an_answer_that_cannot_be_recorded_is_not_given() -> None:
    one = lab()
    one.says(get())
    one.desk.is_stopped = True
    one.handles(AnswerByHandler(200, (), b"x"))
    (answer,) = one.responses()
    assert answer.code == "audit.stopped"


def test_a_body_that_the_handler_wrote_is_sent_with_its_own_length() -> None:
    one = lab()
    one.says(post(b"hello", "/v2/notes"))
    call = one.handles(AllowByHandler(body=b"goodbye!"))
    assert call.body == b"hello"
    one.opens()
    (asked,) = one.requests()
    assert (asked.body, asked.headers["content-length"]) == (b"goodbye!", "8")
    one.answers(response())
    assert one.record.bytes_up == 8
    one.check()


def test_a_body_may_be_taken_away_or_given_to_a_request_without_one() -> None:
    for sent, written in ((b"hello", b""), (b"", b"new")):
        one = lab()
        one.says(post(sent, "/v2/notes"))
        one.handles(AllowByHandler(body=written))
        one.opens()
        (asked,) = one.requests()
        assert (asked.body, asked.is_whole) == (written, True)


def test_a_handler_that_wants_no_body_lets_it_stream_behind_its_verdict() -> None:
    one = lab()
    whole = post(b"hello")
    one.says(whole[:-2])
    assert not one.relay.reads(0), "the client is held while the handler is asked"
    call = one.handles(AllowByHandler())
    assert call.body == b""
    one.opens()
    one.says(whole[-2:])
    (asked,) = one.requests()
    assert asked.body == b"hello"


def test_a_client_that_leaves_ends_the_request_and_the_verdict_comes_too_late() -> None:
    one = lab()
    one.says(get())
    one.leaves()
    one.handles(AllowByHandler())
    assert one.codes == ["client.left"]
    assert not one.opening
    one.check()


def test_a_retry_counts_the_method_that_was_sent() -> None:
    """The client's GET may be sent again, the POST that a handler made of it may not."""
    one = lab()
    one.says(get())
    one.handles(AllowByHandler(method="POST"))
    wire = one.opens()
    one.hangs_up(wire)
    assert not one.opening
    (answer,) = one.responses()
    assert answer.code == "upstream.closed"


def test_new_rules_end_a_request_whose_handler_runs() -> None:
    one = lab()
    one.says(get())
    stricter = replace(policy_of(RULES.replace("/v1/**", "/v9/**")), outbound=OUTBOUND)
    one.do(one.relay.recheck(stricter, 1_800_000_000))
    (answer,) = one.responses()
    assert answer.code == "access.withdrawn"
    one.handles(AllowByHandler())
    assert not one.opening
    one.check()


def test_the_same_over_http2() -> None:
    one, client = h2_lab(RULES)
    one.desk.current = replace(policy_of(RULES), outbound=OUTBOUND)
    first, second = client.ask(), client.ask("/v1/other")
    one.handles(AnswerByHandler(418, (("x-a", "1"),), b"tea"))
    one.handles(DenyByHandler("no"))
    client.flush()
    assert (client.seen(first).status, client.seen(first).body) == (418, b"tea")
    assert client.seen(first).is_whole
    assert client.seen(second).code == "handler.denied"
    one.check()


def test_a_body_counts_until_its_handler_has_answered_whether_its_client_is_there_or_not() -> None:
    one, client = h2_lab(RULES)
    one.desk.current = replace(policy_of(RULES), outbound=OUTBOUND)
    held = one.relay.account.taken
    for verdict in (AllowByHandler(), DenyByHandler()):
        stream = client.ask("/v2/notes", method="POST", ends=False)
        client.say(stream, b"hello", ends=True)
        assert held[Resource.HELD_BODIES] == 5
        client.reset(stream)
        assert held[Resource.HELD_BODIES] == 5
        one.handles(verdict)
        assert held[Resource.HELD_BODIES] == 0
    stream = client.ask("/v2/notes", method="POST", ends=False)
    client.say(stream, b"hello", ends=True)
    one.handles(DenyByHandler())
    assert held[Resource.HELD_BODIES] == 0
