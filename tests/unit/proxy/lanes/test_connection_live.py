"""The set of carried connections."""

from __future__ import annotations

from typing import cast

from egress.proxy.lanes.connection import LiveConnection, LiveConnections


def test_holds_what_has_entered_until_it_leaves() -> None:
    live, one, two = LiveConnections(), cast("LiveConnection", object()), cast("LiveConnection", object())
    live.enter(one)
    live.enter(two)
    assert len(live) == 2
    live.leave(one)
    live.leave(one)
    assert list(live) == [two]


def test_what_is_walked_over_may_leave_meanwhile() -> None:
    live = LiveConnections()
    for _ in range(3):
        live.enter(cast("LiveConnection", object()))
    for carried in live:
        live.leave(carried)
    assert not len(live)
