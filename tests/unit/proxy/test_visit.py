"""Values on the way through the door."""

from __future__ import annotations

from egress.proxy.visit import Asked, Refused


def test_a_destination_can_be_refused_before_it_is_decided_about() -> None:
    asked = Asked("connect", ("https", "http"), "api.example.com", 443)
    assert asked.refused("request.mismatch") == Refused("request.mismatch", "connect", "api.example.com", 443)
