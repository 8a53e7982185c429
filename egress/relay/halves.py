"""The two sides of an exchange, whatever protocol each of them speaks.

A `Stream` sits between a `ClientHalf` and an `UpstreamHalf` and knows nothing of framing. The halves
know nothing of rules. Calls go both ways and never wait; what is to be done on a connection goes into
the orders of the relay.

Back pressure goes both ways too. A half that cannot get rid of what it is handed tells the stream
(`client_congested`, `upstream_congested`), which tells the other half to hold: an HTTP/1 half stops
reading its connection, an HTTP/2 half stops acknowledging data of that stream.
"""

from __future__ import annotations

from typing import Protocol

from egress.exchange import Answer
from egress.http1 import Framing
from egress.relay.page import Page
from egress.types import Head, Headers


class ClientHalf(Protocol):
    """One request of the client, and the way back to it."""

    def interim(self, answer: Answer) -> None:
        """Pass on a 1xx."""
        ...

    def head(self, answer: Answer, framing: Framing) -> None:
        """Pass on the final head; `framing` is that of the body as it will be handed over."""
        ...

    def data(self, data: bytes) -> None:
        """Pass on a piece of body, or raw bytes after a switch."""
        ...

    def end(self, trailers: Headers) -> None:
        """The response is complete; after a switch, close."""
        ...

    def switch(self, answer: Answer) -> None:
        """Pass on a 101; from here on raw bytes come to `Stream.request_data`."""
        ...

    def page(self, page: Page) -> None:
        """Answer with a page of our own: it is head, body and end in one."""
        ...

    def cut(self) -> None:
        """End a response that had begun, so that the client sees that it is not whole."""
        ...

    def hold(self, *, held: bool) -> None:
        """Let no more request body in for now, or go on."""
        ...


class UpstreamHalf(Protocol):
    """One request on its way, and the response that comes back."""

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
        """Nobody waits for the response any more."""
        ...

    def hold(self, *, held: bool) -> None:
        """Let no more of the response in for now, or go on."""
        ...
