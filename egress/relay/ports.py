"""Interfaces of a relay: its environment, its two halves, and the orders to its owner. No call waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from egress.exchange import AnswerHead, Exchange, ExchangeRecord, HandlerCall, NeedSecrets
from egress.http1 import Framing
from egress.relay.error_page import ErrorPage
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.shares.turns import Turn
from egress.types import Head, Headers, Secret


@dataclass(slots=True)
class ExchangeTiming:
    """When the stages of an exchange were reached, in monotonic seconds; 0 for a stage not reached."""

    began: float = 0.0
    asked: float = 0.0
    """Its secrets had to be fetched."""
    sent: float = 0.0
    """Its head went out upstream."""
    answered: float = 0.0
    """The head of the final response came."""
    ended: float = 0.0
    called: float = 0.0
    """Its handler was called."""
    secret_wait: float = 0.0
    """Seconds spent waiting for secrets."""
    body_wait: float = 0.0
    """Seconds for which the head was held back, until a first part of the body had been searched."""
    wire: int = -1
    """The upstream connection it went over; -1 where it never left."""


class RelayEnvironment(Protocol):
    """The surroundings of a relay: they know the sandbox and the destination."""

    @property
    def monotonic(self) -> Callable[[], float]:
        """The clock that never jumps, in seconds."""
        ...

    @property
    def request_id(self) -> Callable[[], str]:
        """Makes an id, for the audit and for the sandbox to quote."""
        ...

    @property
    def turn(self) -> Turn:
        """The turn of the sandbox in the event loop."""
        ...

    @property
    def buffer_bytes(self) -> int:
        """Bytes that may wait in a buffer of the connection."""
        ...

    def policy(self) -> Policy:
        """Return the policy in force now."""
        ...

    def now(self) -> int:
        """Return UTC in whole seconds."""
        ...

    def new_exchange(self) -> Exchange:
        """Make an exchange under the policy in force, with placeholders, needles, limits and canaries."""
        ...

    def needles(self, policy: Policy) -> Needles | None:
        """Return the needles of every secret that may come back and whose value is known by now.

        None if no secret may come back. Called with every piece of a response: it must be cheap, and
        return the same object until a value changes.
        """
        ...

    def secrets(
        self, policy: Policy, names: tuple[str, ...], *, unscrubbed: bool
    ) -> Mapping[str, Secret] | None:
        """Return the values of these secrets if all are cached; None if they have to be fetched.

        Values too short to be searched for count as missing, unless they may go `unscrubbed`.
        """
        ...

    def begin(self, request: str, method: str, secrets: tuple[str, ...]) -> object | None:
        """Note that an exchange is about to be sent, with these secrets; return its ticket.

        None means that no record could be kept of it.
        """
        ...

    def sent(self, ticket: object) -> None:
        """Note that the first byte of the exchange goes upstream now."""
        ...

    def finish(
        self, ticket: object | None, request: str, record: ExchangeRecord, timing: ExchangeTiming
    ) -> None:
        """Keep the record of an exchange; `ticket` is that of `begin`, None if it was not sent."""
        ...


# An `ExchangeStream` sits between a `DownstreamHalf` and an `UpstreamHalf` and knows no framing. The halves
# know no rules. Calls go both ways and never wait; work on a connection goes into the orders of the relay.
#
# Back pressure goes both ways too. A half that cannot pass on its input calls `client_congested` or
# `upstream_congested` of the stream, which tells the other half to hold: an HTTP/1 half stops reading its
# connection, an HTTP/2 half stops acknowledging data of that stream.
class DownstreamHalf(Protocol):
    """The client's half of an exchange: the path of the response."""

    def interim(self, answer: AnswerHead) -> None:
        """Pass on a 1xx."""
        ...

    def head(self, answer: AnswerHead, framing: Framing) -> None:
        """Pass on the final head; `framing` is that of the body as it will be handed over."""
        ...

    def data(self, data: bytes) -> None:
        """Pass on a piece of body, or raw bytes after a switch."""
        ...

    def end(self, trailers: Headers) -> None:
        """The response is complete; after a switch, close."""
        ...

    def switch(self, answer: AnswerHead) -> None:
        """Pass on a 101; from here on raw bytes come to `Stream.request_data`."""
        ...

    def page(self, page: ErrorPage) -> None:
        """Answer with a page of our own: it is head, body and end in one."""
        ...

    def cut(self) -> None:
        """End a response that had begun, so that the client sees that it is not whole."""
        ...

    def hold(self, *, held: bool) -> None:
        """Let no more request body in for now, or go on."""
        ...


