"""A text is found as it is, wherever the output was cut, and not over a gap."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as some

from egress.fleet.errors import ProcessEndedError
from egress.fleet.process_interface import OutputName, OutputPiece
from egress.fleet.process_wait import MAX_TEXT_LENGTH, ProcessExpectation
from egress.runtime.byte_ring import ByteRing
from egress.runtime.errors import PortClosedError, SpecError


@dataclass(slots=True)
class RingProcess:
    """A process whose output a test writes."""

    max_bytes: int = 1000
    is_over: bool = False
    rings: dict[OutputName, ByteRing] = field(init=False)

    def __post_init__(self) -> None:
        self.rings = {"stdout": ByteRing(self.max_bytes), "stderr": ByteRing(self.max_bytes)}

    def read_piece(self, stream: OutputName, offset: int, most: int | None) -> OutputPiece:
        ring = self.rings[stream]
        at, data = ring.read(offset, most)
        return OutputPiece(at, data, ring.first)


def closed(port: int) -> socket.socket:
    raise PortClosedError(f"nothing listens on port {port}", "start it")


@given(some.lists(some.text("ab", max_size=4)), some.text("ab", min_size=1, max_size=5))
def test_a_text_is_found_wherever_it_was_cut(pieces: list[str], wanted: str) -> None:
    process = RingProcess()
    expected = ProcessExpectation(process, closed, wanted, None, None)
    seen = ""
    for piece in pieces:
        process.rings["stderr"].add(piece.encode())
        seen += piece
        assert expected.is_met() == (wanted in seen)
        if wanted in seen:
            return


def test_a_text_does_not_reach_over_a_gap() -> None:
    process = RingProcess(max_bytes=2)
    expected = ProcessExpectation(process, closed, "ab", None, None)
    process.rings["stdout"].add(b"xa")
    assert not expected.is_met()
    process.rings["stdout"].add(b"yzbb")
    assert not expected.is_met()


def test_output_before_the_end_counts_and_then_nothing_more() -> None:
    process = RingProcess(is_over=True)
    process.rings["stdout"].add(b"ready")
    assert ProcessExpectation(process, closed, "ready", None, None).is_met()
    assert ProcessExpectation(process, closed, "", None, None).is_met()
    for log, port in (("other", None), ("", 80)):
        with pytest.raises(ProcessEndedError):
            ProcessExpectation(process, closed, log, port, None).is_met()


def test_a_listener_is_found() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        expected = ProcessExpectation(RingProcess(), lambda _: theirs, "", 80, None)
        assert expected.is_met()
        assert theirs.fileno() == -1


def test_only_a_port_is_looked_at_again_without_a_change() -> None:
    process = RingProcess()
    assert ProcessExpectation(process, closed, "x", None, None).pause(None) is None
    port = ProcessExpectation(process, closed, "", 80, None)
    assert not port.is_met()
    pause = port.pause(None)
    assert pause is not None
    assert port.pause(pause / 2) == pause / 2


@pytest.mark.parametrize(("log", "port"), [("x", 80), ("x" * (MAX_TEXT_LENGTH + 1), None), ("", 0)])
def test_an_impossible_wait_is_refused(log: str, port: int | None) -> None:
    with pytest.raises(SpecError):
        ProcessExpectation(RingProcess(), closed, log, port, None)
