"""The search of a request body for planted values, before the head of the request leaves."""

from __future__ import annotations

import pytest

from egress.credentials import Canaries, CanaryScan
from egress.exchange import Exchange
from egress.relay.held_body import MAX_SEARCH_SECONDS, MAX_SEARCHED_BYTES
from egress.relay.ports import CLIENT_WIRE
from egress.types import Place, RuleRef, Verdict
from tests.unit.relay.wires import IDENTITY, NAME, Desk, Lab, Peer, get, h2_lab, response

CANARIES = Canaries.of(bytes(32), [(RuleRef("canaries", "decoy", Place("a", 1, 1)), "github", False)])
CANARY = CANARIES.all[0].value.encode()
PIECE = b"x" * 10_000


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every exchange looks for the canary."""

    def new_exchange(desk: Desk) -> Exchange:
        policy = desk.policy()
        scan = CanaryScan(CANARIES)
        return Exchange(
            policy, IDENTITY, desk.destination, needles=desk.needles(policy), spend=desk.spend, canaries=scan
        )

    monkeypatch.setattr(Desk, "new_exchange", new_exchange)


def head_of(*fields: str) -> bytes:
    return "\r\n".join(["POST /v1/items HTTP/1.1", f"Host: {NAME}", *fields, "", ""]).encode()


def sized(length: int, *fields: str) -> bytes:
    return head_of(f"Content-Length: {length}", *fields)


CHUNKED_HEAD = head_of("Transfer-Encoding: chunked")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def is_untouched(lab: Lab) -> bool:
    """No connection was asked for, and the audit was told of nothing to be sent."""
    return not (lab.opening or lab.standing or lab.desk.begun or lab.desk.left)


@pytest.mark.parametrize("at_hand", [True, False])
def test_a_canary_in_a_body_is_found_before_anything_is_sent(at_hand: bool) -> None:
    lab = Lab(at_hand=at_hand)
    body = b"a=" + CANARY
    lab.says(sized(len(body)) + body[:10])
    if not at_hand:
        lab.fetches()
    assert is_untouched(lab)
    lab.says(body[10:])
    assert is_untouched(lab)
    assert lab.responses()[0].code == "canary.seen"
    assert (lab.record.verdict, lab.record.code) == (Verdict.DENY, "canary.seen")
    assert lab.record.injected == ()
    lab.check()


@pytest.mark.parametrize("at_hand", [True, False])
def test_a_body_without_one_is_sent_as_it_is(at_hand: bool) -> None:
    lab = Lab(at_hand=at_hand)
    body = b"a=" + CANARY[:-1]
    lab.says(sized(len(body)) + body[:10])
    if not at_hand:
        lab.fetches()
    lab.says(body[10:])
    wire = lab.opens()
    (asked,) = lab.requests(wire)
    assert (asked.body, asked.is_whole) == (body, True)
    lab.answers(response())
    assert (lab.record.verdict, lab.record.bytes_up) == (Verdict.ALLOW, len(body))
    lab.check()


def test_a_canary_behind_the_searched_part_cuts_the_exchange() -> None:
    lab = Lab()
    lab.says(sized(1_000_000))
    while not lab.opening:
        assert lab.relay.reads(CLIENT_WIRE), "the body has to come in to be searched"
        lab.says(PIECE)
    wire = lab.opens()
    assert len(lab.sent[wire]) > MAX_SEARCHED_BYTES, "the searched part follows the head"
    lab.says(CANARY)
    assert CANARY not in lab.sent[wire]
    assert (lab.record.verdict, lab.record.code) == (Verdict.CUT, "canary.seen")
    assert lab.record.injected


def test_no_more_than_the_searched_part_is_kept() -> None:
    lab = Lab()
    lab.says(sized(1_000_000))
    for _ in range(MAX_SEARCHED_BYTES // len(PIECE)):
        lab.says(PIECE)
    assert is_untouched(lab)
    lab.says(PIECE)
    assert lab.opening
    assert not lab.relay.reads(CLIENT_WIRE), "the client is held until there is a connection"


@pytest.mark.parametrize("seen", [True, False])
def test_of_a_body_of_unknown_length_the_first_piece_is_searched(seen: bool) -> None:
    lab = Lab()
    lab.says(CHUNKED_HEAD)
    assert is_untouched(lab)
    lab.says(chunk(CANARY if seen else b"plain"))
    assert is_untouched(lab) is seen
    assert [record.verdict for record in lab.desk.records] == [Verdict.DENY] * seen
    if not seen:
        wire = lab.opens()
        lab.says(chunk(CANARY))
        assert CANARY not in lab.sent[wire]
        assert lab.record.verdict is Verdict.CUT


def test_an_empty_body_of_unknown_length_is_searched_with_its_end() -> None:
    lab = Lab()
    lab.says(CHUNKED_HEAD + b"0\r\n\r\n")
    lab.opens()
    lab.answers(response())
    assert lab.record.verdict is Verdict.ALLOW


def test_a_client_that_waits_for_the_answer_first_waits_no_longer_than_a_second() -> None:
    """Some clients of streams send nothing before the head of the answer has come."""
    lab = Lab()
    lab.says(CHUNKED_HEAD)
    lab.waits(MAX_SEARCH_SECONDS / 2)
    assert is_untouched(lab)
    lab.waits(MAX_SEARCH_SECONDS / 2)
    lab.opens()
    lab.answers(response())
    assert lab.desk.timings[0].body_wait == MAX_SEARCH_SECONDS


def test_a_stated_length_is_waited_for_until_the_client_is_too_slow() -> None:
    lab = Lab()
    lab.says(sized(10) + b"x")
    lab.waits(lab.relay.limits.request_body - 1, steps=10)
    assert is_untouched(lab)
    lab.waits(20, steps=2)
    assert (lab.record.verdict, lab.record.code) == (Verdict.DENY, "request.timeout")


def test_a_client_that_waits_for_a_100_is_not_kept_waiting() -> None:
    lab = Lab()
    lab.says(sized(len(CANARY), "Expect: 100-continue"))
    wire = lab.opens()
    lab.says(CANARY)
    assert CANARY not in lab.sent[wire]
    assert lab.record.verdict is Verdict.CUT


def test_a_request_without_a_body_does_not_wait() -> None:
    lab = Lab()
    lab.says(get())
    assert lab.opening


def test_a_client_that_leaves_while_its_body_is_searched_leaves_nothing_behind() -> None:
    lab = Lab()
    lab.says(sized(10) + b"x")
    lab.leaves()
    assert is_untouched(lab)
    assert lab.record.code == "client.left"
    lab.check()


def test_what_cannot_be_recorded_is_not_sent_behind_the_search_either() -> None:
    lab = Lab()
    lab.says(sized(3) + b"x")
    lab.desk.is_stopped = True
    lab.says(b"yz")
    assert is_untouched(lab)
    assert (lab.record.verdict, lab.record.code) == (Verdict.DENY, "audit.stopped")


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("is_sized", [True, False])
def test_the_same_holds_for_http2(is_sized: bool, seen: bool) -> None:
    lab, client = h2_lab()
    body = CANARY if seen else b"plain"
    fields = [("content-length", str(len(body)))] if is_sized else []
    stream = client.ask("/v1/items", *fields, method="POST", ends=False)
    assert is_untouched(lab)
    client.say(stream, body, ends=True)
    assert is_untouched(lab) is seen
    if seen:
        assert client.seen(stream).code == "canary.seen"
        assert lab.record.verdict is Verdict.DENY
        return
    server = Peer(lab, wire=lab.opens("h2"))
    client.flush()
    assert server.seen(server.newest).body == body
