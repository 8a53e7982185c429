"""The probe of a server: whether the proxy of its sandboxes can serve, as a status without a body.

Whoever reaches the port may ask, so an answer says nothing else, and all questions share one look a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from egress.fleet import control_client
from egress.runtime.errors import GatewayError

PROBE_PATH: Final = "/v1/healthz"
LOOK_SECONDS: Final = 1.0


def is_proxy_ready(folder: Path | None) -> bool:
    """Ask the proxy whose sockets are in this folder whether it can serve."""
    if folder is None:
        return False
    try:
        return control_client.ask(folder, "/readyz").status == HTTPStatus.OK
    except GatewayError:
        return False


class HealthLooks:
    """The looks at the proxy of one server. Only the loop of the server uses them."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = float("-inf")
        self._look: asyncio.Future[bool] | None = None

    async def is_ready(self, look: Callable[[], Awaitable[bool]]) -> bool:
        """Return the outcome of the newest look; `look` makes the next one once that is old."""
        is_due = self._monotonic() - self._began >= LOOK_SECONDS
        if self._look is None or (self._look.done() and is_due):
            self._began = self._monotonic()
            self._look = asyncio.ensure_future(look())
        # A client that leaves must not cancel the look for the others.
        return await asyncio.shield(self._look)
