"""A gateway and two peers in network namespaces of their own, and an address that goes from one to the other.

    python -m tests.cluster.moved_address FOLDER      as root; prints what has happened, as JSON

Sockets stay in the namespace in which they were made, so one thread can hold those of both peers.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.cluster.gateway_lab import PODS, GatewayLab
from tests.proxy.injecting_proxy import NAME
from tests.proxy.lab.certificates import trusting
from tests.proxy.serve_process import until
from tests.unit.kubernetes.watch_samples import plain_pod

GATEWAY: Final = "10.77.0.1"
ADDRESS: Final = "10.77.0.9"
"""The address that moves."""
TIMEOUT: Final = 20.0
UNHEARD_TIMEOUT: Final = 2.0


def configure(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


class Peer:
    """The network namespace of a pod, joined to that of the gateway by a pair of interfaces."""

    def __init__(self, name: str) -> None:
        self.name = name
        made = threading.Event()

        def unshare() -> None:
            os.unshare(os.CLONE_NEWNET)
            self.file = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            made.set()

        threading.Thread(target=unshare).start()
        assert made.wait(TIMEOUT)
        configure(f"link add {name} type veth peer name in-{name}")
        configure(f"link set {name} master bridge up")
        configure(f"link set in-{name} netns /proc/{os.getpid()}/fd/{self.file}")
        with self.inside():
            configure("link set lo up")
            configure(f"link set in-{name} up")

    @contextmanager
    def inside(self) -> Iterator[None]:
        outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        os.setns(self.file, os.CLONE_NEWNET)
        try:
            yield
        finally:
            os.setns(outside, os.CLONE_NEWNET)
            os.close(outside)

    def take(self) -> None:
        with self.inside():
            configure(f"addr add {ADDRESS}/24 dev in-{self.name}")

    def give_up(self) -> None:
        with self.inside():
            configure(f"addr del {ADDRESS}/24 dev in-{self.name}")

    def dial(self, port: int, source: int = 0) -> socket.socket:
        with self.inside():
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.settimeout(TIMEOUT)
            sock.bind((ADDRESS, source))
        sock.connect((GATEWAY, port))
        return sock

    def visit(self, lab: GatewayLab, source: int = 0) -> tuple[ssl.SSLSocket, socket.socket]:
        """Reach the upstream through the gateway. Raises `OSError` where that is refused."""
        sock = self.dial(lab.served.port, source)
        sock.sendall(f"CONNECT {lab.host} HTTP/1.1\r\nhost: {lab.host}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            data = sock.recv(1)
            if not data:
                raise ConnectionError("closed")
            head += data
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(head.decode())
        return trusting(lab.authority, ("http/1.1",)).wrap_socket(sock, server_hostname=NAME), sock


def ask(tls: ssl.SSLSocket, lab: GatewayLab, path: str) -> str:
    """Make a request, and return the first line of the answer; empty if the connection has ended."""
    with suppress(OSError):
        tls.sendall(f"GET {path} HTTP/1.1\r\nhost: {lab.host}\r\n\r\n".encode())
        return tls.recv(65536).decode("latin-1").partition("\r\n")[0]
    return ""


def gate(peer: Peer, lab: GatewayLab, uid: str) -> str:
    """Ask the gate as the pod of a UID; return the status, empty where the connection is cut meanwhile."""
    body = json.dumps({"uid": uid, "nonce": "n-1"})
    with suppress(ConnectionError), peer.dial(lab.served.port) as sock:
        head = f"POST /gate HTTP/1.1\r\nhost: {GATEWAY}\r\ncontent-length: {len(body)}\r\n\r\n"
        sock.sendall((head + body).encode())
        return sock.recv(65536).decode("latin-1").partition(" ")[2][:3]
    return ""


def visit_when_known(peer: Peer, lab: GatewayLab) -> tuple[ssl.SSLSocket, socket.socket]:
    def attempt() -> tuple[ssl.SSLSocket, socket.socket] | None:
        with suppress(OSError):
            return peer.visit(lab)
        return None

    found = until(attempt)
    assert found is not None
    return found


def play(lab: GatewayLab) -> dict[str, object]:
    first, second = Peer("first"), Peer("second")
    one, two = plain_pod("one", 0, ADDRESS), plain_pod("two", 0, ADDRESS)
    first.take()
    lab.put(PODS, one)
    until(lambda: gate(first, lab, "one-uid") == "204")
    kept, _ = visit_when_known(first, lab)
    port = kept.getsockname()[1]
    told: dict[str, object] = {"first": ask(kept, lab, "/pods/one")}
    began = time.monotonic()
    first.give_up()
    second.take()
    moved = time.monotonic() - began
    # The cluster does not know yet: the pod at the address cannot start as anybody else.
    told["gate before"] = [gate(second, lab, uid) for uid in ("two-uid", "one-uid")]
    lab.delete(PODS, one)
    lab.put(PODS, two)
    until(lambda: gate(second, lab, "two-uid") == "204")
    told["gate after"] = [gate(second, lab, uid) for uid in ("two-uid", "one-uid")]
    # From the very port of the connection that was kept.
    new, _ = second.visit(lab, port)
    told["second"] = ask(new, lab, "/pods/two")
    # Whoever gets the address back finds nothing left of what it had.
    second.give_up()
    first.take()
    # The gateway has another connection at this port by now, so nothing may come back at all.
    kept.settimeout(UNHEARD_TIMEOUT)
    told["kept"] = ask(kept, lab, "/pods/stolen")
    told["moved in ms"] = round(1000 * moved)
    for each in (kept, new):
        each.close()

    def recorded() -> list[list[object]]:
        lines = lab.served.records("exchange")
        found = [[line["path"], line["pod"]] for line in lines if "/pods/" in str(line.get("path"))]
        return found if len(found) >= 2 else []

    told["recorded"] = until(recorded)
    ended = [line for line in lab.served.records("sandbox.removed") if line["sandbox"] == "one"]
    told["cut"] = [[line["connections"], line["reason"]] for line in ended]
    return told


def main(folder: Path) -> None:
    os.unshare(os.CLONE_NEWNET)
    configure("link set lo up")
    configure("link add bridge type bridge")
    configure(f"addr add {GATEWAY}/24 dev bridge")
    configure("link set bridge up")
    with GatewayLab(folder, gateway=GATEWAY) as lab:
        sys.stdout.write(json.dumps(play(lab)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
