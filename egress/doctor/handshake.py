"""One TLS handshake with an upstream, as the proxy makes it, and nothing behind it.

No byte of a request is sent. Who the upstream has to be, by which roots and pins, is settled by the
connection that is handed in.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Final

from OpenSSL import SSL

_CHUNK: Final = 16 * 1024


class HandshakeError(Exception):
    """It did not come about; the text is ours and quotes nobody."""


async def shake(sock: socket.socket, tls: SSL.Connection) -> None:
    """Bring the handshake to its end; raises `HandshakeError`, `OSError` and nothing else."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            tls.do_handshake()
        except SSL.WantReadError:
            pass
        except SSL.Error:
            # What is told to the upstream is an alert, which it may as well have.
            with suppress(OSError):
                await _flush(sock, tls)
            raise HandshakeError("the TLS handshake failed") from None
        else:
            await _flush(sock, tls)
            return
        await _flush(sock, tls)
        data = await loop.sock_recv(sock, _CHUNK)
        if not data:
            raise HandshakeError("the upstream closed the connection in the middle of the TLS handshake")
        tls.bio_write(data)


async def _flush(sock: socket.socket, tls: SSL.Connection) -> None:
    """Send what OpenSSL has written."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = tls.bio_read(_CHUNK)
        except SSL.WantReadError:
            return
        await loop.sock_sendall(sock, data)
