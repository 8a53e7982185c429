"""A proxy that ends and comes back: noticed each time, and met with what is to be done."""

from __future__ import annotations

import queue
import threading

import pytest

from egress.runtime.errors import GatewayError
from egress.runtime.fake import FakeProxyClient
from egress.runtime.proxy_client import LivenessConnection
from egress.runtime.proxy_monitor import ProxyMonitor


class Ended:
    """A meeting that ends when it is told to."""

    def __init__(self) -> None:
        self._end = threading.Event()

    def wait(self) -> None:
        self._end.wait()

    def close(self) -> None:
        self._end.set()


class Fickle(FakeProxyClient):
    """Is there, or not, as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.is_there = True
        self.meetings: list[Ended] = []

    def open_liveness(self) -> LivenessConnection:
        if not self.is_there:
            raise GatewayError("gone")
        self.meetings.append(Ended())
        return self.meetings[-1]


def test_nothing_begins_without_a_proxy() -> None:
    gateway = Fickle()
    gateway.is_there = False
    with pytest.raises(GatewayError):
        ProxyMonitor(gateway, lambda: None)


def test_each_return_is_told_once() -> None:
    gateway, returns = Fickle(), queue.SimpleQueue[int]()
    presence = ProxyMonitor(gateway, lambda: returns.put(len(gateway.meetings)))
    assert returns.empty()
    for number in (2, 3):
        gateway.meetings[-1].close()
        assert returns.get(timeout=30) == number
    presence.close()
    assert returns.empty()


def test_what_fails_because_it_is_gone_again_is_done_again() -> None:
    gateway, returns = Fickle(), queue.SimpleQueue[str]()
    failures = [GatewayError("gone again"), GatewayError("and again")]

    def returned() -> None:
        if failures:
            raise failures.pop()
        returns.put("done")

    presence = ProxyMonitor(gateway, returned)
    gateway.meetings[-1].close()
    assert returns.get(timeout=30) == "done"
    presence.close()
    assert len(gateway.meetings) == 4


def test_it_ends_while_the_proxy_is_away() -> None:
    gateway = Fickle()
    presence = ProxyMonitor(gateway, lambda: None)
    gateway.is_there = False
    gateway.meetings[-1].close()
    presence.close()
