"""The way of a response: what holds the upstream, and what lets it go on."""

from __future__ import annotations

import gzip
import os

import pytest

from egress.relay.ports import CLIENT_WIRE, WireEnd
from tests.attack.test_websocket import ASK, agree, frame
from tests.unit.relay.wires import VALUE, Lab, Peer, get, h2_lab, head

BODY = (os.urandom(4000) + bytes(1 << 20)) * 3
PACKED = gzip.compress(BODY)


def decoding() -> tuple[Lab, int]:
    """A response of which one turn decodes a part."""
    lab = Lab(steps=5)
    lab.says(get("/v1/x"))
    wire = lab.opens("http/1.1")
    lab.is_slow = True
    lab.answers(head("content-encoding: gzip", f"content-length: {len(PACKED)}") + PACKED, wire=wire)
    return lab, wire


def test_the_upstream_is_held_while_a_response_is_decoded_and_read_again_behind_it() -> None:
    lab, wire = decoding()
    assert not lab.relay.reads(wire)
    assert lab.turns == 1
    while not lab.codes:
        lab.again()
    lab.again()
    assert lab.relay.reads(wire)
    assert lab.codes == ["rule.allowed"]


def test_a_client_that_leaves_ends_what_is_still_to_be_decoded() -> None:
    lab, _ = decoding()
    lab.leaves()
    assert lab.codes == ["client.left"]
    sent = len(lab.sent[CLIENT_WIRE])
    lab.again()
    assert len(lab.sent[CLIENT_WIRE]) == sent
    lab.check()


def test_a_rule_that_goes_ends_what_is_still_to_be_decoded() -> None:
    lab, _ = decoding()
    lab.shuts("access.withdrawn")
    assert lab.codes == ["access.withdrawn"]
    lab.again()
    lab.check()


@pytest.mark.parametrize("how", ["clean", "unproven", "cut"])
def test_a_response_that_has_come_whole_is_passed_on_though_its_upstream_leaves(how: WireEnd) -> None:
    """It leaves while a part of the response is still to be decoded."""
    lab, wire = decoding()
    lab.hangs_up(wire, how)
    while not lab.codes:
        lab.again()
    assert lab.codes == ["rule.allowed"]
    (answer,) = lab.responses()
    assert (answer.body, answer.is_whole) == (BODY, True)
    lab.check()


@pytest.mark.parametrize("leaves", ["goodbye", "reset", "ended"])
def test_the_same_of_an_upstream_that_speaks_http2(leaves: str) -> None:
    lab, client = h2_lab(steps=5)
    stream = client.ask("/v1/x")
    server = Peer(lab, wire=lab.opens("h2"))
    lab.is_slow = True
    server.reply(server.newest, ("content-encoding", "gzip"), body=PACKED)
    assert lab.codes == []
    match leaves:
        case "goodbye":
            server.h2.close_connection()
            server.flush()
        case "reset":
            server.send(b"\0\0\4\3\0" + server.newest.to_bytes(4, "big") + bytes(4))
        case _:
            lab.hangs_up(server.wire)
    for _ in range(500):
        lab.again()
        client.flush()
    assert lab.codes == ["rule.allowed"]
    assert (client.seen(stream).body, client.seen(stream).is_whole) == (BODY, True)
    lab.check()


def test_an_upstream_that_leaves_in_the_middle_of_a_response_cuts_it() -> None:
    """The positive control: what has not come whole is not passed on as whole."""
    lab = Lab(steps=5)
    lab.says(get("/v1/x"))
    wire = lab.opens("http/1.1")
    lab.is_slow = True
    packed = PACKED[:-100]
    lab.answers(head("content-encoding: gzip", f"content-length: {len(PACKED)}") + packed, wire=wire)
    lab.hangs_up(wire)
    for _ in range(100):
        lab.again()
    assert lab.codes == ["upstream.closed"]
    (answer,) = lab.responses()
    assert not answer.is_whole
    lab.check()


def test_a_websocket_that_ends_within_a_message_gets_nothing_behind_its_last_frame() -> None:
    """The search holds back what may be the beginning of a secret: it belongs to no frame any more."""
    lab = Lab()
    lab.says(get("/ws", *ASK))
    lab.opens()
    lab.answers(agree())
    lab.new()
    lab.answers(frame(1, b"abc" + VALUE[:8], fin=False) + frame(8, b"\x03\xe8"))
    lab.says(frame(8, b"\x03\xe8", mask=True))
    assert lab.closed()
    assert lab.new().endswith(frame(8, b"\x03\xe8"))
