"""Everything that leaves a room, or runs through its loopback, seen from outside of every process.

Two packet sockets a room. One takes only what opens something (a TCP SYN) and what is not TCP, so that it
never overflows; the other takes what TCP carries, to be searched. `barrier` makes sure that all which was
sent before it has been seen: nothing here waits for time to pass.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Self

from tests.attack.lab.network import Room

MARK_ADDRESS: Final = "45.0.0.9"
"""Where barriers are sent; nobody reads them there."""
KEPT_OF_A_FLOW: Final = 256 * 1024
_ALL_PROTOCOLS: Final = 0x0003
_OUTGOING: Final = 4
_IPV4, _IPV6 = 0x0800, 0x86DD
_TCP, _UDP = 6, 17
_PATIENCE: Final = 10.0

Place = tuple[str, int]


@dataclass(frozen=True, slots=True, order=True)
class Opened:
    """A TCP connection that was tried, or a datagram that was sent."""

    kind: str
    """tcp, udp, or the number of another protocol."""
    source: Place
    target: Place

    def __str__(self) -> str:
        return f"{self.kind} to {self.target[0]} port {self.target[1]}"


@dataclass(slots=True)
class Flow:
    """One direction of a TCP connection, its beginning kept."""

    data: bytearray = field(default_factory=bytearray)
    after: int | None = None
    """The sequence number that comes next; what was sent twice is kept once."""


class TrafficSniffer:
    """What was seen in one room."""

    def __init__(self, room: Room, watch: Watch) -> None:
        self.room = room
        self.opened: list[Opened] = []
        self.flows: dict[tuple[Place, Place], Flow] = {}
        self.lost = 0
        """Packets that came too fast to be searched. Those that open something are never lost."""
        self._watch = watch
        self._marks: set[bytes] = set()
        self._arrived = threading.Condition()
        self._openings = self._tap(openings=True)
        self._contents = self._tap(openings=False)
        self._marker = room.datagrams("0.0.0.0", 0)
        self._marker.connect((MARK_ADDRESS, 9))
        watch.add(self._openings, lambda: self._take(self._openings, self._note_opening))
        watch.add(self._contents, lambda: self._take(self._contents, self._note_content))

    def close(self) -> None:
        for sock in (self._openings, self._contents):
            self._watch.remove(sock)
            sock.close()
        self._marker.close()

    def barrier(self) -> None:
        """Return when all that was sent before has been noted."""
        mark = os.urandom(16)
        # Both sockets get it, each after what came before.
        wanted = {b"o" + mark, b"c" + mark}
        self._marker.send(mark)
        with self._arrived:
            if not self._arrived.wait_for(lambda: wanted <= self._marks, _PATIENCE):
                raise AssertionError("the sniffer does not see what is sent")
            self._marks -= wanted

    def carried(self, since: int = 0) -> Iterator[tuple[Place, Place, bytes]]:
        """What went through each connection, by its two ends."""
        for (source, target), flow in list(self.flows.items())[since:]:
            yield source, target, bytes(flow.data)

    # Taking

    def _tap(self, *, openings: bool) -> socket.socket:
        sock = self.room.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PROTOCOLS))
        with suppress(OSError):
            # Past the machine's limit, where the root of the room may.
            sock.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCED, 32 * 1024 * 1024)
        if openings:
            _filter(sock, _OPENINGS)
        sock.setblocking(False)
        return sock

    def _take(self, sock: socket.socket, note: _Note) -> None:
        for _ in range(64):
            try:
                packet, (_, _, direction, _, _) = sock.recvfrom(1 << 17)
            except BlockingIOError:
                break
            # On loopback each packet is seen twice, going and coming.
            if direction == _OUTGOING and (parsed := _parse(packet)) is not None:
                note(parsed)
        if sock is self._contents:
            _, dropped = struct.unpack("II", sock.getsockopt(_PACKET, _STATISTICS, 8))
            self.lost += dropped

    def _is_mark(self, packet: _Packet, kind: bytes) -> bool:
        if packet.protocol != _UDP or packet.target != (MARK_ADDRESS, 9):
            return False
        with self._arrived:
            self._marks.add(kind + packet.payload)
            self._arrived.notify_all()
        return True

    def _note_opening(self, packet: _Packet) -> None:
        if self._is_mark(packet, b"o") or packet.is_of_the_link:
            return
        kind = {_TCP: "tcp", _UDP: "udp"}.get(packet.protocol, str(packet.protocol))
        self.opened.append(Opened(kind, packet.source, packet.target))

    def _note_content(self, packet: _Packet) -> None:
        if self._is_mark(packet, b"c") or packet.protocol != _TCP:
            return
        flow = self.flows.setdefault((packet.source, packet.target), Flow())
        fresh = packet.payload
        if flow.after is not None and (already := (flow.after - packet.sequence) % 2**32) < 2**31:
            fresh = fresh[already:]
        if packet.opens or fresh:
            flow.after = (packet.sequence + len(packet.payload) + packet.opens) % 2**32
            flow.data += fresh[: max(0, KEPT_OF_A_FLOW - len(flow.data))]


class Watch:
    """One thread that reads every packet socket of the lab."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._awake, self._waker = socket.socketpair()
        self._selector.register(self._awake, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._waker.close()
        self._thread.join()
        self._selector.close()
        self._awake.close()

    def add(self, sock: socket.socket, ready: _Ready) -> None:
        with self._lock:
            self._selector.register(sock, selectors.EVENT_READ, ready)

    def remove(self, sock: socket.socket) -> None:
        """Return when nobody reads from it any more."""
        with self._lock:
            self._selector.unregister(sock)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                with self._lock:
                    if key.fileobj in {k.fileobj for k in self._selector.get_map().values()}:
                        key.data()


# Packets ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Packet:
    protocol: int
    source: Place
    target: Place
    payload: bytes
    sequence: int = 0
    opens: bool = False

    @property
    def is_of_the_link(self) -> bool:
        """What kernels say to their neighbours by themselves: who lives here, who listens."""
        return self.protocol not in (_TCP, _UDP) and self.target[0].startswith(("ff02:", "fe80:"))


_Note = Callable[[_Packet], None]
_Ready = Callable[[], None]


def _parse(data: bytes) -> _Packet | None:
    if not data:
        return None
    if data[0] >> 4 == 4 and len(data) >= 20:
        header, length = (data[0] & 15) * 4, struct.unpack_from("!H", data, 2)[0]
        protocol, ends = data[9], (data[12:16], data[16:20])
        # Segments put together by the kernel have no length of their own.
        inside = data[header : length or len(data)]
    elif data[0] >> 4 == 6 and len(data) >= 40:
        length, protocol = struct.unpack_from("!H", data, 4)[0], data[6]
        ends, inside = (data[8:24], data[24:40]), data[40 : 40 + length if length else len(data)]
    else:
        return None
    source, target = (str(ip_address(end)) for end in ends)
    if protocol not in (_TCP, _UDP) or len(inside) < 8:
        return _Packet(protocol, (source, 0), (target, 0), inside)
    ports = struct.unpack_from("!HH", inside)
    places = (source, ports[0]), (target, ports[1])
    if protocol == _UDP:
        return _Packet(protocol, *places, inside[8:])
    start = (inside[12] >> 4) * 4
    sequence = struct.unpack_from("!I", inside, 4)[0]
    return _Packet(protocol, *places, inside[start:], sequence, bool(inside[13] & 2))


# The kernel's filter ------------------------------------------------------------------------------

_PACKET: Final = 263
_STATISTICS: Final = 6
_RECEIVE_BUFFER_FORCED: Final = 33
_ATTACH_FILTER: Final = 26
_LOAD, _LOAD_AT_X, _HEADER_LENGTH = 0x30, 0x50, 0xB1
_AND, _EQUAL, _JUMP, _RETURN = 0x54, 0x15, 0x05, 0x06

# A TCP packet with SYN and without ACK, or anything that is not TCP. Jumps count from the next line.
_OPENINGS: Final = (
    (_LOAD, 0, 0, 0),
    (_AND, 0, 0, 0xF0),
    (_EQUAL, 0, 5, 0x40),
    (_LOAD, 0, 0, 9),
    (_EQUAL, 0, 8, _TCP),
    (_HEADER_LENGTH, 0, 0, 0),
    (_LOAD_AT_X, 0, 0, 13),
    (_JUMP, 0, 0, 3),  # on to the flags
    (_LOAD, 0, 0, 6),
    (_EQUAL, 0, 3, _TCP),
    (_LOAD, 0, 0, 40 + 13),
    (_AND, 0, 0, 0x12),
    (_EQUAL, 0, 1, 0x02),
    (_RETURN, 0, 0, 0x40000),
    (_RETURN, 0, 0, 0),
)


def _filter(sock: socket.socket, program: tuple[tuple[int, int, int, int], ...]) -> None:
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    pointer = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, pointer)
