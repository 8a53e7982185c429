"""What a relay orders, as it may be shown."""

from __future__ import annotations

from egress.relay.ports import CLIENT_WIRE, Close, Fetch, HandBack, Open, Reset, Write
from tests.unit.relay.wires import RULES, VALUE, policy_of


def test_a_write_shows_none_of_its_bytes() -> None:
    write = Write(3, b"authorization: Bearer " + VALUE)
    for shown in (repr(write), str(write), f"{write}", repr([write])):
        assert VALUE.decode() not in shown
        assert "authorization" not in shown
    assert repr(write) == f"Write(wire=3, {22 + len(VALUE)} bytes)"


def test_a_request_that_is_handed_back_shows_none_of_its_bytes() -> None:
    assert repr(HandBack(b"authorization: Bearer " + VALUE)) == f"HandBack({22 + len(VALUE)} bytes)"


def test_orders_name_a_wire_or_a_ticket() -> None:
    assert CLIENT_WIRE == 0
    assert {Close(1).wire, Reset(1).wire, Open(1, ("h2",)).wire} == {1}
    assert Fetch(7, policy_of(RULES), ("api",)).names == ("api",)
