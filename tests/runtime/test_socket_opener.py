"""The program in the door: what it opens, and that it survives whatever it is told."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.door import socket_opener
from egress.runtime.door.socket_opener import obey, open_socket


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair()
    with one, two:
        two.settimeout(30)
        yield one, two


def asked(ends: tuple[socket.socket, socket.socket], line: str) -> tuple[bytes, list[int]]:
    obey(ends[0], line)
    data, descriptors, _, _ = socket.recv_fds(ends[1], 256, 4)
    return data, list(descriptors)


@pytest.mark.parametrize(("what", "kind"), [("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)])
def test_a_socket_is_opened_and_passed(
    ends: tuple[socket.socket, socket.socket], what: str, kind: socket.SocketKind
) -> None:
    data, [descriptor] = asked(ends, f"{what} 127.0.0.8 0\n")
    with socket.socket(fileno=descriptor) as sock:
        assert (data, sock.type, sock.getsockname()[0]) == (b"ok\n", kind, "127.0.0.8")
        assert bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) == (what == "tcp")


def test_a_connection_is_made_and_passed(ends: tuple[socket.socket, socket.socket]) -> None:
    with socket.create_server(("127.0.0.8", 0)) as server:
        data, [descriptor] = asked(ends, f"dial 127.0.0.8 {server.getsockname()[1]}\n")
        with socket.socket(fileno=descriptor) as sock, server.accept()[0] as peer:
            assert sock.getpeername() == peer.getsockname()
    assert data == b"ok\n"


@pytest.mark.parametrize(
    "line",
    ["", "\n", "tcp\n", "tcp 127.0.0.8\n", "tcp 127.0.0.8 x\n", "raw 127.0.0.8 1\n", "tcp 127.0.0.8 70000\n",
     "tcp 192.0.2.77 80\n", "dial 127.0.0.8 1\n", "tcp 127.0.0.8 0 more\n", "udp nowhere.invalid 53\n"],
)  # fmt: skip
def test_what_cannot_be_opened_is_answered_with_no(
    ends: tuple[socket.socket, socket.socket], line: str
) -> None:
    data, descriptors = asked(ends, line)
    assert data.startswith(b"no ")
    assert data.endswith(b"\n")
    assert descriptors == []


def test_nothing_is_left_open_where_it_cannot_be_bound() -> None:
    with socket.create_server(("127.0.0.8", 0)) as server, pytest.raises(OSError, match="in use"):
        open_socket(["tcp", "127.0.0.8", str(server.getsockname()[1])])


def test_it_runs_on_its_own_and_ends_with_its_keeper(tmp_path: Path) -> None:
    path = Path("/proc/self/cwd")
    assert path.exists()
    with socket.socket(socket.AF_UNIX) as keeper:
        name = f"\0egress-door-test-{tmp_path.name}"
        keeper.bind(name)
        keeper.listen()
        # Isolated, and without `site`: as it is run in a door.
        command = [sys.executable, "-I", "-S", "-c", _BY_NAME, socket_opener.__file__, name[1:]]
        with subprocess.Popen(command) as process:
            door, _ = keeper.accept()
            with door:
                door.sendall(b"tcp 127.0.0.8 0\n")
                data, [descriptor], _, _ = socket.recv_fds(door, 256, 4)
                socket.socket(fileno=descriptor).close()
                assert data == b"ok\n"
            assert process.wait(30) == 0


_BY_NAME = """
import runpy, sys
runpy.run_path(sys.argv[1])["serve"]("\\0" + sys.argv[2])
"""
