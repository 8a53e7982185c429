"""The ports that the lock diverts, and that a gate behind it cannot use to prove a fence."""

from __future__ import annotations

from egress.kubernetes.diverted_ports import DIVERTED_PORTS, DIVERTED_UDP_PORTS


def test_names_pages_and_apis_are_diverted() -> None:
    assert {53, 80, 443} == DIVERTED_PORTS
    assert DIVERTED_UDP_PORTS == (53,)
