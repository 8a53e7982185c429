"""The way of a response from the upstream half to the client half of an exchange.

The head, pieces of body and the end go through the exchange, which cleans them, and on to the client. What
takes more than a turn of the event loop waits in a backlog, and holds the upstream meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from egress.errors import WireError
from egress.exchange import AnswerHead, AnswerRequest, CutExchange, Exchange, Response
from egress.http1 import CHUNKED, Framing
from egress.relay.handler_answer import handler_answer
from egress.relay.ports import DownstreamHalf, ExchangeTiming, RelayEnvironment, UpstreamHalf
from egress.relay.websocket import WebSocketFrames
from egress.shares.turns import Turn
from egress.types import Head, Headers

Step = list[bytes] | CutExchange | Headers


class Backlog:
    """The response of one exchange, as far as it was not passed on yet.

    Pieces and the end of the body wait here, in their order, behind a piece that takes more than a turn to
    decode.
    """

    __slots__ = ("_exchange", "_waiting", "has_end")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._waiting: deque[bytes | Headers] = deque()
        self.has_end = False
        """The end of the body waits: nothing of the response is still to come."""

    @property
    def is_empty(self) -> bool:
        """Everything that came has been passed on."""
        return not (self._waiting or self._exchange.is_behind)

    def data(self, data: bytes, turn: Turn) -> list[bytes] | CutExchange:
        """Take a piece of the body; return what may go out now, which is nothing for one that waits."""
        if self.is_empty:
            return self._exchange.data(data, turn)
        self._waiting.append(data)
        return []

    def keep_end(self, trailers: Headers) -> bool:
        """Let the end of the body wait behind what waits already; return whether it has to."""
        if self.is_empty:
            return False
        self._waiting.append(trailers)
        self.has_end = True
        return True

    def step(self, turn: Turn) -> Step:
        """Go on; return what may go out now, or the trailers where the end has come."""
        if self._exchange.is_behind:
            return self._exchange.more(turn)
        item = self._waiting.popleft()
        return self._exchange.data(item, turn) if isinstance(item, bytes) else item

    def clear(self) -> None:
        """Drop everything that waits."""
        self._waiting.clear()


class ResponsePath(ABC):
    """The part of an exchange between its halves that responses go through."""

    __slots__ = (
        "_answered",
        "_backlog",
        "_client",
        "_exchange",
        "_expects",
        "_frames",
        "_head",
        "_held_answer",
        "_is_over",
        "_is_slow",
        "_service",
        "_upstream",
        "progress",
        "timing",
    )

    _answered: bool
    _backlog: Backlog
    _client: DownstreamHalf
    _exchange: Exchange
    _expects: bool
    _frames: WebSocketFrames | None
    _head: Head | None
    """The head of the request as it is sent; None until then."""
    _held_answer: tuple[AnswerHead, Framing] | None
    """The head of a response that waits until its body is read."""
    _is_over: bool
    _is_slow: bool
    _service: RelayEnvironment
    _upstream: UpstreamHalf | None
    progress: int
    timing: ExchangeTiming

    # The rest of the exchange

    @abstractmethod
    def abort(self, code: str, retry_after: int = 0) -> None:
        """End the exchange for a reason that the lane, not the exchange, knows."""

    @abstractmethod
    def _cut(self, code: str, retry_after: int = 0) -> None: ...

    @abstractmethod
    def _update_needles(self) -> None: ...

    @abstractmethod
    def _go_on_later(self) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...

    @abstractmethod
    def _drop_upstream(self) -> None: ...

    @property
    def has_whole_response(self) -> bool:
        """All of the response has come, though not all of it is passed on: the upstream may leave."""
        return self._backlog.has_end

    # What comes

    def client_congested(self, *, congested: bool) -> None:
        """Hold the upstream while the client does not keep up."""
        self._is_slow = congested
        self._hold_down()

    def interim(self, status: int, reason: str, headers: Headers) -> None:
        """Take a 1xx of the upstream."""
        if self._is_over:
            return
        self._update_needles()
        self.progress += 1
        answer = self._exchange.informational(Response(status, reason, headers))
        if isinstance(answer, CutExchange):
            self._cut(answer.code)
        elif status != 100 or self._expects:
            # A client that did not ask for a 100 may take it for the answer.
            try:
                self._client.interim(answer)
            except WireError:
                self.abort("upstream.malformed")

    def complete_response(
        self, status: int, reason: str, headers: Headers, framing: Framing, data: bytes
    ) -> None:
        """Take a response that came in one read: the same steps, with one update of the needles."""
        if self._is_over:
            return
        self._update_needles()
        self._head_down(status, reason, headers, framing)
        if not self._is_over:
            self._data_down(data)
        if not self._is_over:
            self._end_down(())

    def response(self, status: int, reason: str, headers: Headers, framing: Framing) -> None:
        """Take the final head of the upstream."""
        if not self._is_over:
            self._update_needles()
            self._head_down(status, reason, headers, framing)

    def data(self, data: bytes) -> None:
        """Take a piece of response body, or raw bytes after a switch."""
        if not self._is_over:
            self._update_needles()
            self._data_down(data)

    def response_end(self, trailers: Headers = ()) -> None:
        """The response is complete."""
        if not self._is_over:
            self._update_needles()
            self._end_down(trailers)

    def _head_down(self, status: int, reason: str, headers: Headers, framing: Framing) -> None:
        self.progress += 1
        self.timing.answered = self._service.monotonic()
        answer = self._exchange.respond(Response(status, reason, headers, not framing.is_empty))
        if isinstance(answer, CutExchange):
            self._cut(answer.code)
        elif status == 101:
            self._switch(answer)
        else:
            self._held_answer = answer, CHUNKED if answer.is_rewritten else framing
            if not answer.is_held:
                self._pass_head()

    def _pass_head(self) -> None:
        """Pass on the head that waits, if one does."""
        held, self._held_answer = self._held_answer, None
        if held is None:
            return
        try:
            self._client.head(*held)
            self._answered = True
        except WireError:
            self.abort("upstream.malformed")

    def _data_down(self, data: bytes) -> None:
        self.progress += 1
        if self._frames is not None:
            self._exchanged(self._frames.from_upstream(data))
            return
        self._pass_down(self._backlog.data(data, self._service.turn))
        if not self._backlog.is_empty:
            self._hold_down()

    def _switch(self, answer: AnswerHead) -> None:
        if self._head is None or self._upstream is None:
            return
        frames = WebSocketFrames.agreed(self._exchange, self._head.headers, answer.headers)
        if frames is None:
            self.abort("upstream.malformed")
            return
        # Set before the switch: bytes that the client has sent ahead of it are frames already.
        self._frames, self._answered = frames, True
        try:
            self._client.switch(answer)
        except WireError:
            self._frames, self._answered = None, False
            self.abort("upstream.malformed")

    def _answer_at_once(self, step: AnswerRequest) -> None:
        """Answer with the response of a handler, in one piece."""
        self._update_needles()
        page = handler_answer(self._exchange, step)
        if isinstance(page, CutExchange):
            self._cut(page.code)
            return
        self._answered = True
        self._client.page(page)
        self._finish()

    def _exchanged(self, outcome: tuple[bytes, bytes] | CutExchange) -> None:
        """Send the frames that a read has made, upwards and downwards."""
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
        if frames.fault:
            self.abort(frames.fault)
        elif frames.is_closed:
            self.response_end()

    def frames_ended(self) -> None:
        """End a WebSocket whose upstream has closed its connection: no fault after a close frame."""
        if self._frames is not None and self._frames.is_closing:
            self.response_end()
        else:
            self.abort("upstream.closed")

    def _pass_down(self, pieces: list[bytes] | CutExchange) -> None:
        if isinstance(pieces, CutExchange):
            self._cut(pieces.code)
            return
        for piece in pieces:
            self._client.data(piece)

    def go_on(self) -> None:
        """Decode more of the response, for as long as the turn lasts and the client takes it."""
        turn = self._service.turn
        while not (self._is_over or self._is_slow or self._backlog.is_empty):
            self.progress += 1
            self._update_needles()
            step = self._backlog.step(turn)
            if isinstance(step, tuple):
                self._end_down(step)
            else:
                self._pass_down(step)
            if turn.is_over:
                break
        self._hold_down()

    def _hold_down(self) -> None:
        """Hold the upstream while the client does not keep up, or we do not ourselves."""
        if self._upstream is None or self._is_over:
            return
        is_behind = not self._backlog.is_empty
        self._upstream.hold(held=self._is_slow or is_behind)
        if is_behind and not self._is_slow:
            self._go_on_later()

    def _end_down(self, trailers: Headers) -> None:
        if self._backlog.keep_end(trailers):
            return
        outcome = self._exchange.end(trailers)
        if isinstance(outcome, CutExchange):
            self._cut(outcome.code)
            return
        self._pass_head()
        if self._is_over:
            return
        pieces, kept = outcome
        if self._frames is None:
            # Of a WebSocket this would be a part of a message, behind the last frame.
            self._pass_down(pieces)
        try:
            self._client.end(kept)
        except WireError:
            self._cut("upstream.malformed")
            return
        self._finish()
        if self._frames is not None:
            self._drop_upstream()
            return
        # They point at each other: what is over is not left to the garbage collector.
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.release()
