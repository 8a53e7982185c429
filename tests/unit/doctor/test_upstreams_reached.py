"""What came of a host says nothing about the clock unless it was told so."""

from __future__ import annotations

from egress.doctor.diagnosis import ok
from egress.doctor.upstreams import ProbeResult


def test_by_itself_a_host_says_nothing_about_the_clock() -> None:
    found = ProbeResult(ok("a.example.com:443", "answers"))
    assert (found.begins, found.ends, found.misfit) == (None, None, "")
