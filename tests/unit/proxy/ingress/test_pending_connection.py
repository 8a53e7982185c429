"""Values on the way through the door."""

from __future__ import annotations

from egress.proxy.ingress.pending_connection import IngressRefusal, RequestedDestination


def test_a_destination_can_be_refused_before_it_is_decided_about() -> None:
    asked = RequestedDestination("connect", ("https", "http"), "api.example.com", 443)
    assert asked.refused("request.mismatch") == IngressRefusal(
        "request.mismatch", "connect", "api.example.com", 443
    )
