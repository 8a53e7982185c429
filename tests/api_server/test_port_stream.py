"""Connections to ports of a sandbox over a WebSocket."""

from __future__ import annotations

import json
import socket

from tests.api_server.lab import ApiLab


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


def test_a_closed_port_is_a_problem_and_no_websocket(lab: ApiLab) -> None:
    lab.running()
    refusal = lab.stream("/v1/sandboxes/one/ports/80/stream").shake_hands()
    assert refusal is not None
    status, body = refusal
    assert (status, json.loads(body)["type"]) == (409, "port.closed")
