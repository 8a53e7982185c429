"""The client's side of HTTP/1.1: requests come one after the other, and each is answered in turn.

A request whose body is refused is answered at once; a little of the body is read and dropped, so that
the client gets to read the answer, then the connection closes. Pipelined requests wait their turn.

A client of a proxy names the destination in each request. Its connection is kept from one request to the
next, and handed back with the first request for another destination.
"""

from __future__ import annotations

from egress.errors import WireError
from egress.exchange import AnswerHead, Request
from egress.exchange.handler_call import BODILESS_STATUSES
from egress.exchange.request import names_destination
from egress.http1 import (
    NO_BODY,
    Data,
    Framing,
    RequestEvent,
    RequestHead,
    RequestReader,
    ResponseWriter,
    framing_for,
)
from egress.relay.error_page import ErrorPage, error_page
from egress.relay.exchange_stream import ExchangeStream
from egress.relay.http1_pacing import PacedHttp1
from egress.relay.limits import StallTimer
from egress.relay.ports import CLIENT_WIRE
from egress.relay.relay_port import RelayPort
from egress.shares.pool import Resource
from egress.types import Headers

_EXTENSIONS_FIELD = "sec-websocket-extensions"


class Http1Downstream(PacedHttp1):
    """A client connection, and the downstream half of the exchange that runs on it."""

    def __init__(self, relay: RelayPort, *, forward: bool) -> None:
        """`forward`: the client names the destination in each request."""
        self._relay = relay
        self._reader = RequestReader(fits=self._fits if forward else None)
        self._writer = ResponseWriter()
        self._head: RequestHead | None = None
        self._stream: ExchangeStream | None = None
        self._is_whole = True
        self._is_continued = False
        """The client was told to send the body that it asked about."""
        self._held = False
        self._blocked = False
        self._ahead = False
        self._turn = False
        self._ended = False
        self._draining = False
        self._lingers = False
        self._discarded = 0
        self._requests = 0
        self._stall = StallTimer(relay.service.monotonic())
        self._stream_stall: StallTimer | None = None

    # The connection

    @property
    def reads(self) -> bool:
        """More bytes of the client may be read now."""
        return not (self._held or self._ahead or self._turn or self._ended)

    @property
    def wants_turn(self) -> bool:
        """A request waits only until other connections have had their turn."""
        return self._turn and not self._blocked

    @property
    def is_idle(self) -> bool:
        """The connection is between two requests: closing it now loses no data."""
        return self._stream is None and not self._lingers

    @property
    def is_resting(self) -> bool:
        """The connection is between two requests, and nothing of the next one has come."""
        return self.is_idle and self._reader.idle and not self._turn

    def streams(self) -> tuple[ExchangeStream, ...]:
        """The exchanges under way."""
        return () if self._stream is None else (self._stream,)

    def received(self, data: bytes) -> None:
        """Take bytes of the client."""
        if self._is_raw:
            if self._stream is not None:
                self._stream.request_data(data)
            return
        if self._lingers:
            self._discard(len(data))
            return
        if self._reader.waiting:
            self._ahead = True
        try:
            events = self._reader.feed(data)
        except WireError as error:
            self._malformed(error)
            return
        self._take(events)
        self._hand_back()

    def ended(self) -> None:
        """The client has closed its side."""
        self._ended = True
        may_wait = self._relay.destination.scheme == "http" and self._is_whole and not self._is_raw
        if self._stream is None or not may_wait:
            self._relay.close(CLIENT_WIRE)
            return
        # On clear text a client may close its sending side and still wait for the response. Over TLS no
        # client does: one that closes has given up, so a response that takes minutes is not awaited.
        self._draining = True

    def pump(self) -> None:
        """Begin the next request if its turn has come: a loop, since responses can be immediate."""
        turn = self._relay.service.turn
        while self.wants_turn and not turn.is_over:
            self.begin_next()

    def begin_next(self) -> None:
        """Begin the next request, if one waits for nothing but its turn."""
        # A client that does not read its responses gets no more of them, or they would pile up here.
        if not self.wants_turn:
            return
        self._turn = False
        self._ahead = False
        try:
            events = self._reader.next_message()
        except WireError as error:
            self._malformed(error)
            return
        self._take(events)
        self._hand_back()

    def drain(self) -> None:
        """Take no more requests; close when the one under way is answered."""
        self._draining = True
        if self.is_idle:
            self._relay.close(CLIENT_WIRE)

    def retire(self) -> None:
        """Close with the next response; a client that says nothing keeps its connection."""
        self._draining = True

    def blocked(self, *, blocked: bool) -> None:
        """Note that the client stops taking written bytes, or takes them again."""
        self._blocked = blocked
        if self._stream is not None:
            self._stream.client_congested(congested=blocked)

    def tick(self, now: float) -> None:
        """End a stage that takes too long."""
        limits = self._relay.limits
        if self._stream is not None:
            if self._stream_stall is None:
                self._stream_stall = StallTimer(self._stream.timing.began)
            self._stream_stall.abort_if_stalled(self._stream, now, limits, held=self._held)
            return
        # The count is constant within a stage of a request: bytes that trickle in do not buy more time.
        is_between = self._turn or self._reader.idle
        stage = 2 if self._lingers else 1 if is_between else 0
        quiet = self._stall.quiet_seconds(3 * self._requests + stage, now)
        if self._lingers:
            if quiet > limits.linger:
                self._relay.close(CLIENT_WIRE)
        elif is_between:
            if quiet > limits.keep_alive:
                self._relay.close(CLIENT_WIRE)
        elif quiet > limits.head:
            self._malformed(WireError("The head did not arrive in time.", status=408), "request.timeout")

    # The half that the stream talks to

    def interim(self, answer: AnswerHead) -> None:
        self._is_continued = self._is_continued or answer.status == 100
        self._write(self._writer.informational(answer.status, answer.reason, answer.headers))

    def head(self, answer: AnswerHead, framing: Framing) -> None:
        version = self._head.version if self._head is not None else "1.1"
        framing = framing_for(framing, version)
        # A client that is not told to continue may leave its body out: what comes next could be either.
        is_unsure = not self._is_whole and self._waits_for_continue
        close = self._draining or is_unsure
        self._write(self._writer.head(answer.status, answer.reason, answer.headers, framing, close=close))

    def data(self, data: bytes) -> None:
        self._relay.write(CLIENT_WIRE, data if self._is_raw else self._writer.data(data))

    def end(self, trailers: Headers) -> None:
        if self._is_raw:
            self._stream = None
            self._relay.close(CLIENT_WIRE)
            return
        self._write(self._writer.end(trailers))
        self._next()

    def switch(self, answer: AnswerHead) -> None:
        self._write(
            self._writer.head(answer.status, answer.reason, answer.headers, NO_BODY, upgrade=("websocket",))
            + self._writer.end()
        )
        self._begin_frames()
        ahead = self._reader.detach()
        self._ahead = False
        if ahead:
            self._relay.received_ahead(CLIENT_WIRE, ahead)

    def page(self, page: ErrorPage) -> None:
        head = self._head
        close = head is None or not self._is_whole or self._draining or page.closes
        is_bare = page.status in BODILESS_STATUSES or (head is not None and head.method == "HEAD")
        framing = NO_BODY if is_bare else Framing.sized(len(page.body))
        self._write(self._writer.head(page.status, page.reason, page.headers, framing, close=close))
        if framing is not NO_BODY:
            self._write(self._writer.data(page.body))
        self._write(self._writer.end())
        self._next()

    def cut(self) -> None:
        self._stream = None
        if self._is_raw:
            self._relay.close(CLIENT_WIRE)
        else:
            self._relay.reset(CLIENT_WIRE)

    def hold(self, *, held: bool) -> None:
        self._held = held

    # Inside

    @property
    def _waits_for_continue(self) -> bool:
        return self._head is not None and self._head.expect_continue and not self._is_continued

    def _fits(self, head: RequestHead) -> bool:
        """Tell whether a request of a client of a proxy is for this destination; the first one always is.

        One with other credentials for the proxy goes back as well: it may come with other rights.
        """
        if self._head is None:
            return True
        if _proxy_credentials(head) != _proxy_credentials(self._head):
            return False
        is_http = head.form == "absolute" and head.target.partition("://")[0].lower() == "http"
        return is_http and names_destination(self._relay.destination, head.authority)

    def _hand_back(self) -> None:
        request = self._reader.take_back()
        if request:
            self._relay.hand_back(request)

    def _take(self, events: list[RequestEvent]) -> None:
        for event in events:
            if isinstance(event, RequestHead):
                self._begin(event)
            elif isinstance(event, Data):
                if self._stream is not None:
                    self._stream.request_data(event.data)
                else:
                    self._discard(len(event.data))
            else:
                self._is_whole = True
                if self._stream is not None:
                    self._stream.request_end()

    def _begin(self, head: RequestHead) -> None:
        self._head = head
        self._begin_message()
        self._is_continued = False
        self._is_whole = head.framing.is_empty
        self._writer.answer(head)
        self._requests += 1
        if not self._relay.account.take(Resource.EXCHANGES):
            self.page(error_page("limit.exchanges", self._relay.refused("limit.exchanges"), retry_after=1))
            return
        stream = self._relay.stream(self, _request_of(head), head.framing)
        self._stream = stream
        self._stream_stall = None
        if self._is_whole:
            stream.request_end()
        if self._blocked:
            stream.client_congested(congested=True)
        stream.begin(expects=head.expect_continue)

    def _next(self) -> None:
        """Go on to the next request after a response, or close."""
        self._stream = None
        self._held = False
        if not self._writer.must_close and self._is_whole and not self._ended:
            if self._draining:
                self._relay.close(CLIENT_WIRE)
                return
            self._turn = True
        elif self._is_whole or self._ended:
            self._relay.close(CLIENT_WIRE)
        else:
            self._lingers = True

    def _discard(self, count: int) -> None:
        self._lingers = True
        self._discarded += count
        if self._discarded > self._relay.limits.discarded:
            # Closing on unread bytes would reset the connection, and the response would be lost.
            self._held = True

    def _malformed(self, error: WireError, code: str = "request.malformed") -> None:
        stream = self._stream
        self._is_whole = False
        if stream is not None:
            stream.abort(code)
            return
        self._writer.answer(None)
        self._head = None
        request = self._relay.refused(code)
        self.page(error_page(code, request, status=error.status))

    def _write(self, data: bytes) -> None:
        if data:
            self._relay.write(CLIENT_WIRE, data)


def _proxy_credentials(head: RequestHead) -> list[str]:
    return [value for name, value in head.headers if name == "proxy-authorization"]


def _request_of(head: RequestHead) -> Request:
    """Return the request, with the authority of an absolute target split off."""
    # Offers of extensions never travel: compressed messages could not be searched.
    headers = (
        tuple([field for field in head.headers if field[0] != _EXTENSIONS_FIELD])
        if head.upgrade
        else head.headers
    )
    if head.form != "absolute":
        return Request(head.method, head.target, headers, upgrade=head.upgrade)
    scheme, _, rest = head.target.partition("://")
    target = rest[len(head.authority) :] or "/"
    return Request(
        head.method, target, headers, authority=head.authority, upgrade=head.upgrade, scheme=scheme.lower()
    )
