"""Runs inside the network of a sandbox: opens sockets there, and passes them to whoever sent it there.

It is one file that needs nothing but the standard library, because that is all there is around it. It
connects to the unix socket it was started with, and obeys line by line, until the other side hangs up; then
it ends, and its network with it:

    tcp 198.18.0.2 443      a listening socket
    udp 198.18.0.2 53       a bound one
    dial 198.18.0.3 8080    a connection

Each is answered by one line: `ok` with the descriptor attached, or `no` and the reason. It never reads from
any of the sockets, so nothing that the sandbox sends reaches this process.
"""

from __future__ import annotations

import socket
import sys

LISTEN_BACKLOG = 1024
DIAL_TIMEOUT = 10.0
MAX_LINE_BYTES = 256


def open_socket(words: list[str]) -> socket.socket:
    """The socket that a line asks for; raises `OSError`, or `ValueError` for a line that asks for none."""
    what, host, port = words
    if what not in ("tcp", "udp", "dial"):
        raise ValueError(what)
    kind = (
        (socket.SOCK_DGRAM, socket.IPPROTO_UDP) if what == "udp" else (socket.SOCK_STREAM, socket.IPPROTO_TCP)
    )
    sock = socket.socket(socket.AF_INET, *kind)
    try:
        if what == "dial":
            sock.settimeout(DIAL_TIMEOUT)
            sock.connect((host, int(port)))
        else:
            _bind(sock, host, int(port))
    except BaseException:
        sock.close()
        raise
    return sock


def _bind(sock: socket.socket, host: str, port: int) -> None:
    if sock.type == socket.SOCK_STREAM:
        # Not for datagrams: a second process could have the same port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    if sock.type == socket.SOCK_STREAM:
        sock.listen(LISTEN_BACKLOG)


def obey(keeper: socket.socket, line: str) -> None:
    """Do what a line says, and answer it."""
    try:
        sock = open_socket(line.split())
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        keeper.sendall(f"no {reason.lower()}\n".encode())
        return
    try:
        socket.send_fds(keeper, [b"ok\n"], [sock.fileno()])
    finally:
        # Whoever has it now keeps it open.
        sock.close()


def serve(path: str) -> None:
    """Obey the keeper who listens at this path, until it hangs up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as keeper:
        keeper.connect(path)
        with keeper.makefile("r", encoding="ascii", newline="\n") as lines:
            while line := lines.readline(MAX_LINE_BYTES):
                obey(keeper, line)


if __name__ == "__main__":
    serve(sys.argv[1])
