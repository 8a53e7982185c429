"""Runs in the network of a sandbox: opens sockets there, and passes them to the controller.

The program is a single file on the standard library, because its container holds nothing else. It connects to
the unix socket in its argument and obeys line by line. It ends when the controller hangs up, and its network
with it:

    tcp 198.18.0.2 443      open a listening socket
    udp 198.18.0.2 53       open a bound socket
    dial 198.18.0.3 8080    open a connection

Each line gets one answer: `ok` with the descriptor attached, or `no` and the reason. The program must not
read the sockets that it opens, so no data of the sandbox reaches this process.
"""

from __future__ import annotations

import socket
import sys

LISTEN_BACKLOG = 1024
DIAL_TIMEOUT = 10.0
MAX_LINE_BYTES = 256


def open_socket(words: list[str]) -> socket.socket:
    """The socket that a line asks for. Raises `OSError`, or `ValueError` for an invalid line."""
    verb, host, port = words
    if verb not in ("tcp", "udp", "dial"):
        raise ValueError(verb)
    kind = (
        (socket.SOCK_DGRAM, socket.IPPROTO_UDP) if verb == "udp" else (socket.SOCK_STREAM, socket.IPPROTO_TCP)
    )
    sock = socket.socket(socket.AF_INET, *kind)
    try:
        if verb == "dial":
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
        # Not for datagrams: a second process could then bind the same port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    if sock.type == socket.SOCK_STREAM:
        sock.listen(LISTEN_BACKLOG)


def obey(controller: socket.socket, line: str) -> None:
    """Execute a line, and answer it."""
    try:
        sock = open_socket(line.split())
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        controller.sendall(f"no {reason.lower()}\n".encode())
        return
    try:
        socket.send_fds(controller, [b"ok\n"], [sock.fileno()])
    finally:
        # The controller's copy keeps the socket open.
        sock.close()


def serve(path: str) -> None:
    """Obey the controller that listens at this path, until it hangs up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as controller:
        controller.connect(path)
        with controller.makefile("r", encoding="ascii", newline="\n") as lines:
            while line := lines.readline(MAX_LINE_BYTES):
                obey(controller, line)


if __name__ == "__main__":
    serve(sys.argv[1])
