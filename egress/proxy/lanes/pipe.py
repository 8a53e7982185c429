"""Two transports joined so that what one receives the other sends: bytes, ends, and back pressure.

Theory of operation. Both directions read into one room that all pipes of a sandbox share. That is safe
because reading and passing on happen in one step of the loop, and because a transport that could not send
all at once keeps the room it was handed: then the pipes get a new one. So an idle pipe holds no memory, and
nothing is copied. A side whose transport has anything left to send stops the other side's reading until it
is gone: at most one room waits in each direction.

The end of one direction is passed on alone; when both have ended, or one side is lost, everything is closed.

It must not look at what it carries.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Literal, cast

from egress.proxy.event_loop import WatchedSocket, watch
from egress.shares.turns import SandboxTurns

BUFFER_BYTES: Final = 256 * 1024
MIN_BUFFER_BYTES: Final = 16 * 1024
BUFFERS_OF_SANDBOX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all buffers of a sandbox together, roughly."""

EndedBy = Literal["client", "upstream", "idle", "proxy"]


class PipeBuffer:
    """The memory that the pipes of a sandbox read into."""

    __slots__ = ("_count", "view")

    def __init__(self) -> None:
        self._count = 0
        self.view = memoryview(bytearray(BUFFER_BYTES))

    def enter(self) -> None:
        """One more pipe reads into it."""
        self._count += 1

    def leave(self) -> bool:
        """One pipe less; return whether it was the last one."""
        self._count -= 1
        return not self._count

    def renew(self) -> None:
        """Leave the present memory to whoever still sends from it."""
        # Each of many pipes may come to hold a buffer, so these are smaller then.
        size = max(MIN_BUFFER_BYTES, BUFFERS_OF_SANDBOX_BYTES // max(self._count, 1))
        self.view = memoryview(bytearray(min(BUFFER_BYTES, size)))


class PipeSide(asyncio.BufferedProtocol):
    """A side of the pipe: reports of its transport become orders to the other transport."""

    __slots__ = (
        "_before",
        "_pipe",
        "_room",
        "_turns",
        "_watched",
        "count",
        "has_ended",
        "is_lost",
        "other",
        "transport",
    )

    transport: asyncio.Transport
    other: asyncio.Transport

    def __init__(self, pipe: Pipe, room: PipeBuffer, turns: SandboxTurns | None) -> None:
        self._pipe = pipe
        self._room = room
        self._turns = turns
        self._watched: WatchedSocket | None = None
        self._before: asyncio.BaseProtocol | None = None
        self.count = 0
        """Bytes received here."""
        self.has_ended = False
        self.is_lost = True
        """Not joined to a transport, or not any more."""

    def attach(self, transport: asyncio.Transport, before: asyncio.BaseProtocol | None = None) -> None:
        """Take over a transport, silent for now; `before` is told when it is lost."""
        transport.pause_reading()
        # Any byte that cannot be sent at once stops reading on the other side.
        transport.set_write_buffer_limits(high=0)
        if self._turns is not None:
            self._watched = watch(transport.get_extra_info("socket"), self._turns)
        self.transport = transport
        self._before = before
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.attach(cast("asyncio.Transport", transport))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's own signature
        return self._room.view

    def buffer_updated(self, nbytes: int) -> None:
        self.count += nbytes
        turns = self._turns
        if turns is None:
            self._pass_on(nbytes)
            return
        turns.enter()
        try:
            self._pass_on(nbytes)
        finally:
            turns.leave()

    def _pass_on(self, nbytes: int) -> None:
        self.other.write(self._room.view[:nbytes])
        if self.other.get_write_buffer_size():
            self._room.renew()

    def pause_writing(self) -> None:
        self.other.pause_reading()

    def resume_writing(self) -> None:
        self.other.resume_reading()

    def eof_received(self) -> bool:
        self.has_ended = True
        self._pipe.ended(self)
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - same
        self.is_lost = True
        if self._watched is not None:
            self._watched.forget()
        if self._before is not None:
            # The previous protocol of the transport may be waiting for its end.
            self._before.connection_lost(None)
            self._before = None
        self._pipe.lost(self)

    def let_go(self) -> None:
        """Forget what points here in its turn: else only the garbage collector would free all of it."""
        # A transport of asyncio points at itself by these callbacks, which are not part of any interface.
        for name in ("_read_ready_cb", "_write_ready"):
            vars(self.transport).pop(name, None)
        del self._pipe, self.other, self.transport


class Pipe:
    """A client and an upstream, joined. Belongs to the running loop."""

    __slots__ = ("_done", "_is_joined", "_quiet", "_seen", "_step", "_timer", "by", "client", "upstream")

    _QUARTERS: Final = 4

    def __init__(self, room: PipeBuffer, idle: float, turns: SandboxTurns | None = None) -> None:
        """End after `idle` seconds, or up to a quarter more, in which nothing was received."""
        self._step = idle / self._QUARTERS
        self._seen = 0
        self._quiet = 0
        self._timer: asyncio.TimerHandle | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_joined = False
        self.client = PipeSide(self, room, turns)
        self.upstream = PipeSide(self, room, turns)
        self.by: EndedBy | None = None
        """The side that made the end."""

    def join(self, ahead: bytes) -> None:
        """Send `ahead` upstream, then pass on whatever comes; both sides have been attached."""
        self._is_joined = True
        self.client.other, self.upstream.other = self.upstream.transport, self.client.transport
        for side in (self.client, self.upstream):
            if side.is_lost:
                self.lost(side)
                return
        self.client.count += len(ahead)
        # Sending may already be reason to stop reading: so that is started first.
        self.client.transport.resume_reading()
        self.upstream.transport.resume_reading()
        self.upstream.transport.write(ahead)
        self._wait()

    async def wait(self) -> None:
        """Return when both sides are closed."""
        await self._done
        self.client.let_go()
        self.upstream.let_go()

    def abort(self, by: EndedBy) -> None:
        """Close both sides now, whatever has not been sent."""
        self.by = self.by or by
        for side in (self.client, self.upstream):
            if not side.is_lost:
                side.transport.abort()

    # Reports of the sides -------------------------------------------------------------------------

    def ended(self, side: PipeSide) -> None:
        self.by = self.by or self._name(side)
        if self.client.has_ended and self.upstream.has_ended:
            self.client.transport.close()
            self.upstream.transport.close()
            return
        # The other one may be gone without our knowing it yet.
        with contextlib.suppress(OSError):
            side.other.write_eof()

    def lost(self, side: PipeSide) -> None:
        if not self._is_joined:
            # No task waits yet; `join` will find the side lost.
            return
        self.by = self.by or self._name(side)
        if not (self.client.is_lost and self.upstream.is_lost):
            side.other.close()
            return
        if self._timer is not None:
            self._timer.cancel()
        if not self._done.done():
            self._done.set_result(None)

    def _name(self, side: PipeSide) -> EndedBy:
        return "client" if side is self.client else "upstream"

    # Silence --------------------------------------------------------------------------------------

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._step, self._check_idle)

    def _check_idle(self) -> None:
        """Compare the counts with those of a moment ago: that costs nothing while bytes move."""
        seen = self.client.count + self.upstream.count
        self._quiet = self._quiet + 1 if seen == self._seen else 0
        self._seen = seen
        if self._quiet >= self._QUARTERS:
            self.abort("idle")
        self._wait()
