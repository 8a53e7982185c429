"""This machine, listening: on all of its addresses by TCP and UDP, and at a name of no file."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Final, Self

_PKTINFO: Final = 8
"""IP_PKTINFO: by which address a datagram came, and by which one it goes."""
_INFO: Final = struct.Struct("=I4s4s")


class ListeningHost:
    """From `with` to its end."""

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self._tcp = parts.enter_context(socket.create_server(("", 0)))
            self.port = int(self._tcp.getsockname()[1])
            self._udp = parts.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            self._udp.setsockopt(socket.IPPROTO_IP, _PKTINFO, 1)
            self._udp.bind(("", self.port))
            self._abstract = parts.enter_context(socket.socket(socket.AF_UNIX))
            self.abstract = f"@egress-test-{os.getpid()}-{self.port}"
            self._abstract.bind(self.abstract.replace("@", "\0"))
            self._abstract.listen()
            serves = (self._serve_tcp, self._serve_udp)
            self._threads = [threading.Thread(target=each, daemon=True) for each in serves]
            for thread in self._threads:
                thread.start()
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._tcp.shutdown(socket.SHUT_RDWR)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", ("127.0.0.1", self.port))
        for thread in self._threads:
            thread.join()
        self._parts.close()

    @property
    def addresses(self) -> list[str]:
        """Every address of this machine, loopback among them."""
        text = Path("/proc/net/fib_trie").read_text(encoding="ascii").splitlines()
        found = {one.split()[-1] for one, two in pairwise(text) if "|--" in one and "/32 host LOCAL" in two}
        return sorted(found)

    def _serve_tcp(self) -> None:
        while True:
            try:
                client, _ = self._tcp.accept()
            except OSError:
                return
            with client:
                client.sendall(b"here I am")

    def _serve_udp(self) -> None:
        while True:
            data, about, _, peer = self._udp.recvmsg(512, socket.CMSG_SPACE(_INFO.size))
            if not data:
                return
            # By the address that was asked: the kernel would take the one that is nearest to the peer.
            _, asked, _ = _INFO.unpack(about[0][2])
            by = [(socket.IPPROTO_IP, _PKTINFO, _INFO.pack(0, asked, asked))]
            self._udp.sendmsg([b"here I am"], by, 0, peer)
