"""An HTTP/2 upstream that behaves well or badly, by path, and the client to go with it.

`Http2Upstream(certs.good("api.test", alpn=HTTP2))`; every request is in `.requests`, whether or not its
body ever came.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs

from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame

from tests.proxy.lab.channel import Channel, EndedError
from tests.proxy.lab.frames import Conversation, Stream
from tests.proxy.lab.http1 import Fields
from tests.proxy.lab.server import Link, Upstream

BLOCK = bytes(range(256)) * 64


@dataclass(slots=True)
class Call:
    """One request at the upstream."""

    stream: Stream
    conversation: Conversation
    released: asyncio.Event
    link: int = 0

    @property
    def method(self) -> str:
        return self.stream.header(":method") or ""

    @property
    def path(self) -> str:
        return (self.stream.header(":path") or "").partition("?")[0]

    @property
    def fields(self) -> Fields:
        return self.stream.fields

    @property
    def body(self) -> bytes:
        return bytes(self.stream.body)

    @property
    def authorization(self) -> str:
        return self.stream.header("authorization") or "none"

    def header(self, name: str) -> str | None:
        return self.stream.header(name)

    def headers(self, name: str) -> list[str]:
        return [value for key, value in self.stream.fields if key == name]

    def number(self, name: str, default: int) -> int:
        query = (self.stream.header(":path") or "").partition("?")[2]
        return int(parse_qs(query).get(name, [str(default)])[0])

    async def begin(self, status: int = 200, *extra: tuple[str, str], end: bool = False) -> None:
        await self.conversation.headers(self.stream, ((":status", str(status)), *extra), end=end)

    async def say(self, data: bytes, *, end: bool = False) -> None:
        await self.conversation.data(self.stream, data, end=end)


Handler = Callable[[Call], Awaitable[None]]


class Http2Upstream(Upstream):
    """Serves the paths below; `settings` are what it announces, such as MAX_CONCURRENT_STREAMS.

    `wants` is the one credential that is let in, as the whole value of Authorization; anything else is
    answered 401. Empty, it lets in everybody.
    """

    def __init__(
        self, tls: ssl.SSLContext, settings: dict[SettingCodes, int] | None = None, wants: str = ""
    ) -> None:
        super().__init__(tls)
        self._wants = wants
        self._handlers = dict(HANDLERS)
        self.requests: list[Call] = []
        self.most_at_once = 0
        """The largest number of requests that were under way at one time."""
        self._settings = settings
        self._under_way = 0

    def handle(self, path: str, handler: Handler) -> None:
        """What answers requests for a path."""
        self._handlers[path] = handler

    async def serve(self, link: Link, channel: Channel) -> None:
        calls: set[asyncio.Task[None]] = set()

        def arrived(stream: Stream) -> None:
            call = Call(stream, conversation, self.released, link.number)
            if self.keeps_log:
                self.requests.append(call)
            # A path that does not read must say so before the first byte of the body arrives.
            stream.acknowledges = call.path not in {"/never-reads", "/reads-late"}
            task = asyncio.get_running_loop().create_task(self._serve(call))
            calls.add(task)
            task.add_done_callback(calls.discard)

        conversation = Conversation(channel, is_client=False, settings=self._settings, arrived=arrived)
        await conversation.begin()
        try:
            await conversation.finished()
        finally:
            for task in calls:
                task.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await conversation.drop()

    async def _serve(self, call: Call) -> None:
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        await self.changed()
        try:
            wrong = self._wants and call.headers("authorization") != [self._wants]
            await (locked if wrong else self._handlers.get(call.path, missing))(call)
        except (EndedError, OSError):
            pass  # the client left, or reset the stream
        except Exception as mistake:  # noqa: BLE001 - kept, and raised when the lab is left
            self.note(mistake)
        finally:
            self._under_way -= 1


# Handlers -----------------------------------------------------------------------------------------


async def locked(call: Call) -> None:
    """For whoever brings no credential, or not the one that is wanted."""
    await call.begin(401, end=True)


async def missing(call: Call) -> None:
    await call.begin(404, end=True)


async def small(call: Call) -> None:
    """A few hundred bytes for whoever brings a credential, 401 for others."""
    if call.authorization == "none":
        await call.begin(401, end=True)
        return
    await call.begin(200, ("content-type", "application/json"))
    await call.say(b'{"ok":true}' + b" " * 300, end=True)


async def echo(call: Call) -> None:
    """All fields and the body, as JSON."""
    await call.conversation.whole(call.stream)
    found = {"fields": call.fields, "body": call.body.decode("latin-1"), "trailers": call.stream.trailers}
    await call.begin(200, ("content-type", "application/json"))
    await call.say(json.dumps(found).encode(), end=True)


async def echo_header(call: Call) -> None:
    await call.begin(200, ("x-echo", call.authorization), end=True)


async def many_bytes(call: Call) -> None:
    """`n` bytes, as the windows allow."""
    left = call.number("n", 1)
    await call.begin(200)
    while left:
        part = BLOCK[:left]
        await call.say(part)
        left -= len(part)
    await call.conversation.end(call.stream)


async def sink(call: Call) -> None:
    """How many bytes came."""
    await call.conversation.whole(call.stream)
    await call.begin(200)
    await call.say(str(call.stream.size).encode(), end=True)


async def events(call: Call) -> None:
    """`n` DATA frames, each sent when the loop comes round."""
    await call.begin(200, ("content-type", "text/event-stream"))
    for number in range(call.number("n", 3)):
        await call.say(b"data: %d\n\n" % number)
        await asyncio.sleep(0)
    await call.conversation.end(call.stream)


async def trailers(call: Call) -> None:
    """A body and trailers, one of which carries the credential."""
    await call.begin(200, ("trailer", "x-check, x-echo"))
    await call.say(b"body\n")
    last = (("x-check", "done"), ("x-echo", call.authorization))
    await call.conversation.headers(call.stream, last, end=True)


async def early_hints(call: Call) -> None:
    await call.begin(103, ("link", "</a.css>"), ("x-echo", call.authorization))
    await call.begin(200)
    await call.say(b"after the hints\n", end=True)


async def reads_late(call: Call) -> None:
    """Acknowledges nothing before `released`, then reads all."""
    await call.released.wait()
    call.stream.acknowledges = True
    await call.conversation.acknowledge(call.stream)
    await sink(call)


async def never(call: Call) -> None:
    """Neither reads nor answers."""
    await call.conversation.finished()


async def stalls(call: Call) -> None:
    """Sends a head and a beginning, and the rest after `released`."""
    await call.begin(200)
    await call.say(b"beginning\n")
    await call.released.wait()
    await call.say(b"end\n", end=True)


async def resets(call: Call) -> None:
    """RST_STREAM after a head and some bytes; `code` chooses the reason."""
    await call.begin(200)
    await call.say(b"some\n")
    await call.conversation.reset(call.stream, ErrorCodes(call.number("code", 2)))


async def resets_at_once(call: Call) -> None:
    await call.conversation.reset(call.stream, ErrorCodes.REFUSED_STREAM)


async def goes_away(call: Call) -> None:
    """A whole response, then GOAWAY."""
    await call.begin(200)
    await call.say(b"the last one\n", end=True)
    call.conversation.h2.close_connection(last_stream_id=call.stream.id)
    await call.conversation.flush()


async def floods(call: Call) -> None:
    """`n` empty DATA frames, which no window holds back."""
    await call.begin(200)
    frame = DataFrame(call.stream.id).serialize()
    for _ in range(call.number("n", 1000)):
        await call.conversation.raw(frame)
    await call.conversation.end(call.stream)


async def overruns(call: Call) -> None:
    """`n` bytes with no regard for the windows, which is an error of the protocol."""
    await call.begin(200)
    for _ in range(-(-call.number("n", 1_000_000) // len(BLOCK))):
        await call.conversation.raw(DataFrame(call.stream.id, BLOCK).serialize())


HANDLERS: dict[str, Handler] = {
    "/103": early_hints,
    "/bytes": many_bytes,
    "/echo": echo,
    "/echo-hdr": echo_header,
    "/flood": floods,
    "/goaway": goes_away,
    "/never-reads": never,
    "/overrun": overruns,
    "/reads-late": reads_late,
    "/refused": resets_at_once,
    "/rst": resets,
    "/sink": sink,
    "/small": small,
    "/sse": events,
    "/stall": stalls,
    "/trailers": trailers,
}


# The client ---------------------------------------------------------------------------------------


class Http2Client:
    """Requests on one HTTP/2 connection, over a channel whose TLS is done."""

    def __init__(self, channel: Channel, settings: dict[SettingCodes, int] | None = None) -> None:
        self.conversation = Conversation(channel, is_client=True, settings=settings, keep=64 * 1024 * 1024)

    async def start(self, host: str, path: str, *extra: tuple[str, str], method: str = "GET") -> Stream:
        """Send a head and leave the stream open for a body."""
        fields = ((":method", method), (":scheme", "https"), (":authority", host), (":path", path), *extra)
        return await self.start_with(fields)

    async def start_with(self, fields: Fields, *, end: bool = False) -> Stream:
        """Send exactly these fields, pseudo-headers included."""
        stream = Stream(self.conversation.h2.get_next_available_stream_id())
        await self.conversation.headers(stream, fields, end=end)
        return stream

    async def get(self, host: str, path: str, *extra: tuple[str, str]) -> Stream:
        """A whole exchange without a body."""
        fields = ((":method", "GET"), (":scheme", "https"), (":authority", host), (":path", path), *extra)
        return await self.conversation.whole(await self.start_with(fields, end=True))

    async def post(self, host: str, path: str, body: bytes, *extra: tuple[str, str]) -> Stream:
        stream = await self.start(host, path, *extra, method="POST")
        await self.conversation.data(stream, body, end=True)
        return await self.conversation.whole(stream)

    async def __aenter__(self) -> Self:
        await self.conversation.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.conversation.close()
