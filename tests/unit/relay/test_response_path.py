"""The way of a response: what holds the upstream, and what lets it go on."""

from __future__ import annotations

import gzip
import os

from egress.relay.ports import CLIENT_WIRE
from tests.unit.relay.wires import Lab, get, head

PACKED = gzip.compress((os.urandom(4000) + bytes(1 << 20)) * 3)


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
