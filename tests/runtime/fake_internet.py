"""Runs where a sandbox could come if its wall had a hole: a machine that answers everything on some ports.

By TCP whoever connects is greeted; by UDP whatever comes is answered, a question for a name with an address.
Only the standard library is there.
"""

from __future__ import annotations

import socket
import sys
import threading

PORTS = (53, 80, 443, 9999)


def open_all() -> None:
    """Answer from now on, until the process ends."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for port in PORTS:
            sock = socket.socket(socket.AF_INET, kind)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("0.0.0.0", port))
            if kind == socket.SOCK_STREAM:
                sock.listen()
            answer = greet if kind == socket.SOCK_STREAM else resolve
            threading.Thread(target=answer, args=(sock,), daemon=True).start()


def greet(sock: socket.socket) -> None:
    while True:
        client, _ = sock.accept()
        with client:
            client.sendall(b"here I am")


def resolve(sock: socket.socket) -> None:
    while True:
        data, peer = sock.recvfrom(512)
        head = data[:2] + b"\x81\x80\0\1\0\1\0\0\0\0"
        sock.sendto(head + data[12:] + b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\1\2\3\4", peer)


def main() -> None:
    open_all()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
