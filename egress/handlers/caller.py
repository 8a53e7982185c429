"""The interface through which a proxy calls handlers, and the one of a proxy without any."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol

from egress.exchange.handler_call import HandlerCall, HandlerFault, HandlerVerdict
from egress.rules.decide.outbound import NO_OUTBOUND, Outbound


class HandlerCaller(Protocol):
    """Calls handlers. No call raises, and none blocks."""

    @property
    def outbound(self) -> Outbound:
        """The handlers that can be called."""
        ...

    def start(self, call: HandlerCall, body: bytes) -> HandlerVerdict | Awaitable[HandlerVerdict]:
        """Call a handler; return its verdict, or what can be awaited for it."""
        ...

    async def close(self) -> None:
        """End every call that is under way."""
        ...


class NoHandlers:
    """A proxy without handlers."""

    outbound = NO_OUTBOUND

    def start(self, call: HandlerCall, body: bytes) -> HandlerVerdict:
        """Deny: there is nobody to ask."""
        del call, body
        return HandlerFault("lost")

    async def close(self) -> None:
        """Nothing is open."""


NO_HANDLERS: Final = NoHandlers()
