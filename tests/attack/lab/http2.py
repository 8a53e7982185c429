"""HTTP/2 from the sandbox, blocking, with nothing checked on the way out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Self

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from tests.attack.lab.client import Line
from tests.proxy.lab.frames import Stream, _text
from tests.proxy.lab.http1 import Fields


class Http2:
    """One connection, over a line whose TLS has agreed on `h2`."""

    def __init__(self, line: Line, settings: dict[SettingCodes, int] | None = None) -> None:
        self.line = line
        self.streams: dict[int, Stream] = {}
        self.goaway: int | None = None
        """The error code of the proxy's GOAWAY."""
        self.acknowledges = True
        """Whether what arrives opens the windows again."""
        self.h2 = H2Connection(
            H2Configuration(
                header_encoding="latin-1",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        if settings:
            self.h2.local_settings = Settings(client=True, initial_values={**settings})
        self.h2.initiate_connection()
        self.flush()

    # Sending

    def flush(self) -> Self:
        self.line.send(self.h2.data_to_send())
        return self

    def raw(self, data: bytes) -> Self:
        """Bytes that h2 would not send."""
        self.line.send(data)
        return self

    def start(self, *fields: tuple[str, str], end: bool = True) -> Stream:
        """Send exactly these fields, pseudo-headers included."""
        stream = Stream(self.h2.get_next_available_stream_id())
        self.streams[stream.id] = stream
        self.h2.send_headers(stream.id, list(fields), end_stream=end)
        self.flush()
        return stream

    def data(self, stream: Stream, data: bytes, *, end: bool = False) -> None:
        """Send within the windows; nothing that would wait for one."""
        size = self.h2.max_outbound_frame_size
        for at in range(0, len(data), size):
            self.h2.send_data(stream.id, data[at : at + size])
        if end:
            self.h2.end_stream(stream.id)
        self.flush()

    def ask(self, host: str, path: str = "/echo", *extra: tuple[str, str], method: str = "GET") -> Stream:
        """A whole exchange without a body."""
        return self.whole(self.start(*head(host, path, *extra, method=method)))

    # Reading

    def whole(self, stream: Stream) -> Stream:
        """Read until the stream has ended or was reset, or the connection is over."""
        self.until(lambda: stream.complete or stream.reset is not None)
        return stream

    def until(self, happened: Callable[[], bool]) -> bool:
        """Read until that; whether it came before the end."""
        while not happened():
            data = self.line.some()
            if not data:
                return False
            try:
                for event in self.h2.receive_data(data):
                    self._note(event)
            except ProtocolError:
                return happened()
            self.flush()
        return True

    def _note(self, event: events.Event) -> None:
        if isinstance(event, events.ConnectionTerminated):
            self.goaway = int(event.error_code or 0)
        number = getattr(event, "stream_id", None)
        if not number:
            return
        stream = self.streams.setdefault(number, Stream(number))
        match event:
            case events.ResponseReceived():
                stream.fields = _text(event.headers)
            case events.InformationalResponseReceived():
                stream.informational.append(_text(event.headers))
            case events.TrailersReceived():
                stream.trailers = _text(event.headers)
            case events.DataReceived():
                stream.body += event.data or b""
                if self.acknowledges:
                    with suppress(ProtocolError):
                        self.h2.acknowledge_received_data(event.flow_controlled_length or 0, number)
            case events.StreamEnded():
                stream.complete = True
            case events.StreamReset():
                stream.reset = int(event.error_code or 0)
            case _:
                pass


def head(host: str, path: str = "/echo", *extra: tuple[str, str], method: str = "GET") -> Fields:
    """The fields of a request as it should be."""
    return (
        (":method", method),
        (":scheme", "https"),
        (":authority", host),
        (":path", path),
        *extra,
    )
