"""Gives a test outside of tests/proxy the network back, as far as loopback.

tests/conftest.py refuses all of it to tests that only call functions.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from tests.proxy.lab.server import LOOPBACK

INTERNET = (socket.AF_INET, socket.AF_INET6)
_REAL = cast("type[socket.socket]", socket.socket.__mro__[1])


@contextlib.contextmanager
def loopback_only() -> Iterator[None]:
    """Let sockets connect and bind on loopback; anything else stays refused."""

    def guarded(name: str) -> Callable[..., object]:
        real = getattr(_REAL, name)

        def call(sock: socket.socket, *arguments: object) -> object:
            # Other families lead nowhere: the addresses of this machine are asked for by netlink.
            address = cast("tuple[object, ...]", arguments[-1])
            if sock.family in INTERNET and address[0] != LOOPBACK:
                raise RuntimeError("this test may use loopback and nothing else")
            return real(sock, *arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex", "bind", "sendto"):
            patch.setattr(socket.socket, name, guarded(name))
        yield
