"""Waiting for a port ends: something listens, time is over, or nobody is left to listen."""

from __future__ import annotations

import socket

import pytest

from egress.runtime.errors import PortClosedError, SandboxTimeoutError, SpecError
from egress.runtime.fake import FakeRuntime
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import LogEndedError
from egress.sandbox.port_wait import await_port


class Ports(FakeRuntime):
    """Something listens after some time."""

    def __init__(self, tries: int) -> None:
        super().__init__()
        self.tries = tries

    def dial(self, name: str, port: int) -> socket.socket:
        self.tries -= 1
        if self.tries > 0:
            raise PortClosedError("nothing listens", "wait")
        return socket.socket()


def test_it_waits_until_something_listens() -> None:
    ports = Ports(3)
    await_port(CommandRunner(ports, "one"), 80, timeout=30)
    assert ports.tries == 0


def test_it_gives_up() -> None:
    with pytest.raises(SandboxTimeoutError, match=r"port 80 within 0\.1s"):
        await_port(CommandRunner(Ports(10**6), "one"), 80, timeout=0.1)
    with pytest.raises(LogEndedError, match="port 80"):
        await_port(CommandRunner(Ports(10**6), "one"), 80, None, lambda: True)
    with pytest.raises(SpecError):
        await_port(CommandRunner(Ports(1), "one"), 0, None)
