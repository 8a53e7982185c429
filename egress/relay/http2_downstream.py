"""The client's side of HTTP/2: many requests at a time, each with a half of its own.

The framing is the h2 library's; what a request means is settled here: pseudo-header fields become a
request line or are refused, cookies are joined, the length that is stated is the one that is framed.
Request bodies are acknowledged only when they have moved on, responses wait in the outbox.
"""

from __future__ import annotations

import contextlib
from typing import Final

from h2 import events
from h2.connection import ConnectionState
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError, StreamClosedError, StreamIDTooLowError, TooManyStreamsError

from egress.errors import WireError
from egress.exchange import AnswerHead, Request
from egress.http1 import CHUNKED, NO_BODY, Body, Framing
from egress.http1.fields import LOOKALIKE_FIELDS, read_length
from egress.relay.error_page import ErrorPage, error_page
from egress.relay.exchange_stream import ExchangeStream
from egress.relay.http2_frame_filter import GoAway
from egress.relay.http2_limits import (
    CLIENT_WINDOW_BYTES,
    FloodError,
    PacedHttp2,
    StreamWindow,
    encode_headers,
    read_events,
    start_connection,
)
from egress.relay.http2_send_queue import Http2SendQueue
from egress.relay.limits import MIN_WINDOW_BYTES, RelayLimits, StallTimer
from egress.relay.ports import CLIENT_WIRE
from egress.relay.relay_port import RelayPort
from egress.shares.pool import Resource
from egress.types import Headers

_PSEUDO_HEADERS: Final = frozenset({":method", ":scheme", ":path", ":authority", ":protocol"})


