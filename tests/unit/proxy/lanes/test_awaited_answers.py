"""A verdict comes as an event, whatever goes wrong. For secrets see test_intercept_handler.py."""

from __future__ import annotations

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import cast

import pytest
from mitmproxy.proxy import events

from egress.addons.http_layers import HandlerReturned, RunHandler
from egress.exchange import AllowByHandler, HandlerCall, HandlerFault, HandlerVerdict
from egress.proxy.lanes.awaited_answers import ask
from egress.proxy.lanes.engine import ProxyEngine
from egress.relay.ports import Call
from tests.unit.handlers.samples import call


class Handlers:
    """Handlers that say what they are told to, or fail."""

    def __init__(self, said: HandlerVerdict | Exception, *, is_late: bool) -> None:
        self._said = said
        self._is_late = is_late

    def start(self, _: HandlerCall, __: bytes) -> HandlerVerdict | Awaitable[HandlerVerdict]:
        if self._is_late:
            return self._later()
        if isinstance(self._said, Exception):
            raise self._said
        return self._said

    async def _later(self) -> HandlerVerdict:
        if isinstance(self._said, Exception):
            raise self._said
        return self._said


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(
    ("said", "verdict"),
    [(AllowByHandler(), AllowByHandler()), (RuntimeError("sesame"), HandlerFault("lost"))],
    ids=["verdict", "fault"],
)
async def test_a_verdict_comes_as_an_event(
    said: HandlerVerdict | Exception, verdict: HandlerVerdict, *, is_late: bool
) -> None:
    taken: list[events.Event] = []
    engine = cast("ProxyEngine", SimpleNamespace(handlers=Handlers(said, is_late=is_late)))
    waits = ask(taken.append, engine, RunHandler(Call(7, call(), b"")), 1.0)
    assert (waits is not None) is is_late
    if waits is not None:
        await waits()
    (event,) = taken
    assert isinstance(event, HandlerReturned)
    assert (event.ticket, event.verdict) == (7, verdict)
