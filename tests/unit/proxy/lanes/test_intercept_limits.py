"""The stages of an intercepted connection: each has its time, and a whole has the time of its parts."""

from __future__ import annotations

from egress.proxy.lanes.intercept_limits import InterceptLimits


def test_an_upstream_has_time_for_its_handshake_after_the_dial() -> None:
    limits = InterceptLimits()
    assert limits.upstream_open > limits.dial
    assert min(limits.client_tls, limits.dial, limits.secrets, limits.closing) > 0
