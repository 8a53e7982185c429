"""A port of a sandbox behind the API is a socket of this process."""

from __future__ import annotations

import socket

from tests.api_server.lab import api_lab, remote_of


def test_bytes_go_both_ways_and_ends_are_passed_on() -> None:
    with api_lab() as lab, remote_of(lab) as remote, socket.create_server(("127.0.0.1", 0)) as listener:
        lab.running()
        lab.estate.runtime.ports["one", 80] = listener.getsockname()[:2]
        with remote.dial("one", 80) as sock:
            peer, _ = listener.accept()
            sock.sendall(b"x" * 300_000)
            received = b""
            while len(received) < 300_000:
                received += peer.recv(65536)
            peer.close()
            assert sock.recv(10) == b""
        with remote.dial("one", 80) as sock:
            peer, _ = listener.accept()
        assert peer.recv(10) == b""
        peer.close()
