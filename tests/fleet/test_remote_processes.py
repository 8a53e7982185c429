"""Processes of another process: all that is promised, and its errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.fleet import RemoteRuntime
from egress.fleet.errors import FleetUnavailableError, ProcessEndedError, ProcessNotFoundError
from egress.fleet.process_interface import TrackedProcess
from egress.runtime.errors import SandboxStateError, SandboxTimeoutError, SpecError
from egress.runtime.spec import Command
from tests.api_server.lab import ApiLab, api_lab, remote_of


@pytest.fixture
def lab() -> Iterator[ApiLab]:
    with api_lab() as lab:
        lab.running()
        yield lab


@pytest.fixture
def remote(lab: ApiLab) -> Iterator[RemoteRuntime]:
    with remote_of(lab) as remote:
        yield remote


def begun(remote: RemoteRuntime, *argv: str) -> TrackedProcess:
    return remote.tracked.start("one", Command(argv=argv))


def test_the_client_has_all_of_it(lab: ApiLab, remote: RemoteRuntime) -> None:
    started = remote.tracked.start("one", Command(argv=("greet",)))
    with remote_of(lab) as other:
        process: TrackedProcess = other.tracked.get("one", started.id)
        first = next(process.follow())
        assert first.data == "grün\n".encode()
        process.write(b"hello")
        process.write(b"")
        process.close_input()
        rest = [each.data for each in process.follow("stdout", first.next)]
        assert b"".join(rest) == b"hello"
        assert process.wait(30).exit_code == 0
        assert process.read("stdout", 6) == started.read("stdout", 6)
        assert process.read("stdout", 6).next == 11
        assert process.status() == other.tracked.all("one")[0] == started.status()
        process.forget()
    assert remote.tracked.all("one") == ()


def test_the_client_raises_what_the_fleet_raises(remote: RemoteRuntime) -> None:
    with pytest.raises(ProcessNotFoundError):
        remote.tracked.get("one", "0" * 16)
    process = remote.tracked.start("one", Command(argv=("sleep", "infinity"), input=b""))
    for error, call in (
        (SandboxTimeoutError, lambda: process.wait(0)),
        (SpecError, lambda: process.read("stdout", 5)),
        (SpecError, lambda: process.follow("stdout", 5)),
        (SpecError, lambda: process.signal("NONE")),
        (SandboxStateError, lambda: process.write(b"x")),
        (SpecError, lambda: remote.tracked.start("one", Command(argv=("cat",), input=b"x"))),
    ):
        with pytest.raises(error):
            call()
    process.kill(0)
    with pytest.raises(ProcessEndedError):
        process.wait(30, log="x")


def test_a_client_leaves_an_output_where_nothing_comes(remote: RemoteRuntime) -> None:
    process = begun(remote, "sleep", "infinity")
    follower = process.follow()
    follower.close()
    assert list(follower) == []


def test_a_lost_connection_is_no_end_of_the_output(remote: RemoteRuntime) -> None:
    process = begun(remote, "greet")
    follower = process.follow()
    next(follower)
    remote.close()
    with pytest.raises(FleetUnavailableError):
        next(follower)
