"""The client's side of HTTP/1.1; what an attacker does with it is in tests/attack/test_http1_relay.py."""

from __future__ import annotations

from egress.relay.http1_downstream import Http1Downstream
from egress.relay.ports import CLIENT_WIRE
from tests.unit.relay.wires import NAME, CountedTurn, Lab, get, head, post, response


def test_requests_are_answered_in_turn() -> None:
    lab = Lab()
    lab.says(get("/v1/one") + post(b"two") + get("/v1/three", method="HEAD"))
    lab.opens()
    for body in (b"1", b"2", b""):
        assert len(lab.responses("GET", "POST", "HEAD")) < 3
        lab.answers(response(body))
    assert [each.body for each in lab.responses("GET", "POST", "HEAD")] == [b"1", b"2", b""]
    assert [each.method for each in lab.requests()] == ["GET", "POST", "HEAD"]


def test_what_is_sent_ahead_stops_the_reading_until_its_turn() -> None:
    lab = Lab()
    lab.says(get("/v1/one"))
    lab.opens()
    assert lab.relay.reads(CLIENT_WIRE), "so that a client that leaves is noticed"
    lab.says(get("/v1/two"))
    assert not lab.relay.reads(CLIENT_WIRE)
    lab.answers(response())
    assert lab.relay.reads(CLIENT_WIRE)


def test_a_request_that_waits_begins_however_short_its_turn_is() -> None:
    """Where each look at the clock finds the turn over, a turn is still one request."""
    lab = Lab()
    lab.desk.turn = CountedTurn(0)
    lab.is_slow = True
    lab.says(get("/admin") * 3)
    for answered in (0, 1, 2, 3):
        assert len(lab.responses()) == answered
        lab.again()


def test_an_absolute_target_is_split() -> None:
    lab = Lab()
    lab.says(get(f"https://{NAME}/v1/user?q=1"))
    assert lab.requests(lab.opens())[0].target == "/v1/user?q=1"
    lab = Lab()
    lab.says(get("https://evil.example.test/v1/user"))
    assert lab.responses()[0].code == "request.mismatch"
    lab = Lab()
    lab.says(get(f"http://{NAME}/v1/user"))
    assert lab.responses()[0].code == "request.mismatch"


def test_a_page_to_head_has_no_body_and_keeps_the_connection() -> None:
    lab = Lab()
    lab.says(get("/admin", method="HEAD") + get("/admin"))
    first, second = lab.responses("HEAD", "GET")
    assert (first.status, first.body) == (403, b"")
    assert second.body
    assert not lab.closed()


def test_a_fault_in_the_middle_of_a_body_ends_the_exchange() -> None:
    lab = Lab()
    lab.says(get("/v1/n", "Transfer-Encoding: chunked", method="POST") + b"3\r\nabc\r\n")
    lab.opens()
    lab.says(b"nonsense")
    assert lab.responses("POST")[0].code == "request.malformed"
    assert lab.codes == ["request.malformed"]
    lab.says(get())
    assert lab.codes == ["request.malformed"]


def rests(lab: Lab) -> bool:
    return lab.relay.is_resting


def test_a_relay_rests_between_two_requests_alone() -> None:
    """Only then can nothing but the long times of idle connections run out."""
    lab = Lab()
    assert rests(lab)
    lab.says(get("/v1/one"))
    lab.opens()
    assert not rests(lab), "an exchange is under way"
    lab.answers(response(b"1"))
    assert rests(lab)
    lab.says(get("/v1/two")[:5])
    assert not rests(lab), "the time of a head runs"
    lab.says(get("/v1/two")[5:])
    lab.answers(response(b"2"))
    assert rests(lab)


def test_a_relay_does_not_rest_while_a_refused_client_lingers_or_a_request_waits() -> None:
    lab = Lab()
    lab.says(post(b"x" * 100, "/admin")[:-50])
    assert not rests(lab)
    lab = Lab()
    lab.desk.turn = CountedTurn(0)
    lab.is_slow = True
    lab.says(get("/admin") * 2)
    assert not rests(lab)


def test_http2_never_rests() -> None:
    """Its bounds count by the second."""
    assert not rests(Lab(protocol="h2"))


def test_it_knows_when_it_is_idle() -> None:
    lab = Lab()
    client = lab.relay._client
    assert isinstance(client, Http1Downstream)
    assert (client.is_idle, len(client.streams())) == (True, 0)
    lab.says(get())
    assert (client.is_idle, len(client.streams())) == (False, 1)
    lab.opens()
    lab.answers(head("content-length: 0"))
    assert (client.is_idle, len(client.streams())) == (True, 0)
    lab.says(get("/admin", "Content-Length: 5", method="POST"))
    assert (client.is_idle, len(client.streams())) == (False, 0), "it lingers"
