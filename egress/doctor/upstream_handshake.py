"""Perform one TLS handshake with an upstream, exactly as the proxy does, and nothing more.

No byte of a request is sent. Host name, roots and pins are configured in the connection that is passed in.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Final

from OpenSSL import SSL

_CHUNK: Final = 16 * 1024


class HandshakeError(Exception):
    """The handshake failed; the text is ours and quotes no peer."""


async def shake(sock: socket.socket, tls: SSL.Connection) -> None:
    """Complete the handshake; raises `HandshakeError`, `OSError` and nothing else."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            # OpenSSL works on memory here, and asks for bytes that only the socket can deliver.
            tls.do_handshake()
        except SSL.WantReadError:
            pass
        except SSL.Error:
            # The pending bytes are a TLS alert, which the upstream may receive.
            with suppress(OSError):
                await _flush(sock, tls)
            raise HandshakeError("the TLS handshake failed") from None
        else:
            await _flush(sock, tls)
            return
        await _flush(sock, tls)
        # No timeout of its own: the caller limits the whole probe.
        data = await loop.sock_recv(sock, _CHUNK)
        if not data:
            raise HandshakeError("the upstream closed the connection during the TLS handshake")
        tls.bio_write(data)


async def _flush(sock: socket.socket, tls: SSL.Connection) -> None:
    """Send the bytes that OpenSSL has written."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = tls.bio_read(_CHUNK)
        except SSL.WantReadError:
            return
        await loop.sock_sendall(sock, data)
