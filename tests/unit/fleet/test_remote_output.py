"""The events of a command: pieces are kept up to the limit, and only its end is an end."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import pytest

from egress.api.client import EventStream
from egress.fleet.errors import FleetProtocolError, FleetUnavailableError
from egress.fleet.remote_output import CommandEventData, RemoteOutput
from egress.runtime.errors import SandboxDiedError
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import ExecResult


class Events(EventStream[CommandEventData]):
    """Events that a test says, in the place of a connection's."""

    def __init__(self, *said: tuple[str, CommandEventData]) -> None:
        self._said = said
        self.name = ""

    def __iter__(self) -> Iterator[CommandEventData]:  # type: ignore[override]
        for name, data in self._said:
            self.name = name
            yield data


def piece(name: str, data: bytes) -> tuple[str, CommandEventData]:
    return name, CommandEventData(base64=b64encode(data).decode())


END = ("exit", CommandEventData(exit_code=3, duration=0.5))


def test_both_outputs_and_the_end_are_taken() -> None:
    told: list[bytes] = []
    output = RemoteOutput(Output(stderr=told.append), 100)
    found = output.take(Events(piece("stdout", b"\xff1"), piece("stderr", b"2"), END))
    result = ExecResult(exit_code=3, stdout_bytes=b"\xff1", stderr_bytes=b"2", duration=0.5)
    assert (found, told) == ((result, True), [b"2"])


def test_what_is_beyond_the_limit_is_dropped_and_noted() -> None:
    result, _ = RemoteOutput(NO_OUTPUT, 2).take(Events(piece("stdout", b"123"), END))
    assert (result.stdout_bytes, result.truncated) == (b"12", True)


def test_events_without_an_end_are_a_lost_server() -> None:
    with pytest.raises(FleetUnavailableError):
        RemoteOutput(NO_OUTPUT, 10).take(Events(piece("stdout", b"1")))


def test_a_problem_is_the_error_of_the_server() -> None:
    died = CommandEventData(type="sandbox.died", message="it is gone")
    with pytest.raises(SandboxDiedError, match="it is gone"):
        RemoteOutput(NO_OUTPUT, 10).take(Events(("problem", died)))


def test_a_piece_that_is_not_base64_breaks_the_protocol() -> None:
    with pytest.raises(FleetProtocolError):
        RemoteOutput(NO_OUTPUT, 10).take(Events(("stdout", CommandEventData(base64="%"))))
