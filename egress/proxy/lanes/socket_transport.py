"""A TCP connection of the intercept lane: no stream and no task, bytes in and out.

Reads are handed straight to the handler, which saves a task switch for every read.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Protocol

from mitmproxy.connection import Client, Connection, ConnectionState, Server

from egress.proxy.event_loop import WatchedSocket, watch
from egress.shares.turns import SandboxTurns

HIGH_WATER_BYTES = 256 * 1024
"""Bytes that may wait to be sent before the other side is asked to hold."""

MAX_READ_BYTES = 64 * 1024
"""Bytes of a client read at once: handling them keeps the event loop from all other connections."""

OVERFULL_BYTES = 8 * HIGH_WATER_BYTES
"""Bytes waiting to be sent above which reading stops: bodies are held long before, so these are answers that
the peer asks for and does not take."""

MAX_QUEUED_BYTES = 64 * HIGH_WATER_BYTES
"""Bytes that wait to be sent above which the connection is given up."""

MAX_LAST_READ_BYTES = 256 * 1024
"""Bytes still read from a broken connection: an answer on its way, not a stream."""


class TransportReceiver(Protocol):
    """The receiver of a wire's events."""

    def received(self, wire: SocketTransport, data: bytes) -> None:
        """Take bytes of the peer."""
        ...

    def ended(self, wire: SocketTransport) -> None:
        """The peer has closed its side."""
        ...

    def lost(self, wire: SocketTransport) -> None:
        """The connection is gone."""
        ...

    def blocked(self, wire: SocketTransport, *, blocked: bool) -> None:
        """Note that the peer does not take written bytes, or takes them again."""
        ...


class TransportShare(Protocol):
    """What the sandbox of a connection has for it."""

    @property
    def turn(self) -> SandboxTurns:
        """Its turns of the event loop."""
        ...

    @property
    def buffer_bytes(self) -> int:
        """What may be read at once, and wait to be sent."""
        ...


class SocketTransport(asyncio.Protocol):
    """The transport of a connection of mitmproxy."""

    def __init__(self, driver: TransportReceiver, connection: Connection, share: TransportShare) -> None:
        self._driver = driver
        self.connection = connection
        self._turn = share.turn
        self._buffer_bytes = share.buffer_bytes
        self._watched: WatchedSocket | None = None
        self.transport: asyncio.Transport | None = None
        self._reads = True
        self._is_blocked = False
        self._is_overfull = False
        self._is_resuming = False

    def adopt(self, transport: asyncio.BaseTransport) -> None:
        """Take over a transport that is connected."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream transport is needed")
        self.transport = transport
        transport.set_write_buffer_limits(high=self._buffer_bytes)
        if hasattr(transport, "max_size"):
            is_client = isinstance(self.connection, Client)
            # Of the transports of sockets in asyncio, where it is not part of any interface.
            transport.max_size = min(self._buffer_bytes, MAX_READ_BYTES) if is_client else self._buffer_bytes
        transport.set_protocol(self)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self._watched = watch(sock, self._turn)

    def begin(self) -> None:
        """Read, unless that was held already; the transport was handed over paused."""
        transport = self.transport
        if transport is not None and self._reads and not self._is_overfull and not transport.is_closing():
            transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)
            if self._is_blocked:
                self._limit_queue(self.transport)

    def close(self) -> None:
        """Send what waits, then close."""
        self._end(at_once=False)

    def abort(self) -> None:
        """Close now."""
        self._end(at_once=True)

    def _end(self, *, at_once: bool) -> None:
        self.connection.state = ConnectionState.CLOSED
        if self.transport is None:
            return
        if self._is_resuming:
            # asyncio closes a transport twice that is ended while it says that it may be written to again.
            asyncio.get_running_loop().call_soon(functools.partial(self._end, at_once=at_once))
        elif at_once:
            self.transport.abort()
        else:
            self.transport.close()

    def release(self) -> None:
        """Read no more, for another owner of the transport."""
        self.gate(reads=False)
        if self._watched is not None:
            self._watched.forget()
        self.transport = None

    def gate(self, *, reads: bool) -> None:
        """Stop or resume reading."""
        transport = self.transport
        changes, self._reads = reads is not self._reads, reads
        if not changes or self._is_overfull or transport is None or transport.is_closing():
            return
        if reads:
            transport.resume_reading()
        else:
            transport.pause_reading()

    # asyncio's side

    def data_received(self, data: bytes) -> None:
        self._driver.received(self, data)

    def eof_received(self) -> bool:
        self._driver.ended(self)
        # The peer may still want to read what is on its way.
        return True

    def connection_lost(self, error: Exception | None) -> None:
        transport, self.transport = self.transport, None
        if self._watched is not None:
            self._watched.forget()
        if error is not None and transport is not None and isinstance(self.connection, Server):
            self._read_the_rest(transport)
        self._driver.lost(self)

    def _read_the_rest(self, transport: asyncio.Transport) -> None:
        """Hand over what had come before the connection broke.

        An upstream may answer an upload before it has read it, and hang up: the answer is there, but it
        is a write that fails first, and asyncio reads no more after that.
        """
        left = MAX_LAST_READ_BYTES
        with contextlib.suppress(OSError):
            sock = transport.get_extra_info("socket").dup()
            with sock:
                while left > 0 and (data := sock.recv(left)):
                    left -= len(data)
                    self._driver.received(self, data)

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._driver.blocked(self, blocked=True)

    def resume_writing(self) -> None:
        self._is_blocked = False
        if self._is_overfull:
            self._is_overfull = False
            self.begin()
        self._is_resuming = True
        try:
            self._driver.blocked(self, blocked=False)
        finally:
            self._is_resuming = False

    def _limit_queue(self, transport: asyncio.Transport) -> None:
        """Stop reading from a peer that is sent too much and takes nothing; in the end, give it up."""
        waiting = transport.get_write_buffer_size()
        if waiting > MAX_QUEUED_BYTES:
            self.abort()
        elif waiting > OVERFULL_BYTES and not self._is_overfull:
            self._is_overfull = True
            if self._reads:
                transport.pause_reading()
