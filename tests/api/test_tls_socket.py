"""TLS connections that two threads use at once, and what is left of one that is shut down."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from egress.api.tls_socket import TlsSocket, open_tls
from tests.proxy.lab.certificates import Certificates

_NAME = "boxes.example.com"
_MUCH = b"0123456789abcdef" * 65536


@contextmanager
def _pair() -> Iterator[tuple[TlsSocket, ssl.SSLSocket]]:
    """Both ends of a connection; the far one is that of the library, for one thread."""
    certificates = Certificates()
    near, far = socket.socketpair()
    near.settimeout(30)
    far.settimeout(30)
    met: list[ssl.SSLSocket] = []
    context = certificates.good(_NAME)
    meeting = threading.Thread(target=lambda: met.append(context.wrap_socket(far, server_side=True)))
    meeting.start()
    ours = open_tls(near, certificates.trust(), _NAME)
    meeting.join(30)
    with closing(ours), closing(met[0]):
        yield ours, met[0]


def _read(sock: ssl.SSLSocket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (piece := sock.recv(size - len(data))):
        data += piece
    return bytes(data)


def test_one_thread_sends_while_another_waits_for_bytes() -> None:
    with _pair() as (ours, theirs):
        got: list[bytes] = []
        waiting = threading.Thread(target=lambda: got.append(_read(ours, 5)))
        waiting.start()
        ours.sendall(b"hello")
        assert _read(theirs, 5) == b"hello"
        theirs.sendall(b"world")
        waiting.join(30)
        assert got == [b"world"]


def test_much_goes_both_ways_at_once_and_arrives_whole() -> None:
    with _pair() as (ours, theirs):
        got: list[bytes] = []
        receiving = threading.Thread(target=lambda: got.append(_read(ours, len(_MUCH))))
        sending = threading.Thread(target=ours.sendall, args=(_MUCH,))
        receiving.start()
        sending.start()
        # The far end is used by one thread, so it takes before it gives.
        assert _read(theirs, len(_MUCH)) == _MUCH
        theirs.sendall(_MUCH)
        for thread in (receiving, sending):
            thread.join(30)
        assert got == [_MUCH]


def test_a_file_over_it_waits_too() -> None:
    with _pair() as (ours, theirs):
        theirs.sendall(b"a line\nand more")
        with ours.makefile("rb") as file:
            assert file.readline() == b"a line\n"


def test_a_shut_connection_ends_a_waiting_thread_and_gives_no_record_as_data() -> None:
    with _pair() as (ours, theirs):
        theirs.sendall(b"unread")
        ours.shutdown(socket.SHUT_RDWR)
        assert ours.recv(100) in (b"", b"unread")
        waited: list[bytes] = []
        waiting = threading.Thread(target=lambda: waited.append(_read(ours, 10)))
        waiting.start()
        waiting.join(30)
        assert waited == [b""]


def test_a_closed_connection_is_an_error() -> None:
    with _pair() as (ours, _):
        ours.close()
        with pytest.raises(OSError, match=r"[Bb]ad file"):
            ours.recv(1)


def test_another_name_is_no_connection() -> None:
    near, far = socket.socketpair()
    near.settimeout(30)
    certificates = Certificates()
    context = certificates.good(_NAME)

    def meet() -> None:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(far, server_side=True).recv(1)

    meeting = threading.Thread(target=meet)
    meeting.start()
    with pytest.raises(ssl.SSLCertVerificationError):
        open_tls(near, certificates.trust(), "other.example.com")
    assert near.fileno() == -1
    far.close()
    meeting.join(30)
