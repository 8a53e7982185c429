"""A server that breaks the protocol of a terminal is told apart from the end of the program."""

from __future__ import annotations

import pytest

from egress.api.websocket_client import WebSocketLostError
from egress.fleet.errors import FleetProtocolError, FleetUnavailableError
from egress.fleet.remote_viewer import RemoteViewer
from egress.runtime.errors import SandboxStateError

VIEW = '{"id":"1","sandbox":"one","argv":["x"],"started":"2026-03-01T09:30:00Z","state":"ended"}'
ENDED = f'{{"type":"ended","process":{VIEW}}}'
PROBLEM = '{"type":"problem","problem":{"type":"sandbox.state","message":"taken","hint":"attach again"}}'


class Stream:
    """The messages of a server, then the end of the connection."""

    def __init__(self, *messages: str | bytes | None) -> None:
        self.messages = list(messages)
        self.sent: list[bytes] = []

    def receive(self) -> str | bytes | None:
        if not self.messages:
            raise WebSocketLostError
        return self.messages.pop(0)

    def send_text(self, data: bytes) -> None:
        self.sent.append(data)

    def end(self) -> None:
        self.messages.clear()


def viewer_of(*messages: str | bytes | None) -> tuple[RemoteViewer, list[str]]:
    left: list[str] = []
    return RemoteViewer(Stream(*messages), lambda _: None, lambda: left.append("left")), left  # type: ignore[arg-type]


def test_output_ends_with_the_program() -> None:
    viewer, left = viewer_of(b"\x01one", '{"type":"taken"}', b"\x01two", ENDED, b"\x01late")
    assert list(viewer) == [b"one", b"two"]
    assert left == ["left"]


@pytest.mark.parametrize("end", [(), (None,)])
def test_a_lost_connection_is_no_end(end: tuple[None, ...]) -> None:
    viewer, _ = viewer_of(b"\x01one", *end)
    assert next(viewer) == b"one"
    with pytest.raises(FleetUnavailableError):
        next(viewer)


def test_a_problem_is_raised() -> None:
    with pytest.raises(SandboxStateError, match="taken"):
        next(viewer_of(PROBLEM)[0])


def test_another_channel_or_message_is_an_error() -> None:
    with pytest.raises(FleetProtocolError):
        next(viewer_of(b"\x02error")[0])
    with pytest.raises(FleetProtocolError):
        next(viewer_of('{"type":"unheard"}')[0])


def test_one_that_was_closed_has_ended() -> None:
    viewer, left = viewer_of(b"\x01one")
    viewer.close()
    assert list(viewer) == []
    assert left == ["left"]
