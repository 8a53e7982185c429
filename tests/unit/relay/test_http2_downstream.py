"""The client's side of HTTP/2; what an attacker does with it is in tests/attack/test_http2.py."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.exchange import AnswerHead
from egress.http1 import CHUNKED, NO_BODY, Framing
from egress.relay.http2_downstream import Http2Downstream, _request_of
from egress.relay.ports import CLIENT_WIRE
from tests.unit.relay.wires import NAME, Lab, get, h2_lab, head, response

GOOD = [(":method", "POST"), (":scheme", "https"), (":authority", NAME), (":path", "/v1/n")]


@pytest.mark.parametrize(
    ("fields", "ends", "framing"),
    [
        ([], True, NO_BODY),
        ([], False, CHUNKED),
        ([("content-length", "0")], True, Framing.sized(0)),
        ([("content-length", "5")], False, Framing.sized(5)),
        ([("content-length", "5"), ("content-length", "5")], False, Framing.sized(5)),
    ],
)
def test_the_framing_is_what_is_stated_or_none(
    fields: list[tuple[str, str]], ends: bool, framing: Framing
) -> None:
    request, found, expects = _request_of(GOOD + fields, ends=ends)
    assert found == framing
    assert (request.method, request.target, request.authority, request.scheme) == (
        "POST",
        "/v1/n",
        NAME,
        "https",
    )
    assert not expects


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ([("content-length", "5")], True),
        ([("content-length", "5"), ("content-length", "6")], False),
        ([("content-length", "5, 5")], False),
        ([(":protocol", "websocket")], False),
        ([("transfer_encoding", "chunked")], False),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(fields: list[tuple[str, str]], ends: bool) -> None:
    with pytest.raises(WireError):
        _request_of(GOOD + fields, ends=ends)
    for missing in (0, 1, 3):
        with pytest.raises(WireError):
            _request_of(GOOD[:missing] + GOOD[missing + 1 :], ends=True)


def test_an_expectation_is_one_where_a_body_follows() -> None:
    expect = [("expect", "100-Continue")]
    assert _request_of(GOOD + expect, ends=False)[2]
    assert not _request_of(GOOD + expect, ends=True)[2]


def test_many_requests_are_under_way_at_a_time() -> None:
    lab, client = h2_lab()
    streams = [client.ask(f"/v1/{number}") for number in range(3)]
    while lab.opening:
        lab.opens("http/1.1")
    for wire in reversed(lab.standing):
        lab.answers(response(lab.requests(wire)[0].target.encode()), wire=wire)
    client.flush()
    assert [client.seen(stream).body for stream in streams] == [b"/v1/0", b"/v1/1", b"/v1/2"]
    assert all(client.seen(stream).is_whole for stream in streams)
    lab.check()


def test_trailers_and_hints_of_an_http1_upstream_arrive() -> None:
    lab, client = h2_lab()
    stream = client.ask()
    lab.opens("http/1.1")
    lab.answers(head("link: </a>", status="103 Early Hints"))
    lab.answers(head("transfer-encoding: chunked") + b"2\r\nhi\r\n0\r\nx-check: 1\r\n\r\n")
    client.flush()
    seen = client.seen(stream)
    assert (seen.interim, seen.body, seen.trailers) == (["103"], b"hi", [("x-check", "1")])
    assert "transfer-encoding" not in dict(seen.headers)


def test_there_is_no_switch_of_protocols() -> None:
    lab, client = h2_lab()
    client.ask()
    served = lab.relay._client
    assert isinstance(served, Http2Downstream)
    with pytest.raises(WireError):
        served._halves[1].switch(AnswerHead(101, "", ()))


def test_a_body_that_is_cut_ends_its_stream_and_no_other() -> None:
    lab, client = h2_lab()
    one, two = client.ask(), client.ask()
    lab.opens("http/1.1")
    lab.opens("http/1.1")
    lab.answers(head("content-length: 5") + b"he", wire=1)
    lab.hangs_up(1)
    lab.answers(response(), wire=2)
    client.flush()
    assert client.seen(one).reset is not None
    assert client.seen(two).is_whole


def test_an_http1_client_on_an_http2_wire_is_turned_away() -> None:
    lab = Lab(protocol="h2")
    lab.says(get())
    assert lab.closed()
    assert lab.codes == ["request.malformed"]
    assert lab.relay.reads(CLIENT_WIRE)
