"""Limits on the work that an HTTP/2 peer may cause, in total and in a second.

Frames that cost the sender nothing and us something are counted; a peer that sends too many is cut off.
The frame filter and the protocol library bound the size and the number of pieces of a head: neither is
counted again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import hpack
from h2 import connection as h2_connection
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from egress.relay.http2_fields import MessagePart, check_fields
from egress.relay.http2_frame_filter import FrameFilter
from egress.relay.limits import MIN_WINDOW_BYTES
from egress.types import Headers

# The library formats every frame for a trace line that nobody reads, and writes the whole payload in hex
# for it: up to a quarter of the time of a transfer. `object.__repr__` names the frame without its payload.
h2_connection.repr = object.__repr__  # type: ignore[attr-defined]

MAX_STREAMS: Final = 100
STREAM_WINDOW_BYTES: Final = 1024 * 1024
CONNECTION_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Window of a connection to an upstream, at most."""
CLIENT_WINDOW_BYTES: Final = 2 * 1024 * 1024
"""Window of a client connection, at most: a sandbox may have many connections."""
MAX_HEAD_BYTES: Final = 64 * 1024
PREFACE_BYTES: Final = 24

_MAX_EVENTS_PER_SECOND: Final[dict[type, int]] = {
    events.StreamReset: 200,
    events.RemoteSettingsChanged: 20,
    events.PingReceived: 60,
    events.PingAckReceived: 60,
    events.PriorityUpdated: 400,
    events.UnknownFrameReceived: 100,
    events.SettingsAcknowledged: 20,
}
MAX_UNREAD_BYTES: Final = 4 * 1024 * 1024
_MAX_TABLE_BYTES: Final = 4096
_MAX_TABLE_UPDATES: Final = 2
"""Changes of the size of the table of fields in a head: the standard knows a reason for two."""
_MAX_EMPTY_DATA: Final = 200
_MAX_WINDOW_UPDATES: Final = 4000
"""Window updates in a second without regard to sent bytes."""
_PAID_WINDOW_BYTES: Final = 1024
"""Sent bytes that pay for each further window update."""
_MAX_PAID_WINDOW_BYTES: Final = 32 * 1024 * 1024
"""Sent bytes that are remembered for later window updates."""


_PARTS: Final[dict[type, MessagePart]] = {
    events.RequestReceived: "request",
    events.ResponseReceived: "response",
    events.InformationalResponseReceived: "response",
    events.TrailersReceived: "trailers",
}


class FloodError(ProtocolError):
    """The peer does too much of what is cheap for it."""

    error_code = ErrorCodes.ENHANCE_YOUR_CALM


class Http2Counters:
    """The counts of one connection in the second that runs."""

    def __init__(self) -> None:
        self._counts: dict[type, int] = {}
        self._unread = 0
        self._sent = 0

    def new_second(self) -> None:
        """Begin to count anew."""
        self._counts.clear()

    def count(self, event: events.Event) -> None:
        """Count an event; raises `FloodError` where it is one too many."""
        kind = type(event)
        most = _MAX_EVENTS_PER_SECOND.get(kind)
        if most is None:
            if isinstance(event, events.DataReceived):
                if event.stream_ended or event.data:
                    return
                most = _MAX_EMPTY_DATA
            elif isinstance(event, events.WindowUpdated):
                most = _MAX_WINDOW_UPDATES
            else:
                return
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] > most and not self._is_paid(event):
            raise FloodError("too many empty frames")

    def _is_paid(self, event: events.Event) -> bool:
        """Tell whether a frame opens a window for sent data: a quick download has many of these."""
        # A number for each second alone would stop no peer that costs a slow machine all its time.
        if not isinstance(event, events.WindowUpdated) or self._sent < _PAID_WINDOW_BYTES:
            return False
        self._sent -= _PAID_WINDOW_BYTES
        return True

    def wrote(self, count: int, *, blocked: bool) -> None:
        """Count what is written, and what of it although the peer does not read.

        No body is among the latter, only what the peer itself makes us say: raises `FloodError` where it
        goes on.
        """
        self._sent = min(self._sent + count, _MAX_PAID_WINDOW_BYTES)
        self._unread = self._unread + count if blocked else 0
        if self._unread > MAX_UNREAD_BYTES:
            raise FloodError("too much that is answered and never read")


