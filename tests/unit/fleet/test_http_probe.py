"""A program is asked over HTTP: what counts as its answer, and how long it may take."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from egress.fleet import http_probe
from egress.fleet.http_probe import HttpProbe, read_status
from egress.fleet.process_wait import ProcessExpectation
from egress.runtime.errors import PortClosedError, SpecError
from tests.unit.fleet.test_process_wait import RingProcess, closed


def answering(answer: bytes, asked: list[bytes] | None = None) -> Callable[[int], socket.socket]:
    """Dial a program that reads a request, sends this answer, and keeps the connection."""

    def dial(_: int) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.sendall(answer)
        if asked is not None:
            threading.Thread(target=lambda: asked.append(theirs.recv(4096)), daemon=True).start()
        HELD.append(theirs)
        return ours

    return dial


HELD: list[socket.socket] = []


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    yield
    while HELD:
        HELD.pop().close()


@pytest.mark.parametrize(
    ("answer", "is_met"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.0 204\r\n", True),
        (b"HTTP/1.1 399 \n", True),
        (b"HTTP/1.1 400 Bad Request\r\n", False),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/2 200\r\n", False),
        (b"HTTP/1.1 2000 OK\r\n", False),
        (b"HTTP/1.1 20\r\n", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
        (b"HTTP/1.1 200 " + b"x" * 2000 + b"\r\n", False),
    ],
)
def test_an_answer_counts_by_its_status(answer: bytes, is_met: bool) -> None:
    assert HttpProbe(port=80).is_met(answering(answer)) is is_met


def test_the_range_is_that_of_the_probe() -> None:
    probe = HttpProbe(port=80, min_status=401, max_status=401)
    assert probe.is_met(answering(b"HTTP/1.1 401 Unauthorized\r\n"))
    assert not probe.is_met(answering(b"HTTP/1.1 200 OK\r\n"))


def test_the_request_is_one_of_http() -> None:
    asked: list[bytes] = []
    assert HttpProbe(port=8000, path="/health?full=1").is_met(answering(b"HTTP/1.1 200 OK\r\n", asked))
    deadline = time.monotonic() + 30
    while not asked and time.monotonic() < deadline:
        time.sleep(0.01)
    line, host, *_ = asked[0].split(b"\r\n")
    assert (line, host) == (b"GET /health?full=1 HTTP/1.1", b"Host: localhost:8000")
    assert asked[0].endswith(b"\r\n\r\n")


def test_a_program_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_probe, "PROBE_TIMEOUT", 0.2)
    stopped = threading.Event()

    def dial(_: int) -> socket.socket:
        ours, theirs = socket.socketpair()
        HELD.append(theirs)

        def drip() -> None:
            with suppress(OSError):
                while not stopped.wait(0.02):
                    theirs.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        return ours

    began = time.monotonic()
    assert not HttpProbe(port=80).is_met(dial)
    assert time.monotonic() - began < 20
    stopped.set()


def test_a_closed_or_silent_port_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_probe, "PROBE_TIMEOUT", 0.05)

    def refuse(_: int) -> socket.socket:
        raise PortClosedError("nothing listens", "start it")

    for dial in (refuse, answering(b"")):
        assert not HttpProbe(port=80).is_met(dial)


@given(some.lists(some.binary(max_size=400), max_size=6))
def test_any_bytes_have_a_status_or_none(pieces: list[bytes]) -> None:
    left = list(pieces)
    status = read_status(lambda: left.pop(0) if left else b"")
    assert status is None or 100 <= status <= 599


@given(some.integers(100, 599), some.lists(some.integers(1, 9), max_size=9))
def test_the_cut_does_not_matter(status: int, sizes: list[int]) -> None:
    data = f"HTTP/1.1 {status} Reason\r\nmore: x".encode()
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    pieces.append(data)
    left = [piece for piece in pieces if piece]
    assert read_status(lambda: left.pop(0) if left else b"") == status


WRONG: list[dict[str, Any]] = [
    {"port": 0},
    {"port": 70000},
    {"port": "80"},
    {"path": "health"},
    {"path": "/a b"},
    {"path": "/a\r\nHost: x"},
    {"path": "/ü"},
    {"path": 5},
    {"path": "/" + "a" * 3000},
    {"min_status": 99},
    {"max_status": 600},
    {"min_status": 400, "max_status": 399},
    {"min_status": True},
    {"interval": 0},
    {"interval": float("nan")},
    {"interval": 61},
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_an_impossible_probe_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        HttpProbe(**{"port": 80, **wrong})


def test_output_of_the_process_causes_no_further_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("egress.fleet.process_wait.time.monotonic", lambda: now)
    asked: list[int] = []

    def refuse(port: int) -> socket.socket:
        asked.append(port)
        return closed(port)

    expected = ProcessExpectation(RingProcess(), refuse, "", None, HttpProbe(port=80, interval=0.5))
    for _ in range(3):
        assert not expected.is_met()
    assert asked == [80]
    assert (expected.pause(None), expected.pause(0.1)) == (0.5, 0.1)
    now += 0.5
    assert not expected.is_met()
    assert asked == [80, 80]