class Http2Downstream(PacedHttp2):
    """A client connection that speaks HTTP/2."""

    def __init__(self, relay: RelayPort) -> None:
        self._relay = relay
        super().__init__(client_side=False)
        self._halves: dict[int, Http2DownstreamHalf] = {}
        self.outbox = Http2SendQueue(self._h2, self._on_congestion, relay.service.buffer_bytes)
        self._draining = False
        self._is_retired = False
        self._stall = StallTimer(relay.service.monotonic())
        self._requests = 0
        self._unfinished: set[int] = set()
        """Streams that were answered before their request was complete."""

    @property
    def limits(self) -> RelayLimits:
        return self._relay.limits

    def start(self) -> None:
        """Greet."""
        window = self._relay.account.take_part(Resource.WINDOWS, CLIENT_WINDOW_BYTES, MIN_WINDOW_BYTES)
        start_connection(self._h2, window)

    # The connection

    @property
    def wants_turn(self) -> bool:
        """More of the responses could be sent."""
        return self.outbox.is_due

    def received(self, data: bytes) -> None:
        """Take bytes of the client."""
        try:
            pieces = list(self._goodbyes.feed(data))
        except ProtocolError as error:
            self._broken(error.error_code)
            return
        for piece in pieces:
            if isinstance(piece, GoAway):
                # The client still waits for a response.
                self._draining = True
                continue
            if self._is_closed:
                return
            try:
                found = read_events(self._h2, self._bounds, piece)
            except ProtocolError as error:
                self._broken(error.error_code)
                return
            # Peers that ask and take it back, over and over, must not cost us the work of a request each.
            unwanted = {each.stream_id for each in found if isinstance(each, events.StreamReset)}
            for event in found:
                if not isinstance(event, events.RequestReceived) or event.stream_id not in unwanted:
                    self._take(event)

    def ended(self) -> None:
        """The client has closed its side."""
        self._relay.close(CLIENT_WIRE)

    def pump(self) -> None:
        """Write what has come together."""
        if self._is_closed:
            return
        self.outbox.flush(self._relay.service.turn)
        for stream in [each for each in self._unfinished if each not in self.outbox]:
            # Answered in full: the client may stop sending, and nothing is wrong.
            self.reset(stream, ErrorCodes.NO_ERROR)
        data = self._h2.data_to_send()
        self._relay.write(CLIENT_WIRE, data)
        try:
            self._bounds.wrote(len(data), blocked=self.outbox.is_blocked)
        except FloodError as error:
            self._close(error.error_code)
        if self._draining and not self._halves and self.outbox.is_empty:
            self._close(ErrorCodes.NO_ERROR)

    @property
    def is_resting(self) -> bool:
        """Never: its bounds count by the second."""
        return False

    def drain(self) -> None:
        """Take no more requests; close when those under way are answered."""
        self._draining = True

    def retire(self) -> None:
        """Close with the next response; a client that says nothing keeps its connection."""
        self._is_retired = True

    def blocked(self, *, blocked: bool) -> None:
        """The client does not take what was written, or does again."""
        self.outbox.is_blocked = blocked

    def tick(self, now: float) -> None:
        """Look for what takes too long."""
        self._bounds.new_second()
        limits = self._relay.limits
        for half in list(self._halves.values()):
            half.tick(now, limits)
        if self._halves:
            self._stall.restart(now)
        elif self._stall.quiet_seconds(self._requests + self.outbox.sent, now) > limits.keep_alive:
            self._close(ErrorCodes.NO_ERROR)

    # What halves call

    def send_head(self, stream: int, headers: Headers, *, ends: bool) -> None:
        """Send a head; nothing where the client has ended the stream, of which its half is yet to hear."""
        try:
            self._h2.send_headers(stream, encode_headers(headers), end_stream=ends)
        except (StreamClosedError, StreamIDTooLowError, TooManyStreamsError):
            # The last is said of a stream that is gone, to a client that wants no further ones.
            return
        except ProtocolError:
            if self._h2.state_machine.state is ConnectionState.CLOSED:
                # The client has ended all of it, further on in what is being read.
                return
            # Not to be taken for a fault of whoever is being read just now.
            raise WireError("The head to be sent is not one of HTTP/2.", status=500) from None

    def answered(self, stream: int, *, is_whole: bool) -> None:
        """This half has had its answer, though some of it may still wait to be sent."""
        self._halves.pop(stream, None)
        if not is_whole:
            self._unfinished.add(stream)

    def reset(self, stream: int, code: ErrorCodes) -> None:
        """End a stream in the middle."""
        self.outbox.drop(stream)
        half = self._halves.pop(stream, None)
        if half is not None:
            half.acknowledge()
            half.stream = None
        self._unfinished.discard(stream)
        try:
            self._h2.reset_stream(stream, code)
        except ProtocolError:
            # The stream has ended already, so no reset is needed.
            return

    # Inside

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.DataReceived):
            self._data(event)
        elif isinstance(event, events.RequestReceived):
            self._request(event)
        elif isinstance(event, events.StreamEnded):
            self._unfinished.discard(event.stream_id)
            half = self._halves.get(event.stream_id)
            if half is not None:
                half.request_end()
        elif isinstance(event, events.StreamReset):
            self.outbox.drop(event.stream_id)
            self._unfinished.discard(event.stream_id)
            half = self._halves.pop(event.stream_id, None)
            if half is not None:
                half.acknowledge()
                half.left()
        elif isinstance(event, events.ConnectionTerminated):
            # With an error: the library lets nothing be sent after it.
            self._is_closed = True
            self._relay.close(CLIENT_WIRE)

    def _request(self, event: events.RequestReceived) -> None:
        self._requests += 1
        number = event.stream_id
        if self._draining:
            self.reset(number, ErrorCodes.REFUSED_STREAM)
            return
        self._draining = self._is_retired
        ends = event.stream_ended is not None
        half = self._halves[number] = Http2DownstreamHalf(self, number, is_whole=ends)
        try:
            request, half.framing, expects = _request_of(
                [(str(name), str(value)) for name, value in event.headers], ends=ends
            )
        except WireError:
            self._relay.refused("request.malformed")
            self.reset(number, ErrorCodes.PROTOCOL_ERROR)
            return
        half.is_head = request.method == "HEAD"
        if not self._relay.account.take(Resource.EXCHANGES):
            half.page(error_page("limit.exchanges", self._relay.refused("limit.exchanges"), retry_after=1))
            return
        stream = half.stream = self._relay.stream(half, request, half.framing)
        if ends:
            stream.request_end()
        stream.begin(expects=expects)

    def _data(self, event: events.DataReceived) -> None:
        half = self._halves.get(event.stream_id)
        length = event.flow_controlled_length or 0
        if half is None:
            self.acknowledge(event.stream_id, length)
        else:
            half.received(event.data or b"", length)

    def _on_congestion(self, stream: int, *, congested: bool) -> None:
        half = self._halves.get(stream)
        if half is not None and half.stream is not None:
            half.stream.client_congested(congested=congested)

    def _broken(self, code: ErrorCodes | int) -> None:
        if not self._halves:
            self._relay.refused("request.malformed")
        self._close(code)

    def _close(self, code: ErrorCodes | int) -> None:
        if self._is_closed:
            return
        # The fault has closed the connection, and its GOAWAY is written already.
        with contextlib.suppress(ProtocolError):
            self._h2.close_connection(int(code))
        self._relay.write(CLIENT_WIRE, self._h2.data_to_send())
        self._is_closed = True
        self._relay.close(CLIENT_WIRE)