class PacedHttp2:
    """The part of an HTTP/2 connection, of either side, that bounds what the peer may send."""

    def __init__(self, *, client_side: bool) -> None:
        self._bounds = Http2Counters()
        self._h2 = new_connection(client_side=client_side)
        self._goodbyes = FrameFilter(preface=0 if client_side else PREFACE_BYTES)
        self._is_closed = False

    @property
    def h2(self) -> H2Connection:
        """The connection of the library."""
        return self._h2

    @property
    def reads(self) -> bool:
        """Flow control keeps the body of each stream in bounds, so the connection is always read."""
        return True

    def acknowledge(self, stream: int, count: int) -> None:
        """Let the peer send this much more."""
        if count and not self._is_closed:
            self._h2.acknowledge_received_data(count, stream)

    def piece_end(self, data: bytes, start: int) -> int:
        """Return where the bytes end that are read in one go."""
        return self._goodbyes.piece_end(data, start)

    def note_piece(self, *, is_over: bool) -> None:
        """A piece has been read. Its size is that of frames, and does not depend on how long it took."""


class StreamWindow:
    """The part of one stream, of either side, that lets the peer send more as what came has moved on."""

    def __init__(self, bounded: PacedHttp2, number: int) -> None:
        self.number = number
        self._bounded = bounded
        self._held = False
        self._unacknowledged = 0

    def hold(self, *, held: bool) -> None:
        """Take no more for now, or again."""
        self._held = held
        if not held:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Give back the window that what came has taken."""
        count, self._unacknowledged = self._unacknowledged, 0
        self._bounded.acknowledge(self.number, count)


def read_events(h2: H2Connection, bounds: Http2Counters, data: bytes) -> list[events.Event]:
    """Have the library read; a read that is a flood is not acted on at all. Raises `ProtocolError`."""
    found = h2.receive_data(data)
    for event in found:
        bounds.count(event)
        part = _PARTS.get(type(event))
        if part is not None:
            check_fields(event.headers, part)  # type: ignore[attr-defined]  # each of these has them
        if isinstance(event, events.RemoteSettingsChanged):
            _limit_table(h2)
    return found


class FieldDecoder(hpack.Decoder):
    """The decoder of the library, for heads that are not made of changes of its table alone."""

    def __init__(self) -> None:
        super().__init__(MAX_HEAD_BYTES)
        self._updates = 0

    def decode(self, data: bytes, raw: bool = False) -> Iterable[hpack.HeaderTuple]:  # noqa: FBT001, FBT002
        self._updates = 0
        return super().decode(data, raw)

    def _update_encoding_context(self, data: bytes | memoryview) -> int:
        # A byte each, of which a head can hold a million, and none of them counts as a field.
        self._updates += 1
        if self._updates > _MAX_TABLE_UPDATES:
            raise hpack.HPACKDecodingError("the size of the table changes too often")
        return super()._update_encoding_context(data)


def _limit_table(h2: H2Connection) -> None:
    """The peer may allow a table of fields of any size; how much we remember for it is our choice."""
    encoder = h2.encoder
    if encoder.header_table_size > _MAX_TABLE_BYTES:
        encoder.header_table_size = _MAX_TABLE_BYTES
        encoder.table_size_changes = [_MAX_TABLE_BYTES]


def encode_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The fields as they came off a wire: one character is one byte. The library would write UTF-8."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def new_connection(*, client_side: bool) -> H2Connection:
    """A connection with our bounds in its settings; `initiate` sends them."""
    # `check_fields` takes the place of the library's check of what comes in.
    config = H2Configuration(
        client_side=client_side,
        header_encoding="latin-1",
        normalize_outbound_headers=False,
        validate_inbound_headers=False,
    )
    h2 = H2Connection(config)
    h2.decoder = FieldDecoder()
    values = {
        SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
        SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
        SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEAD_BYTES,
        SettingCodes.ENABLE_PUSH: 0,
    }
    h2.local_settings = Settings(client=client_side, initial_values=values)
    return h2


def start_connection(h2: H2Connection, window: int = CONNECTION_WINDOW_BYTES) -> None:
    """Greet, and open the window of the connection."""
    h2.initiate_connection()
    if window > MIN_WINDOW_BYTES:
        h2.increment_flow_control_window(window - MIN_WINDOW_BYTES)
