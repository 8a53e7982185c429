"""Turns of a poll: the first at once, and the last after the time is over."""

from __future__ import annotations

import time

from egress.runtime.kubernetes.polling import turns


def test_a_poll_begins_at_once_and_ends() -> None:
    began = time.monotonic()
    assert next(turns(60)) is None
    assert time.monotonic() - began < 30
    assert 2 <= len(list(turns(0.3))) <= 6
    assert len(list(turns(0))) <= 2
