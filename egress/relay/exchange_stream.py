"""One exchange between a client half and an upstream half.

Theory of operation. The stream owns an `Exchange` and does what it answers; the halves own framing.
Every way through this file ends in `_finish`, which writes the one record:

    begin -> refuse                      a page, nothing sent
    begin -> fetch -> fetched -> send    the secrets were not at hand
    begin -> send -> connected           the head leaves; body that came meanwhile follows
    response -> data -> response_end     complete
    abort, cut                           it ended before that; the code says why

What arrives for a stream that is over is dropped: halves may be late in noticing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from egress.errors import WireError
from egress.exchange import (
    AnswerHead,
    CutExchange,
    DenyRequest,
    Destination,
    Exchange,
    NeedSecrets,
    Request,
    Response,
    SendRequest,
)
from egress.http1 import CHUNKED, Body, Framing
from egress.relay.error_page import error_page
from egress.relay.ports import DownstreamHalf, ExchangeTiming, RelayEnvironment, UpstreamHalf
from egress.relay.websocket import WebSocketFrames
from egress.rules.decide.policy import Policy
from egress.types import Head, Headers, Identity, Secret

IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class UpstreamSource(Protocol):
    """Where an exchange gets what it needs to be sent."""

    def acquire(self, stream: ExchangeStream) -> None:
        """Find a connection for this exchange, now or later."""
        ...

    def fetch(self, stream: ExchangeStream, policy: Policy, needed: NeedSecrets) -> None:
        """Ask for the values of secrets."""
        ...

    def record_written(self, stream: ExchangeStream) -> None:
        """This exchange has its record: it waits for nothing any more."""
        ...


class ExchangeStream:
    """A request of the client, from its head to its record."""

    __slots__ = (
        "_answered",
        "_client",
        "_exchange",
        "_expects",
        "_frames",
        "_framing",
        "_head",
        "_held",
        "_is_over",
        "_is_sent_whole",
        "_is_slow",
        "_needed",
        "_policy",
        "_request",
        "_request_is_whole",
        "_service",
        "_ticket",
        "_upstream",
        "_upstreams",
        "id",
        "is_retried",
        "progress",
        "timing",
    )

    def __init__(
        self,
        service: RelayEnvironment,
        upstreams: UpstreamSource,
        client: DownstreamHalf,
        request: Request,
        framing: Framing,
    ) -> None:
        self._service = service
        self._upstreams = upstreams
        self._client = client
        self._request = request
        self._framing = framing
        self._policy = service.policy()
        self._exchange: Exchange | None = None
        self._upstream: UpstreamHalf | None = None
        self._head: Head | None = None
        self._frames: WebSocketFrames | None = None
        self._held: list[bytes] = []
        self._expects = False
        self._answered = False
        self._is_over = False
        self._is_sent_whole = False
        self._request_is_whole = False
        self._is_slow = False
        self._needed: tuple[str, ...] = ()
        self._ticket: object | None = None
        self.id = service.request_id()
        self.timing = ExchangeTiming(began=service.monotonic())
        self.is_retried = False
        """It was sent before, over a connection that was lost; it needs one that is new."""
        self.progress = 0
        """Counts whatever happens: a stream whose count stands still is stalled."""

    # What others ask

    @property
    def is_over(self) -> bool:
        """Its record is written; nothing more comes of it."""
        return self._is_over

    @property
    def is_answered(self) -> bool:
        """The final head, or a page, has gone out to the client."""
        return self._answered

    @property
    def may_be_sent_again(self) -> bool:
        """Sending the request a second time is harmless and possible."""
        request = self._request
        plain = request.method in IDEMPOTENT_METHODS and self._framing.is_empty and not request.upgrade
        return plain and not self.is_retried and not self._answered

    @property
    def waits_for_client(self) -> bool:
        """A part of the request is still to come."""
        return not self._request_is_whole

    @property
    def asks_to_switch(self) -> bool:
        """It asks to become a WebSocket, which takes a connection of its own."""
        return bool(self._request.upgrade)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it needs."""
        return self._needed

    def would_be_denied(self, policy: Policy, now: int) -> bool:
        """Whether this policy would not let the exchange begin now."""
        return self._exchange is not None and not self._exchange.would_begin(policy, now)

    # The way up

    def begin(self, identity: Identity, destination: Destination, *, expects: bool = False) -> None:
        """Decide the request, and send it as soon as it may be sent."""
        service, policy, request = self._service, self._policy, self._request
        self._expects = expects
        try:
            held, watch = service.placeholders(policy), service.watch(policy)
            needles, spend = service.needles(policy), service.spend
        except Exception:
            # Whatever failed, there is something to record.
            self._exchange = Exchange(policy, identity, destination)
            raise
        self._exchange = exchange = Exchange(
            policy, identity, destination, placeholders=held, needles=needles, spend=spend, canaries=watch
        )
        step = exchange.begin(request, service.now())
        if isinstance(step, NeedSecrets):
            self._needed = step.names
            secrets = service.secrets(policy, step.names, unscrubbed=step.unscrubbed)
            if secrets is None:
                self.timing.asked = service.monotonic()
                # One that is through with its request is read on: that it leaves shows only then. With a body
                # to come it is held, and leaving shows as late as the body goes up.
                if self._framing.body is not Body.NONE:
                    self._client.hold(held=True)
                self._upstreams.fetch(self, policy, step)
                return
            step = exchange.provide(secrets, service.needles(policy))
        self._follow(step)

    def fetched(self, secrets: Mapping[str, Secret]) -> None:
        """Go on with these values; one that is missing could not be had."""
        if self._is_over or self._exchange is None:
            return
        self.progress += 1
        self.timing.secret_wait = self._service.monotonic() - self.timing.asked
        self._follow(self._exchange.provide(secrets, self._service.needles(self._policy)))

    def connected(self, upstream: UpstreamHalf) -> None:
        """Send the request over this upstream connection."""
        if self._is_over or self._head is None:
            upstream.abandon()
            return
        self.progress += 1
        self._upstream = upstream
        self.timing.wire = upstream.wire
        self.timing.sent = self._service.monotonic()
        self._service.sent(self._ticket)
        try:
            upstream.send(self._head, self._framing, expects=self._expects and not self._request_is_whole)
        except WireError:
            # The writer has the last word on what may stand on a wire, and has sent nothing.
            self.timing.sent = 0.0
            self.abort("request.malformed")
            return
        if self._is_slow:
            upstream.hold(held=True)
        held, self._held = self._held, []
        for data in held:
            self._pass_up(data)
        if self._request_is_whole:
            self._end_up()
        if not self._is_over:
            self._client.hold(held=False)

    def request_data(self, data: bytes) -> None:
        """Take a piece of request body, or of frames, from the client."""
        if self._is_over:
            return
        self.progress += 1
        if self._upstream is None:
            self._held.append(data)
        elif self._frames is not None:
            self._exchanged(self._frames.from_client(data))
        else:
            self._pass_up(data)

    def request_end(self) -> None:
        """The client has sent all of its request."""
        self._request_is_whole = True
        self.progress += 1
        if self._upstream is not None and not self._is_over:
            self._end_up()

    def client_congested(self, *, congested: bool) -> None:
        """The client does not keep up, or does again."""
        self._is_slow = congested
        if self._upstream is not None and not self._is_over:
            self._upstream.hold(held=congested)

    # The way down

    def interim(self, status: int, reason: str, headers: Headers) -> None:
        """Take a 1xx of the upstream."""
        if (exchange := self._exchange_with_needles()) is None:
            return
        self.progress += 1
        answer = exchange.informational(Response(status, reason, headers))
        if isinstance(answer, CutExchange):
            self._cut(answer.code)
        elif status != 100 or self._expects:
            # Who did not ask for a 100 may take it for the answer.
            try:
                self._client.interim(answer)
            except WireError:
                self.abort("upstream.malformed")

    def complete_response(
        self, status: int, reason: str, headers: Headers, framing: Framing, data: bytes
    ) -> None:
        """Take a response that came in one piece: the same steps, and one look at what is known."""
        if (exchange := self._exchange_with_needles()) is None:
            return
        self._head_down(exchange, status, reason, headers, framing)
        if not self._is_over:
            self._data_down(exchange, data)
        if not self._is_over:
            self._end_down(exchange, ())

    def response(self, status: int, reason: str, headers: Headers, framing: Framing) -> None:
        """Take the final head of the upstream."""
        if (exchange := self._exchange_with_needles()) is not None:
            self._head_down(exchange, status, reason, headers, framing)

    def data(self, data: bytes) -> None:
        """Take a piece of response body, or raw bytes after a switch."""
        if (exchange := self._exchange_with_needles()) is not None:
            self._data_down(exchange, data)

    def response_end(self, trailers: Headers = ()) -> None:
        """The response is complete."""
        if (exchange := self._exchange_with_needles()) is not None:
            self._end_down(exchange, trailers)

    def _head_down(
        self, exchange: Exchange, status: int, reason: str, headers: Headers, framing: Framing
    ) -> None:
        self.progress += 1
        self.timing.answered = self._service.monotonic()
        answer = exchange.respond(Response(status, reason, headers, not framing.is_empty))
        if isinstance(answer, CutExchange):
            self._cut(answer.code)
        elif status == 101:
            self._switch(answer)
        else:
            try:
                self._client.head(answer, CHUNKED if answer.coding else framing)
                self._answered = True
            except WireError:
                self.abort("upstream.malformed")

    def _data_down(self, exchange: Exchange, data: bytes) -> None:
        self.progress += 1
        if self._frames is not None:
            self._exchanged(self._frames.from_upstream(data))
            return
        pieces = exchange.data(data)
        if isinstance(pieces, CutExchange):
            self._cut(pieces.code)
            return
        for piece in pieces:
            self._client.data(piece)

    def _end_down(self, exchange: Exchange, trailers: Headers) -> None:
        outcome = exchange.end(trailers)
        if isinstance(outcome, CutExchange):
            self._cut(outcome.code)
            return
        pieces, kept = outcome
        for piece in pieces:
            self._client.data(piece)
        try:
            self._client.end(kept)
        except WireError:
            self._cut("upstream.malformed")
            return
        self._finish()
        if self._upstream is not None:
            self._upstream.release()

    def upstream_congested(self, *, congested: bool) -> None:
        """The upstream does not keep up, or does again."""
        if not self._is_over:
            self._client.hold(held=congested)

    # Ends

    def upstream_lost(self) -> None:
        """A connection that was kept has closed before it saw the request: use another one."""
        self.is_retried = True
        self._is_sent_whole = False
        self._upstream = None
        self._upstreams.acquire(self)

    def abort(self, code: str, retry_after: int = 0) -> None:
        """End it for a reason that the lane, not the exchange, knows."""
        if self._is_over:
            return
        if self._exchange is not None:
            self._update_needles(self._exchange)
            self._exchange.abort(code)
        self._cut(code, retry_after)

    def give_up(self, code: str) -> None:
        """Only record it: nothing else can be relied on."""
        if self._exchange is not None:
            self._exchange.abort(code)
        self._finish()

    def client_left(self) -> None:
        """The client is gone: there is nobody to answer."""
        if self._is_over:
            return
        self._answered = True
        if self._exchange is not None:
            self._update_needles(self._exchange)
            self._exchange.abort("client.left")
        self._finish()
        self._drop_upstream()

    # Inside

    def _update_needles(self, exchange: Exchange) -> None:
        """Look from now on for what is known now."""
        exchange.update_needles(self._service.needles(self._policy))

    def _exchange_with_needles(self) -> Exchange | None:
        """The exchange, for what comes down; None when it is over."""
        exchange = self._exchange
        if self._is_over or exchange is None:
            return None
        # Any secret may have got a value, or another one, meanwhile.
        self._update_needles(exchange)
        return exchange

    def _follow(self, step: DenyRequest | NeedSecrets | SendRequest) -> None:
        if not isinstance(step, SendRequest):
            code, retry_after = (
                (step.code, step.retry_after) if isinstance(step, DenyRequest) else ("internal", 0)
            )
            self._cut(code, retry_after)
            return
        self._ticket = self._service.begin(self.id, self._request.method, self._needed)
        if self._ticket is None:
            # What cannot be recorded does not happen.
            self.abort("audit.stopped")
            return
        self._head = step.head
        if self._framing.body is not Body.NONE:
            self._client.hold(held=True)
        self._upstreams.acquire(self)

    def _pass_up(self, data: bytes) -> None:
        if self._is_over or self._exchange is None or self._upstream is None:
            return
        cut = self._exchange.request_data(data)
        if cut is not None:
            self._cut(cut.code)
            return
        self._upstream.data(data)

    def _end_up(self) -> None:
        if self._upstream is not None and not self._is_sent_whole and not self._is_over:
            self._is_sent_whole = True
            try:
                self._upstream.end()
            except WireError:
                self.abort("request.malformed")

    def _switch(self, answer: AnswerHead) -> None:
        if self._exchange is None or self._head is None or self._upstream is None:
            return
        frames = WebSocketFrames.agreed(self._exchange, self._head.headers, answer.headers)
        if frames is None:
            self.abort("upstream.malformed")
            return
        # Before the switch: what the client has sent ahead of it are frames already.
        self._frames, self._answered = frames, True
        try:
            self._client.switch(answer)
        except WireError:
            self._frames, self._answered = None, False
            self.abort("upstream.malformed")

    def _exchanged(self, outcome: tuple[bytes, bytes] | CutExchange) -> None:
        """Send what a read has made of frames: some upwards, some downwards."""
        frames = self._frames
        if frames is None or self._upstream is None:
            return
        if isinstance(outcome, CutExchange):
            self._cut(outcome.code)
            return
        up, down = outcome
        if up:
            self._upstream.data(up)
        if down:
            self._client.data(down)
        if frames.is_closed:
            self._close_frames()

    def _close_frames(self) -> None:
        if self._exchange is None:
            return
        self._update_needles(self._exchange)
        outcome = self._exchange.end()
        if isinstance(outcome, CutExchange):
            self._cut(outcome.code)
            return
        self._client.end(())
        self._finish()
        self._drop_upstream()

    def frames_ended(self) -> None:
        """The upstream of a WebSocket has closed its connection; after a goodbye that is no fault."""
        if self._frames is not None and self._frames.is_closing:
            self._close_frames()
        else:
            self.abort("upstream.closed")

    def _cut(self, code: str, retry_after: int = 0) -> None:
        if not self._answered:
            self._answered = True
            fields = dict(self._request.headers)
            self._client.page(
                error_page(
                    code,
                    self.id,
                    accept=fields.get("accept", ""),
                    user_agent=fields.get("user-agent", ""),
                    content_type=fields.get("content-type", ""),
                    retry_after=retry_after,
                )
            )
        else:
            if self._frames is not None and self._upstream is not None:
                up, down = self._frames.close_frames()
                self._upstream.data(up)
                self._client.data(down)
            self._client.cut()
        self._finish()
        self._drop_upstream()

    def _drop_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream.abandon()

    def _finish(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._held.clear()
        self.timing.ended = self._service.monotonic()
        if self._exchange is not None:
            record = self._exchange.finish(sent=self.timing.sent > 0)
            self._service.finish(self._ticket, self.id, record, self.timing)
        self._upstreams.record_written(self)
