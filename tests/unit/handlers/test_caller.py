"""A proxy without handlers."""

from __future__ import annotations

from egress.exchange import HandlerFault
from egress.handlers.caller import NO_HANDLERS
from tests.unit.handlers.samples import call


async def test_a_proxy_without_handlers_denies_what_needs_one() -> None:
    assert NO_HANDLERS.start(call(), b"") == HandlerFault("lost")
    assert not NO_HANDLERS.outbound.bodies
    await NO_HANDLERS.close()
