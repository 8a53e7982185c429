"""Connections to ports of a sandbox over a WebSocket."""

from __future__ import annotations

import json
import select
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from wsproto.events import BytesMessage

from tests.api_server.lab import ApiLab
from tests.proxy.serve_process import until


def test_bytes_go_both_ways_until_one_side_ends(lab: ApiLab) -> None:
    lab.running()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lab.estate.runtime.ports["one", 80] = listener.getsockname()[:2]
        stream = lab.stream("/v1/sandboxes/one/ports/80/stream")
        assert stream.shake_hands() is None
        peer, _ = listener.accept()
        with peer:
            stream.send_bytes(b"hello")
            assert peer.recv(10) == b"hello"
            peer.sendall(b"there")
            assert stream.receive() == b"there"
        assert stream.receive() is None
        stream.close()


def test_a_client_that_left_behind_bytes_that_nobody_reads_is_noticed(
    lab: ApiLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egress.api_server.port_over_websocket.STALL_SECONDS", 0.05)
    lab.running()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lab.estate.runtime.ports["one", 80] = listener.getsockname()[:2]
        before = open_files()
        stream = lab.stream("/v1/sandboxes/one/ports/80/stream")
        assert stream.shake_hands() is None
        peer, _ = listener.accept()
        with peer:
            full = stream._sock.dup()
            full.setblocking(False)
            piece = stream._connection.send(BytesMessage(data=b"x" * 60_000))
            # Until nobody on the way takes any more.
            with full, suppress(BlockingIOError):
                while select.select([], [full], [], 0.5)[1]:
                    full.sendall(piece)
            stream.close()
            # The end of the program is all that is left.
            assert until(lambda: open_files() <= before + 1)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_closed_port_is_a_problem_and_no_websocket(lab: ApiLab) -> None:
    lab.running()
    refusal = lab.stream("/v1/sandboxes/one/ports/80/stream").shake_hands()
    assert refusal is not None
    status, body = refusal
    assert (status, json.loads(body)["type"]) == (409, "port.closed")