class Http2DownstreamHalf(StreamWindow):
    """The downstream half of a request: the path of its response."""

    def __init__(self, client: Http2Downstream, stream_id: int, *, is_whole: bool) -> None:
        super().__init__(client, stream_id)
        self._client = client
        self._is_whole = is_whole
        self._is_ended = False
        self._came = 0
        self._stall: StallTimer | None = None
        self.framing = NO_BODY
        self.is_head = False
        self.stream: ExchangeStream | None = None

    # From the connection

    def received(self, data: bytes, length: int) -> None:
        """Take a piece of request body; `length` is what it counts in the window."""
        self._unacknowledged += length
        self._came += len(data)
        if self.stream is not None and data:
            self.stream.request_data(data)
        if not self._held or self.stream is None or self.stream.is_over:
            self.acknowledge()

    def request_end(self) -> None:
        """The request is complete."""
        if not self._is_whole:
            self._is_whole = True
            stream = self.stream
            if stream is None:
                return
            if self.framing.body is Body.LENGTH and self._came != self.framing.length:
                # The library does not see to it where trailers end the stream.
                stream.abort("request.malformed")
            stream.request_end()

    def left(self) -> None:
        """The client wants no answer any more."""
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.client_left()

    def tick(self, now: float, limits: RelayLimits) -> None:
        """Look for what takes too long."""
        if self.stream is not None:
            if self._stall is None:
                self._stall = StallTimer(now)
            self._stall.abort_if_stalled(self.stream, now, limits, held=self._held)

    # From the stream

    def interim(self, answer: AnswerHead) -> None:
        self._client.send_head(self.number, ((":status", str(answer.status)), *answer.headers), ends=False)

    def head(self, answer: AnswerHead, framing: Framing) -> None:
        self._is_ended = framing is NO_BODY or framing == NO_BODY
        self._client.send_head(
            self.number, ((":status", str(answer.status)), *answer.headers), ends=self._is_ended
        )

    def data(self, data: bytes) -> None:
        self._client.outbox.put(self.number, data)

    def end(self, trailers: Headers) -> None:
        if not self._is_ended:
            self._client.outbox.end(self.number, trailers)
        self._complete()

    def switch(self, _: AnswerHead) -> None:
        raise WireError("HTTP/2 has no switch of protocols.", status=500)

    def page(self, page: ErrorPage) -> None:
        has_body = bool(page.body) and not self.is_head
        self._client.send_head(self.number, ((":status", str(page.status)), *page.headers), ends=not has_body)
        if has_body:
            self._client.outbox.put(self.number, page.body)
            self._client.outbox.end(self.number)
        self._complete()
        if page.closes:
            self._client.drain()

    def cut(self) -> None:
        self._client.reset(self.number, ErrorCodes.INTERNAL_ERROR)

    def _complete(self) -> None:
        """The answer is complete; what may still come of the request is of no interest."""
        self._held = False
        # They point at each other: what is over is not left to the garbage collector.
        self.stream = None
        self.acknowledge()
        self._client.answered(self.number, is_whole=self._is_whole)


def _request_of(fields: list[tuple[str, str]], *, ends: bool) -> tuple[Request, Framing, bool]:
    """Return the request of a head, the framing of its body, and whether it waits for a 100."""
    pseudo = {name: value for name, value in fields if name in _PSEUDO_HEADERS}
    if ":protocol" in pseudo or not {":method", ":scheme", ":path"} <= pseudo.keys():
        raise WireError("A pseudo-header field is missing, or not one that is known here.")
    cookies = [value for name, value in fields if name == "cookie"]
    headers = [field for field in fields if field[0][:1] != ":" and field[0] != "cookie"]
    if not LOOKALIKE_FIELDS.isdisjoint([name for name, _ in headers]):
        raise WireError("A field reads like one that frames the message.")
    if cookies:
        # HTTP/2 may send them one by one; a cookie that is looked for must not hide behind that.
        headers.append(("cookie", "; ".join(cookies)))
    lengths = [value for name, value in headers if name == "content-length"]
    if len(set(lengths)) > 1:
        raise WireError("Content-Length is repeated.")
    framing = Framing.sized(read_length(lengths[0])) if lengths else (NO_BODY if ends else CHUNKED)
    if ends and framing not in (NO_BODY, Framing.sized(0)):
        raise WireError("The request states a body that it does not have.")
    expects = any(name == "expect" and value.lower() == "100-continue" for name, value in headers)
    request = Request(
        pseudo[":method"],
        pseudo[":path"],
        tuple(headers),
        authority=pseudo.get(":authority", ""),
        scheme=pseudo[":scheme"],
    )
    return request, framing, expects and not ends
