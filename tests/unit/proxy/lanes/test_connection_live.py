"""The set of carried connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from egress.proxy.lanes.connection import LiveConnection, LiveConnections
from egress.types import Identity, Workload


class Carried:
    """What a lane carries, as far as the set looks at it."""

    def __init__(self, pod: str) -> None:
        workload = Workload("agents", pod, f"{pod}-uid") if pod else None
        self.admitted = SimpleNamespace(identity=Identity("box", workload=workload))


def carried(pod: str = "") -> LiveConnection:
    return cast("LiveConnection", Carried(pod))


def test_holds_what_has_entered_until_it_leaves() -> None:
    live, one, two = LiveConnections(), carried(), carried()
    live.enter(one)
    live.enter(two)
    assert len(live) == 2
    live.leave(one)
    live.leave(one)
    assert list(live) == [two]


def test_what_is_walked_over_may_leave_meanwhile() -> None:
    live = LiveConnections()
    for _ in range(3):
        live.enter(carried())
    for each in live:
        live.leave(each)
    assert not len(live)


def test_the_connections_of_a_pod_are_found_without_a_walk_through_all() -> None:
    live, one, two = LiveConnections(), carried("p"), carried("p")
    for each in (one, two, carried("q"), carried()):
        live.enter(each)
    assert set(live.of_pod("p-uid")) == {one, two}
    assert live.of_pod("none") == ()
    live.leave(one)
    live.leave(two)
    live.leave(two)
    assert live.of_pod("p-uid") == ()
    assert live._of_pods.keys() == {"q-uid"}
