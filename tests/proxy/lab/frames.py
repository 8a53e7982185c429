"""HTTP/2 on a channel, with the h2 library: what the lab's upstream and its client share.

One task reads; whoever wants to send waits for the window. h2's checks of outgoing headers are off, so
that a test can send what nobody should.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from tests.proxy.lab.channel import Channel, EndedError
from tests.proxy.lab.http1 import Fields, value


@dataclass(slots=True)
class Stream:
    """One stream, as far as the peer has filled it."""

    id: int
    fields: Fields = ()
    informational: list[Fields] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    size: int = 0
    trailers: Fields = ()
    complete: bool = False
    """The peer has ended its side."""
    reset: int | None = None
    """The error code the peer reset it with."""
    acknowledges: bool = True
    """Whether what arrives is acknowledged at once, which opens the window again."""
    unacknowledged: int = 0

    @property
    def status(self) -> int:
        return int(value(self.fields, ":status") or 0)

    def header(self, name: str) -> str | None:
        return value(self.fields, name)


class Conversation:
    """One HTTP/2 connection. `begin()` first; `close()` or `drop()` last."""

    def __init__(
        self,
        channel: Channel,
        *,
        is_client: bool,
        settings: dict[SettingCodes, int] | None = None,
        arrived: Callable[[Stream], None] | None = None,
        keep: int = 1024 * 1024,
    ) -> None:
        self.channel = channel
        self.streams: dict[int, Stream] = {}
        self.goaway: int | None = None
        """The error code of the peer's GOAWAY."""
        self.mistake = ""
        """How the peer broke the protocol, in h2's words."""
        self.ended = False
        self.h2 = H2Connection(
            H2Configuration(
                client_side=is_client,
                header_encoding="latin-1",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        if settings:
            self.h2.local_settings = Settings(client=is_client, initial_values={**settings})
        self._arrived = arrived
        self._keep = keep
        self._changed = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Send the preface and start to read."""
        self.h2.initiate_connection()
        await self.flush()
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def finished(self) -> None:
        """Wait until the connection has ended."""
        await self.until(lambda: self.ended)

    async def close(self) -> None:
        """GOAWAY, goodbye."""
        with suppress(OSError, ProtocolError):
            self.h2.close_connection()
            await self.flush()
        await self._stop()
        await self.channel.close()

    async def drop(self) -> None:
        await self._stop()
        await self.channel.drop()

    async def _stop(self) -> None:
        if self._reader:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    # Waiting --------------------------------------------------------------------------------------

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that arrives; EndedError when the connection ends without it."""
        async with self._changed:
            await self._changed.wait_for(lambda: happened() or self.ended)
        if not happened():
            raise EndedError(f"the connection ended ({self.channel.end}) {self.mistake}")

    async def whole(self, stream: Stream) -> Stream:
        """Wait until the peer has ended the stream, well or by a reset."""
        await self.until(lambda: stream.complete or stream.reset is not None)
        return stream

    # Sending --------------------------------------------------------------------------------------

    async def headers(self, stream: Stream, fields: Fields, *, end: bool = False) -> None:
        self.streams.setdefault(stream.id, stream)
        self.h2.send_headers(stream.id, list(fields), end_stream=end)
        await self.flush()

    async def data(self, stream: Stream, data: bytes, *, end: bool = False) -> None:
        """Send within the peer's windows, waiting for them; EndedError when the stream is reset."""
        view = memoryview(data)
        while view:
            room = await self._room(stream)
            part, view = view[:room], view[room:]
            self.h2.send_data(stream.id, bytes(part))
            await self.flush()
        if end:
            await self.end(stream)

    async def end(self, stream: Stream) -> None:
        self.h2.end_stream(stream.id)
        await self.flush()

    async def reset(self, stream: Stream, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        self.h2.reset_stream(stream.id, code)
        await self.flush()

    async def acknowledge(self, stream: Stream) -> None:
        """Open the windows by all that has come on the stream and was not acknowledged."""
        if stream.unacknowledged:
            self.h2.acknowledge_received_data(stream.unacknowledged, stream.id)
            stream.unacknowledged = 0
            await self.flush()

    async def raw(self, data: bytes) -> None:
        """Send bytes that h2 would not."""
        await self.flush()
        await self.channel.send(data)

    async def flush(self) -> None:
        if data := self.h2.data_to_send():
            await self.channel.send(data)

    async def _room(self, stream: Stream) -> int:
        def room() -> int:
            if stream.reset is not None:
                return 0
            return min(self.h2.local_flow_control_window(stream.id), self.h2.max_outbound_frame_size)

        await self.until(lambda: stream.reset is not None or room() > 0)
        if stream.reset is not None:
            raise EndedError(f"the peer reset the stream ({stream.reset})")
        return room()

    # Reading --------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while data := await self.channel.some():
                for event in self.h2.receive_data(data):
                    await self._note(event)
                await self.flush()
                await self._notify()
        except ProtocolError as error:
            self.mistake = f"{type(error).__name__}: {error}"
            with suppress(OSError):
                await self.flush()
        except OSError:
            pass  # the peer left
        finally:
            self.ended = True
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _note(self, event: events.Event) -> None:
        if isinstance(event, events.ConnectionTerminated):
            self.goaway = int(event.error_code or 0)
        number = getattr(event, "stream_id", None)
        if number:
            await self._note_on(self.streams.setdefault(number, Stream(number)), event)

    async def _note_on(self, stream: Stream, event: events.Event) -> None:
        match event:
            case events.RequestReceived() | events.ResponseReceived():
                stream.fields = _text(event.headers)
                if self._arrived:
                    self._arrived(stream)
            case events.InformationalResponseReceived():
                stream.informational.append(_text(event.headers))
            case events.TrailersReceived():
                stream.trailers = _text(event.headers)
            case events.DataReceived():
                await self._take(stream, event)
            case events.StreamEnded():
                stream.complete = True
            case events.StreamReset():
                stream.reset = int(event.error_code or 0)
            case _:
                pass

    async def _take(self, stream: Stream, event: events.DataReceived) -> None:
        data = event.data or b""
        stream.size += len(data)
        stream.body += data[: max(0, self._keep - len(stream.body))]
        stream.unacknowledged += event.flow_controlled_length or 0
        if stream.acknowledges:
            await self.acknowledge(stream)


def _text(headers: object) -> Fields:
    """Pairs of text, whatever tuple class the library chose."""
    pairs: list[tuple[str, str]] = []
    for pair in headers if isinstance(headers, list) else []:
        name, text = pair
        pairs.append((str(name), str(text)))
    return tuple(pairs)
