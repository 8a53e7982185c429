"""The answers that an exchange waits for before it is sent: values of secrets, and the verdict of a handler.

Each comes as an event, whatever goes wrong: a secret that is missing denies its request, and so does a
handler without a verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping

import structlog
from mitmproxy.proxy import events

from egress.addons.guard import error_location
from egress.addons.http_layers import FetchSecrets, HandlerReturned, RunHandler, SecretsFetched
from egress.exchange import HandlerFault, HandlerVerdict
from egress.proxy.lanes.engine import ProxyEngine
from egress.proxy.lanes.relay_services import secret_specs
from egress.types import Secret

TakeEvent = Callable[[events.Event], None]

log = structlog.get_logger(__name__)


def ask(
    take: TakeEvent, engine: ProxyEngine, command: FetchSecrets | RunHandler, patience: float
) -> Callable[[], Coroutine[object, object, None]] | None:
    """Carry out a command; return what is still to be waited for, or None if its answer has come already.

    Secrets may take as many seconds as `patience` says; a handler has a deadline of its own.
    """
    if isinstance(command, FetchSecrets):
        return lambda: _fetch_secrets(take, engine, command, patience)
    return _call_handler(take, engine, command)


async def _fetch_secrets(
    take: TakeEvent, engine: ProxyEngine, command: FetchSecrets, patience: float
) -> None:
    order = command.order
    found: Mapping[str, Secret] = {}
    try:
        async with asyncio.timeout(patience):
            found = await engine.secrets.resolve(
                secret_specs(order.policy, order.names), order.names if order.unscrubbed else ()
            )
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the request is not sent bare
        # `exception` would print a traceback, which may show a secret.
        log.error("secret.failed", names=order.names, error=error_location(error))  # noqa: TRY400
    finally:
        # Missing secrets deny their request.
        take(SecretsFetched(order.ticket, found))


def _call_handler(
    take: TakeEvent, engine: ProxyEngine, command: RunHandler
) -> Callable[[], Coroutine[object, object, None]] | None:
    order = command.order
    try:
        verdict = engine.handlers.start(order.call, order.body)
    except Exception as error:  # noqa: BLE001 - as above
        verdict = _fault(command, error)
    if isinstance(verdict, Awaitable):
        return lambda: _await_handler(take, command, verdict)
    take(HandlerReturned(order.ticket, verdict))
    return None


async def _await_handler(take: TakeEvent, command: RunHandler, waits: Awaitable[HandlerVerdict]) -> None:
    verdict: HandlerVerdict = HandlerFault("lost")
    try:
        verdict = await waits
    except Exception as error:  # noqa: BLE001 - as above
        verdict = _fault(command, error)
    finally:
        take(HandlerReturned(command.order.ticket, verdict))


def _fault(command: RunHandler, error: Exception) -> HandlerFault:
    log.error("handler.lost", handler=command.order.call.use.name, error=error_location(error))
    return HandlerFault("lost")
