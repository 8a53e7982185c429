"""The send queue of an HTTP/2 connection: bodies, within the windows that the peer has opened.

A stream whose queue grows past its bound is congested, and all are when the connection's total does;
whoever fills a congested queue has to stop. Streams take turns, frame by frame, so that a big body does
not keep a small one waiting.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from h2.connection import H2Connection
from h2.exceptions import ProtocolError

from egress.relay.http2_limits import encode_headers
from egress.shares.turns import ENDLESS_TURN, Turn
from egress.types import Headers

STREAM_HIGH_BYTES: Final = 256 * 1024
STREAM_LOW_BYTES: Final = STREAM_HIGH_BYTES // 4
TOTAL_HIGH_BYTES: Final = STREAM_HIGH_BYTES * 4
TOTAL_LOW_BYTES: Final = STREAM_HIGH_BYTES * 2


class OnCongestion(Protocol):
    """Hears that a stream must not be filled any more, or may be again."""

    def __call__(self, stream: int, *, congested: bool) -> None: ...


class _Queue:
    __slots__ = ("data", "ends", "is_congested", "size", "trailers")

    def __init__(self) -> None:
        self.data: deque[bytes] = deque()
        self.size = 0
        self.ends = False
        self.trailers: Headers = ()
        self.is_congested = False


class Http2SendQueue:
    """The queues of one connection."""

    def __init__(self, h2: H2Connection, congested: OnCongestion, room: int = STREAM_HIGH_BYTES) -> None:
        """`congested` hears when a stream must not be filled any more, and when it may be again.

        `room`: bytes of a stream that may wait; less where the sandbox has many connections.
        """
        self._scale = room / STREAM_HIGH_BYTES
        self._h2 = h2
        self._tell = congested
        self._queues: dict[int, _Queue] = {}
        self._total = 0
        self.sent = 0
        """Bytes that were handed on so far: a count that stands still is a peer that does not read."""
        self.is_due = False
        """More could be sent, had the turn not been over."""
        self.is_blocked = False
        """The connection itself does not take more for now."""

    def __len__(self) -> int:
        return self._total

    @property
    def is_empty(self) -> bool:
        """The queue is empty, without even the end of a stream."""
        return not self._queues

    def __contains__(self, stream: int) -> bool:
        return stream in self._queues

    def put(self, stream: int, data: bytes) -> None:
        """Add a piece of body."""
        if not data:
            return
        queue = self._queues.setdefault(stream, _Queue())
        queue.data.append(data)
        queue.size += len(data)
        self._total += len(data)

    def end(self, stream: int, trailers: Headers = ()) -> None:
        """End the stream, once its queue is empty."""
        queue = self._queues.setdefault(stream, _Queue())
        queue.ends, queue.trailers = True, trailers

    def drop(self, stream: int) -> None:
        """Forget what still waits on a stream."""
        queue = self._queues.pop(stream, None)
        if queue is not None:
            self._total -= queue.size

    def flush(self, turn: Turn = ENDLESS_TURN) -> None:
        """Hand to HTTP/2 what windows and turn allow, and tell who has to stop or may go on."""
        moved = not self.is_blocked
        self.is_due = False
        while moved and not self.is_due:
            moved = False
            for stream, queue in list(self._queues.items()):
                try:
                    has_sent = self._frame(stream, queue)
                except ProtocolError:
                    # The stream was ended from the other side; its half hears of that on its own.
                    self.drop(stream)
                    continue
                if not has_sent:
                    continue
                moved = True
                if stream in self._queues:
                    # The others go first, also where the turn is over in between.
                    self._queues[stream] = self._queues.pop(stream)
                if turn.is_over:
                    self.is_due = True
                    break
        self._balance()

    def _frame(self, stream: int, queue: _Queue) -> bool:
        """Send one frame of a stream; whether that was possible."""
        if queue.size:
            room = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
            if room <= 0:
                return False
            piece = self._take(queue, room)
            ends = queue.ends and not queue.size and not queue.trailers
            self._h2.send_data(stream, piece, end_stream=ends)
            if ends:
                del self._queues[stream]
            return True
        if not queue.ends:
            return False
        del self._queues[stream]
        if queue.trailers:
            self._h2.send_headers(stream, encode_headers(queue.trailers), end_stream=True)
        else:
            self._h2.end_stream(stream)
        return True

    def _take(self, queue: _Queue, room: int) -> bytes:
        pieces: list[bytes] = []
        while room and queue.data:
            piece = queue.data.popleft()
            if len(piece) > room:
                queue.data.appendleft(piece[room:])
                piece = piece[:room]
            pieces.append(piece)
            room -= len(piece)
            queue.size -= len(piece)
            self._total -= len(piece)
            self.sent += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _balance(self) -> None:
        scale = self._scale
        full, spare = self._total > TOTAL_HIGH_BYTES * scale, self._total < TOTAL_LOW_BYTES * scale
        high, low = STREAM_HIGH_BYTES * scale, STREAM_LOW_BYTES * scale
        for stream, queue in list(self._queues.items()):
            if not queue.is_congested and (queue.size > high or (full and queue.size)):
                queue.is_congested = True
                self._tell(stream, congested=True)
            elif queue.is_congested and queue.size < low and (spare or not queue.size):
                queue.is_congested = False
                self._tell(stream, congested=False)
