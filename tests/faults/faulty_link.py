"""A stretch of TCP on loopback on which one thing goes wrong, at a chosen byte of a chosen direction.

    async with Link(upstream.port) as link:
        link.fault = Fault(What.CUT, "down", at=17)

Whoever dials `link.port` gets the target. `up` is towards the target. The fault meets every connection that
is made while it is set; without one, bytes pass as they come, ends too.

It must not know what it carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, Self

from tests.proxy.lab.server import LOOPBACK

Direction = Literal["up", "down"]

MOST = 64 * 1024
SLOW_PIECE: Final = 64
SLOW_PAUSE: Final = 0.0005
TWICE: Final = 8
FLIP: Final = 0x15
"""What a byte is changed by: a letter becomes another character, a digit a control character."""


class FaultKind(StrEnum):
    """What happens on the wire."""

    RESET = "reset"
    """Both ends get a RST."""
    CUT = "cut"
    """Both ends get a FIN, whatever was under way."""
    HALF_CLOSE = "half-close"
    """Whoever receives gets a FIN; the other direction goes on."""
    STALL = "stall"
    """Nothing more passes, and nobody is told, until the other direction has ended."""
    THROTTLE = "throttle"
    """A few bytes at a time, with pauses."""
    CORRUPT = "corrupt"
    """One byte arrives as another one."""
    DUPLICATE = "duplicate"
    """A few bytes arrive twice."""
    SPLIT = "split"
    """From here on each byte is a segment."""


LOSSLESS: Final = frozenset({FaultKind.THROTTLE, FaultKind.SPLIT})
"""After these everything has arrived."""


@dataclass(frozen=True, slots=True)
class LinkFault:
    what: FaultKind
    towards: Direction
    at: int
    """So many bytes pass before it."""


class _EndedError(Exception):
    """Both directions are over."""


@dataclass(slots=True)
class CarriedBytes:
    """One connection."""

    near: socket.socket
    far: socket.socket
    fault: LinkFault | None
    passed: dict[Direction, int] = field(default_factory=lambda: {"up": 0, "down": 0})
    """Bytes that were handed on."""
    has_ended: bool = False
    """One direction has come to its end."""
    is_stalled: bool = False
    is_reset: bool = False

    def close(self) -> None:
        for sock in (self.near, self.far):
            if self.is_reset:
                # Linger for zero seconds: the kernel says RST instead of FIN.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()


class FaultyLink:
    """Carries connections to one port."""

    def __init__(self, target: int) -> None:
        self.fault: LinkFault | None = None
        self.faults: deque[LinkFault] = deque()
        """One for each of the next connections, before `fault` counts."""
        self.last: CarriedBytes | None = None
        """The newest connection."""
        self.reached = 0
        """How often the target was connected to."""
        self.hits = 0
        """How often a fault came about."""
        self.moves = 0
        """Counts whatever passes, ends too."""
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server((LOOPBACK, 0), backlog=1024)
        self._listener.settimeout(0)
        self.port = int(self._listener.getsockname()[1])
        self._keep(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener.close()

    @property
    def is_idle(self) -> bool:
        """No connection is open."""
        return not self._open

    async def clear(self) -> None:
        """Let go of the connections that are open."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _keep(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            near, _ = await loop.sock_accept(self._listener)
            far = socket.socket()
            carried = CarriedBytes(near, far, self.faults.popleft() if self.faults else self.fault)
            self.last = carried
            task = self._keep(self._carry(carried))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _carry(self, carried: CarriedBytes) -> None:
        try:
            for sock in (carried.near, carried.far):
                sock.settimeout(0)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().sock_connect(carried.far, (LOOPBACK, self._target))
            self.reached += 1
            await self._both(carried)
        except (OSError, _EndedError):
            pass  # whoever is left is told by the end of its connection
        finally:
            carried.close()
            self.moves += 1

    async def _both(self, carried: CarriedBytes) -> None:
        running = {asyncio.ensure_future(self._pump(carried, each)) for each in ("up", "down")}
        pumps = set(running)
        try:
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                carried.has_ended = True
                if carried.is_stalled or any(pump.exception() for pump in done):
                    break
        finally:
            for pump in pumps:
                pump.cancel()
            ends = await asyncio.gather(*pumps, return_exceptions=True)
        carried.is_reset |= any(isinstance(end, ConnectionResetError) for end in ends)

    async def _pump(self, carried: CarriedBytes, towards: Direction) -> None:
        ends = carried.near, carried.far
        source, sink = ends if towards == "up" else ends[::-1]
        async for piece in self._pieces(carried, source, towards):
            await asyncio.get_running_loop().sock_sendall(sink, piece)
            carried.passed[towards] += len(piece)
            self.moves += 1
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        self.moves += 1
        # Behind a half-close: what still comes has nowhere to go.
        async for _ in _received(source):
            pass

    async def _pieces(
        self, carried: CarriedBytes, source: socket.socket, towards: Direction
    ) -> AsyncIterator[bytes]:
        """What arrives at the other end, segment by segment."""
        fault = carried.fault
        if fault is None or fault.towards != towards:
            async for data in _received(source):
                yield data
            return
        left = fault.at
        while left:
            data = await asyncio.get_running_loop().sock_recv(source, min(left, MOST))
            if not data:
                return
            left -= len(data)
            yield data
        async for data in self._faulty(carried, source, fault.what):
            yield data

    async def _faulty(
        self, carried: CarriedBytes, source: socket.socket, what: FaultKind
    ) -> AsyncIterator[bytes]:
        match what:
            case FaultKind.RESET | FaultKind.CUT:
                self.hits += 1
                carried.is_reset = what is FaultKind.RESET
                raise _EndedError
            case FaultKind.HALF_CLOSE:
                self.hits += 1
                return
            case FaultKind.STALL:
                self.hits += 1
                carried.is_stalled = True
                if carried.has_ended:
                    raise _EndedError
                await asyncio.Event().wait()
        is_first = True
        async for data in _received(source):
            self.hits += is_first
            for piece in _changed(what, data, is_first=is_first):
                yield piece
                if what in LOSSLESS:
                    # The other end reads this one before the next one comes.
                    await asyncio.sleep(SLOW_PAUSE if what is FaultKind.THROTTLE else 0)
            is_first = False


async def _received(source: socket.socket) -> AsyncIterator[bytes]:
    while data := await asyncio.get_running_loop().sock_recv(source, MOST):
        yield data


def _changed(what: FaultKind, data: bytes, *, is_first: bool) -> list[bytes]:
    """What becomes of bytes that arrive from the place of the fault on."""
    if what in LOSSLESS:
        size = 1 if what is FaultKind.SPLIT else SLOW_PIECE
        return [data[at : at + size] for at in range(0, len(data), size)]
    if not is_first:
        return [data]
    if what is FaultKind.CORRUPT:
        return [bytes([data[0] ^ FLIP]) + data[1:]]
    return [data[:TWICE] + data]
