"""An exchange between a client half and an upstream half.

The stream owns an `Exchange` and carries out its answers; the halves own framing. Every path through
this file ends in `_finish`, which writes the record:

    begin -> refuse                      a page, nothing sent
    begin -> inspect -> send or refuse   the body is held until the rules have judged it
    begin -> call -> handled             a handler is asked; it denies, answers, or lets it go on
    begin -> fetch -> fetched -> send    the secrets were not at hand
    begin -> search -> send              a first part of the body is searched for planted values before
    begin -> send -> connected           the head leaves; body that came meanwhile follows
    response -> data -> response_end     complete
    abort, cut                           it ended before that; the code says why

Input for a stream that is over is dropped: halves may be late in noticing.
"""

from __future__ import annotations

from collections.abc import Mapping

from egress.errors import WireError
from egress.exchange import (
    AnswerHead,
    AnswerRequest,
    CallHandler,
    DenyRequest,
    HandlerVerdict,
    HoldBody,
    NeedSecrets,
    Request,
    RequestStep,
    SendRequest,
)
from egress.http1 import NO_BODY, Body, Framing
from egress.relay.error_page import answering_page, body_answer_page
from egress.relay.held_body import HeldAccount, HeldBody
from egress.relay.ports import DownstreamHalf, ExchangeTiming, RelayEnvironment, UpstreamHalf, UpstreamSource
from egress.relay.response_path import Backlog, ResponsePath
from egress.relay.websocket import WebSocketFrames
from egress.rules.decide.policy import Policy
from egress.shares.pool import MemoryAccount
from egress.types import Head, Secret

IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class ExchangeStream(ResponsePath):
    """A request of the client, from its head to its record."""

    __slots__ = (
        "_drain_left",
        "_draining",
        "_framing",
        "_has_body",
        "_held",
        "_held_account",
        "_is_congested",
        "_is_inspected",
        "_is_sent_whole",
        "_needed",
        "_request",
        "_request_is_whole",
        "_ticket",
        "_upstreams",
        "id",
        "is_end_proven",
        "is_retried",
    )

    def __init__(
        self,
        service: RelayEnvironment,
        upstreams: UpstreamSource[ExchangeStream],
        client: DownstreamHalf,
        request: Request,
        framing: Framing,
        account: MemoryAccount,
    ) -> None:
        self._service = service
        self._upstreams = upstreams
        self._client = client
        self._request = request
        self._framing = framing
        self._has_body = framing.body is not Body.NONE
        # The policy of this moment decides. The state below is that of a request which is not sent yet.
        self._exchange = service.new_exchange()
        self._exchange.account = account
        self._backlog = Backlog(self._exchange)
        self._upstream: UpstreamHalf | None = None
        self._head: Head | None = None
        self._frames: WebSocketFrames | None = None
        self._held_answer = None
        self._held = HeldBody()
        self._expects = False
        self._answered = False
        self._is_over = False
        self._held_account = HeldAccount(account)
        self._is_inspected = False
        self._is_congested = False
        """The upstream does not keep up."""
        self._draining: DenyRequest | None = None
        """The denial that waits for the rest of the body, which is read into nothing."""
        self._drain_left = 0
        self._is_sent_whole = False
        self._request_is_whole = False
        self._is_slow = False
        self._needed: tuple[str, ...] = ()
        self._ticket: object | None = None
        self.id = service.request_id()
        self.timing = ExchangeTiming(began=service.monotonic())
        self.is_end_proven = True
        """False if the body ends with a TLS connection that its peer did not end with close_notify."""
        self.is_retried = False
        """The request was sent before, over a connection that was lost; it needs a new connection."""
        self.progress = 0
        """Counts every event: a stream whose count stands still is stalled."""

    # State, for the halves and the relay

    @property
    def is_over(self) -> bool:
        """The record is written, and no more input is taken."""
        return self._is_over

    @property
    def is_answered(self) -> bool:
        """The final head, or a page, has gone out to the client."""
        return self._answered

    @property
    def may_be_sent_again(self) -> bool:
        """Sending the request a second time is harmless and possible."""
        request = self._request
        method = request.method if self._head is None else self._head.method
        plain = method in IDEMPOTENT_METHODS and self._framing.is_empty and not request.upgrade
        return plain and not self.is_retried and not self._answered

    @property
    def waits_for_client(self) -> bool:
        """The request is not complete yet."""
        return not self._request_is_whole

    @property
    def asks_to_switch(self) -> bool:
        """The request asks to become a WebSocket, which takes a connection of its own."""
        return bool(self._request.upgrade)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that the request needs."""
        return self._needed

    def would_be_denied(self, policy: Policy, now: int) -> bool:
        """Tell whether this policy would not let the exchange begin now."""
        return not self._exchange.would_begin(policy, now)

    # The way up

    def begin(self, *, expects: bool = False) -> None:
        """Decide the request, and send it as soon as it may be sent."""
        service, exchange = self._service, self._exchange
        self._expects = expects
        step = exchange.begin(self._request, service.now())
        if isinstance(step, HoldBody):
            self._hold_body()
        else:
            self._go_on(step)

    def _go_on(self, step: RequestStep) -> None:
        """Ask the handler, get the secrets that the request needs, and send it."""
        service, exchange = self._service, self._exchange
        if isinstance(step, CallHandler):
            self.timing.called = service.monotonic()
            if self._has_body:
                self._client.hold(held=True)
            body = self._held.whole() if step.call.reads_body else b""
            self._held_account.lend()
            self._upstreams.call(self, step.call, body)
            return
        if isinstance(step, NeedSecrets):
            self._needed = step.names
            secrets = service.secrets(exchange.policy, step.names, unscrubbed=step.unscrubbed)
            if secrets is None:
                self.timing.asked = service.monotonic()
                # A client whose request is complete is read on, or its leaving would not be noticed. A client
                # with a body to come is held: its leaving is noticed when the body goes up.
                if self._has_body:
                    self._client.hold(held=True)
                self._upstreams.fetch(self, exchange.policy, step)
                return
            step = exchange.provide(secrets, service.needles(exchange.policy))
        self._follow(step)

    def handled(self, verdict: HandlerVerdict) -> None:
        """Go on with what the handler says."""
        self._held_account.end_loan()
        if self._is_over:
            return
        self.progress += 1
        took = self._service.monotonic() - self.timing.called
        body = self._held.whole() if self._request_is_whole else b""
        self._go_on(self._exchange.handled(verdict, body, int(took * 1000)))

    def fetched(self, secrets: Mapping[str, Secret]) -> None:
        """Go on with these values; a missing value could not be resolved."""
        if self._is_over:
            return
        self.progress += 1
        self.timing.secret_wait = self._service.monotonic() - self.timing.asked
        self._follow(self._exchange.provide(secrets, self._service.needles(self._exchange.policy)))

    def connected(self, upstream: UpstreamHalf) -> None:
        """Send the request over this upstream connection."""
        if self._is_over or self._head is None:
            upstream.abandon()
            return
        self.progress += 1
        self._upstream, self._is_congested = upstream, False
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
        self._send_held(upstream)

    def request_data(self, data: bytes) -> None:
        """Take a piece of request body, or of frames, from the client."""
        if self._is_over:
            return
        self.progress += 1
        if self._draining is not None:
            self._drain_left -= len(data)
            if self._drain_left < 0:
                self._refuse(self._draining)
        elif self._frames is not None:
            self._exchanged(self._frames.from_client(data))
        elif self._is_inspected:
            self._inspect(data)
        elif self._head is None:
            # The secrets are still fetched: until the exchange has them, it takes no body.
            self._held.keep(data)
        else:
            self._pass_up(data)

    def request_end(self) -> None:
        """The client has sent all of its request."""
        self._request_is_whole = True
        self.progress += 1
        if self._is_over:
            return
        if self._draining is not None:
            self._refuse(self._draining)
        elif self._is_inspected:
            self._judge(self._exchange.inspect_end())
        elif self._upstream is not None:
            self._end_up()
        elif self._has_body and self._held.is_awaited:
            self._go_up()

    def tick(self, now: float) -> None:
        """A second has passed: a head that waits for a body may have waited long enough."""
        if not self._is_over and self._held.is_overdue(now):
            self._go_up()

    def upstream_congested(self, *, congested: bool) -> None:
        """Hold the client while the upstream does not keep up."""
        self._is_congested = congested
        if self._is_over:
            return
        if self._held.is_empty:
            self._client.hold(held=congested)
        elif not congested:
            self._go_on_later()

    def go_on(self) -> None:
        """Send more of what was kept of the request, and decode more of the response."""
        if self._upstream is not None and not self._held.is_empty:
            self._send_held(self._upstream)
        super().go_on()

    # Ends

    def upstream_lost(self) -> None:
        """Use another connection: a kept one has closed before it saw the request."""
        self.is_retried = True
        self._is_sent_whole = False
        self._upstream = None
        self._upstreams.acquire(self)

    def abort(self, code: str, retry_after: int = 0) -> None:
        """End the exchange for a reason that the lane, not the exchange, knows."""
        if self._is_over:
            return
        self._update_needles()
        self._exchange.abort(code)
        self._cut(code, retry_after)

    def give_up(self, code: str) -> None:
        """Only write the record, after a fault: no other state can be relied on."""
        self._exchange.abort(code)
        self._finish()

    def client_left(self) -> None:
        """End the exchange of a client that is gone and takes no answer."""
        if self._is_over:
            return
        self._answered = True
        self._update_needles()
        self._exchange.abort("client.left")
        self._finish()
        self._drop_upstream()

    # Inside

    def _hold_body(self) -> None:
        """Wait for the body, or for a part of it, which the rules ask about."""
        self._is_inspected = True
        if self._request_is_whole:
            self._judge(self._exchange.inspect_end())
        elif self._expects:
            # No upstream is asked before the verdict, so nobody else can say it.
            self._expects = False
            self._client.interim(AnswerHead(100, "Continue", ()))

    def _inspect(self, data: bytes) -> None:
        if not self._held_account.take(len(data)):
            self.abort("limit.held_bodies", 1)
            return
        self._held.keep(data)
        self._judge(self._exchange.inspect(data))

    def _judge(self, step: RequestStep) -> None:
        if not isinstance(step, HoldBody):
            self._is_inspected = False
            self._go_on(step)

    def _update_needles(self) -> None:
        """Search for current values: any secret may have got a value, or another one, meanwhile."""
        exchange = self._exchange
        exchange.update_needles(self._service.needles(exchange.policy))

    def _follow(self, step: RequestStep) -> None:
        if isinstance(step, AnswerRequest):
            self._answer(step)
            return
        if not isinstance(step, SendRequest):
            self._refuse(step if isinstance(step, DenyRequest) else DenyRequest("internal"))
            return
        self._head = step.head
        if step.body is not None:
            self._replace_body(step.body)
        if self._has_body:
            for data in self._held.take():
                self._pass_up(data)
            # A client that waits for a `100 Continue` sends no body before the head has left.
            if step.searches_body and not (self._framing.is_empty or self._expects):
                self._held.wait(self._framing, self._service.monotonic())
            if self._held.is_awaited and not self._request_is_whole:
                self._client.hold(held=False)
                return
        self._go_up()

    def _replace_body(self, body: bytes) -> None:
        """Send this in place of the body, all of which has come."""
        self._held.take()
        self._has_body = bool(body)
        self._framing = Framing.sized(len(body)) if self._has_body else NO_BODY
        if body:
            self._held.keep(body)

    def _answer(self, step: AnswerRequest) -> None:
        """Answer with the response of a handler, cleaned like any other; nothing is sent upstream."""
        # An answer that cannot be recorded is not given.
        self._ticket = self._service.begin(self.id, self._request.method, ())
        if self._ticket is None:
            self.abort("audit.stopped")
            return
        self._answer_at_once(step)

    def _go_up(self) -> None:
        """Announce the request to the audit, and ask for a connection that takes it."""
        if self._is_over:
            return
        if self._has_body:
            self.timing.body_wait = self._held.end_wait(self._service.monotonic())
        method = self._request.method if self._head is None else self._head.method
        self._ticket = self._service.begin(self.id, method, self._needed)
        if self._ticket is None:
            # A request that cannot be recorded is not sent.
            self.abort("audit.stopped")
            return
        if self._has_body:
            self._client.hold(held=True)
        self._upstreams.acquire(self)

    def _send_held(self, upstream: UpstreamHalf) -> None:
        """Send what was kept of the body, a buffer in each turn, and give its share back piece by piece."""
        room = self._service.buffer_bytes
        while room > 0 and not (self._held.is_empty or self._is_congested or self._is_over):
            self.progress += 1
            data = self._held.take_first()
            room -= len(data)
            upstream.data(data)
            self._held_account.give(len(data))
        if self._is_over:
            return
        if not self._held.is_empty:
            if not self._is_congested:
                self._go_on_later()
            return
        self._held_account.close()
        if self._request_is_whole:
            self._end_up()
        if not self._is_over:
            self._client.hold(held=self._is_congested)

    def _pass_up(self, data: bytes) -> None:
        """Search a piece of the body, then send it, or keep it until there is a connection."""
        if self._is_over:
            return
        cut = self._exchange.request_data(data)
        if cut is not None:
            self._cut(cut.code)
        elif self._upstream is not None and self._held.is_empty:
            self._upstream.data(data)
        elif self._held.keep(data):
            self._go_up()

    def _end_up(self) -> None:
        is_due = self._held.is_empty and not (self._is_sent_whole or self._is_over)
        if self._upstream is not None and is_due:
            self._is_sent_whole = True
            try:
                self._upstream.end()
            except WireError:
                self.abort("request.malformed")

    def _refuse(self, denied: DenyRequest) -> None:
        """Answer with a denial, and end."""
        drain = denied.answer.drain if denied.answer is not None else 0
        is_whole = self._request_is_whole or not self._has_body
        # A client that waits for a `100 Continue` sends nothing that could be drained.
        if drain and self._draining is None and not (is_whole or self._expects):
            self._draining, self._drain_left = denied, drain
            self._held.take()
            self._held_account.close()
            self._client.hold(held=False)
            return
        self._answered = True
        if denied.answer is not None:
            page = body_answer_page(denied.answer, denied.code, self.id, denied.retry_after)
        else:
            page = answering_page(
                denied.code, self.id, self._request.headers, denied.retry_after, denied.reason
            )
        self._client.page(page)
        self._finish()
        self._drop_upstream()

    def _cut(self, code: str, retry_after: int = 0) -> None:
        if not self._answered:
            answer = self._exchange.cut_answer(code)
            self._refuse(self._draining or DenyRequest(code, retry_after, answer=answer))
            return
        if self._frames is not None and self._upstream is not None:
            up, down = self._frames.close_frames(code)
            self._upstream.data(up)
            self._client.data(down)
        self._client.cut()
        self._finish()
        self._drop_upstream()

    def _go_on_later(self) -> None:
        self._upstreams.go_on_later(self)

    def _drop_upstream(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.abandon()

    def _finish(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._has_body:
            self._held.take()
            self._held_account.close()
        self._backlog.clear()
        self.timing.ended = self._service.monotonic()
        record = self._exchange.finish(sent=self.timing.sent > 0, is_end_proven=self.is_end_proven)
        self._service.finish(self._ticket, self.id, record, self.timing)
        self._upstreams.record_written(self)
