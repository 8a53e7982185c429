"""A TLS connection on which one thread receives while another one sends.

One connection of OpenSSL may be used by one thread at a time, and the library waits inside of it: a thread
that waits for bytes would hold up the one that sends, or break its records. So the socket never blocks in
OpenSSL. A call that cannot go on lets go of the connection, and waits for the socket.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, override

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class TlsSocket(ssl.SSLSocket):
    """The connection, as `open_tls` and `accept_tls` make it."""

    turn: threading.Lock
    timeout_seconds: float | None = None
    """For which a call waits for the socket; None is for ever."""

    @override
    def settimeout(self, value: float | None) -> None:
        if hasattr(self, "turn"):
            # The socket itself stays as it is, and blocks nowhere.
            self.timeout_seconds = value
        else:
            super().settimeout(value)

    @override
    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        return self._waited(lambda: ssl.SSLSocket.recv(self, buflen, flags))

    @override
    def recv_into(self, buffer: WriteableBuffer, nbytes: int | None = None, flags: int = 0) -> int:
        return self._waited(lambda: ssl.SSLSocket.recv_into(self, buffer, nbytes, flags))

    @override
    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        # `sendall` of the library calls this for one part after the other.
        return self._waited(lambda: ssl.SSLSocket.send(self, data, flags))

    @override
    def shutdown(self, how: int) -> None:
        # The library would go on in clear text from here, and take what is left of the records for it.
        socket.socket.shutdown(self, how)

    def _waited[T](self, attempt: Callable[[], T]) -> T:
        while True:
            with self.turn:
                try:
                    return attempt()
                except ssl.SSLWantReadError:
                    wanted = select.POLLIN
                except ssl.SSLWantWriteError:
                    wanted = select.POLLOUT
            waiting = select.poll()
            try:
                waiting.register(self.fileno(), wanted)
            except ValueError:
                # Another thread has closed the socket.
                raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None
            if not waiting.poll(None if self.timeout_seconds is None else 1000 * self.timeout_seconds):
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


def accept_tls(sock: socket.socket, context: ssl.SSLContext) -> TlsSocket:
    """Return the server's end of a connection. Its first call for bytes shakes hands. Raises `OSError`."""
    context.sslsocket_class = TlsSocket
    try:
        made = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
    except BaseException:
        sock.close()
        raise
    return _shared(made)


def open_tls(sock: socket.socket, context: ssl.SSLContext, name: str) -> TlsSocket:
    """Shake hands with the server of this name, within the timeout of the socket. Raises `OSError`."""
    context.sslsocket_class = TlsSocket
    try:
        made = context.wrap_socket(sock, server_hostname=name)
    except BaseException:
        sock.close()
        raise
    return _shared(made)


def _shared(made: ssl.SSLSocket) -> TlsSocket:
    """Make a connection one that two threads may use."""
    if not isinstance(made, TlsSocket):
        raise TypeError("the context makes other sockets")
    made.settimeout(0)
    made.turn = threading.Lock()
    return made