class UpstreamSource[Stream](Protocol):
    """The source of connections and secrets for exchanges."""

    def acquire(self, stream: Stream) -> None:
        """Find a connection for this exchange, now or later."""
        ...

    def fetch(self, stream: Stream, policy: Policy, needed: NeedSecrets) -> None:
        """Ask for the values of secrets."""
        ...

    def call(self, stream: Stream, call: HandlerCall, body: bytes) -> None:
        """Call a handler; `body` is that of the request, where the handler reads it."""
        ...

    def record_written(self, stream: Stream) -> None:
        """Forget this exchange, which has its record."""
        ...

    def go_on_later(self, stream: Stream) -> None:
        """Call `go_on` of this exchange in another turn."""
        ...


class UpstreamHalf(Protocol):
    """The upstream's half of an exchange: the path of the request."""

    @property
    def wire(self) -> int:
        """The connection it uses."""
        ...

    def send(self, head: Head, framing: Framing, *, expects: bool) -> None:
        """Send the head; `expects` asks for a 100 before the body."""
        ...

    def data(self, data: bytes) -> None:
        """Send a piece of body, or raw bytes after a switch."""
        ...

    def end(self) -> None:
        """The request is complete."""
        ...

    def release(self) -> None:
        """The response is complete and has been passed on."""
        ...

    def abandon(self) -> None:
        """Drop the request: its response is no longer needed."""
        ...

    def hold(self, *, held: bool) -> None:
        """Let no more of the response in for now, or go on."""
        ...


# Orders of a relay for its connections are values. A *wire* is the number of a connection: 0 is the client's,
# every other number leads to the upstream.
CLIENT_WIRE: Final = 0


WireEnd = Literal["clean", "unproven", "cut"]
"""The end of a wire. `clean`: the peer has ended it. `unproven`: TLS was closed without close_notify, so a
host on the way may have done it. `cut`: it broke, and bytes may be lost."""


class Write(NamedTuple):
    """Send these bytes."""

    wire: int
    data: bytes

    def __repr__(self) -> str:
        # Bytes sent upstream may hold a credential.
        return f"Write(wire={self.wire}, {len(self.data)} bytes)"


class Close(NamedTuple):
    """Send what is still waiting, then close."""

    wire: int


class Reset(NamedTuple):
    """Close at once, so that the peer cannot take what it got for the whole."""

    wire: int


class HandBack(NamedTuple):
    """Serve the client no more, and hand its connection back with these bytes of it, which are a request."""

    data: bytes

    def __repr__(self) -> str:
        # A request may hold a credential of the sandbox's own.
        return f"HandBack({len(self.data)} bytes)"


class Open(NamedTuple):
    """Connect to the destination; answer with `opened` or `failed`."""

    wire: int
    alpn: tuple[str, ...]


class Fetch(NamedTuple):
    """Get the values of these secrets; answer with `fetched`."""

    ticket: int
    policy: Policy
    names: tuple[str, ...]
    unscrubbed: bool = False
    """A value too short to be searched for will do."""


class Call(NamedTuple):
    """Call a handler; answer with `handled`, at once or later."""

    ticket: int
    call: HandlerCall
    body: bytes

    def __repr__(self) -> str:
        # A request may hold a credential of the sandbox's own.
        return f"Call({self.ticket}, {self.call.use.name!r})"


class YieldTurn(NamedTuple):
    """Call `again` in a while, after others have had their turn."""


RelayOrder = Write | Close | Reset | HandBack | Open | Fetch | Call | YieldTurn
