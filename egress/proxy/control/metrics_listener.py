"""The metrics over TCP, for a Prometheus that cannot dial a unix socket: one path, one method, one user.

It is a surface of its own and serves nothing else. `MetricsGuard` judges each peer before a byte is read. A
request is bounded in bytes and time, and read by the strict reader that all requests are read by. The text is
made at most once a second, however often it is asked for.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from egress.errors import UnreadableError, WireError, reason_of
from egress.proxy.control.metrics_guard import MetricsGuard, ScrapeStanding
from egress.proxy.control.text_exchange import encode_text, read_request, read_to_end
from egress.proxy.ingress.acceptor import Acceptor
from egress.proxy.ingress.connection_tasks import ConnectionTasks
from egress.proxy.ingress.destination_parser import read_authority
from egress.proxy.ingress.listener import listen, peer_address
from egress.proxy.ingress.port_owner import owner_of_port
from egress.proxy.setting_values import ListenAddress
from egress.rules.language.hosts import is_address
from egress.telemetry.prometheus_text import CONTENT_TYPE

_HTTP_PORT: Final = 80
METRICS_PATH: Final = "/metrics"
_TIMEOUT: Final = 5.0
"""Seconds for the request and its answer together."""
_MAX_CONVERSATIONS: Final = 8
_ACCEPT_PAUSE: Final = 0.1
_FRESH_SECONDS: Final = 1.0
_BROWSER_FIELDS: Final = frozenset({"origin", "sec-fetch-site", "sec-fetch-mode"})
"""Fields that a browser adds. A page of somebody else must not read the metrics of its visitor's machine."""

_log = structlog.get_logger(__name__)


class MetricsListener:
    """The listener, from `open` to `close`."""

    def __init__(
        self,
        at: ListenAddress,
        guard: MetricsGuard,
        render: Callable[[], str],
        monotonic: Callable[[], float],
    ) -> None:
        """`render` makes the text."""
        self.at = at
        self._guard = guard
        self._render = render
        self._monotonic = monotonic
        self._text = ""
        self._rendered = float("-inf")
        self._acceptor: Acceptor | None = None
        self._conversations = ConnectionTasks(self._talk, _MAX_CONVERSATIONS)
        self._refused = 0
        """Refusals since the last one that was logged."""
        self._told = float("-inf")

    def open(self) -> None:
        """Listen. Raises `UnreadableError` where that cannot be."""
        try:
            sock = listen(self.at.host, self.at.port)
        except OSError as error:
            holder = owner_of_port(self.at) if error.errno == errno.EADDRINUSE else ""
            raise UnreadableError(
                f"the metrics cannot be served on {self.at}: {reason_of(error)}{holder and f', by {holder}'}",
                "name another address with --metrics",
            ) from None
        # A port that the kernel chose is told from here on.
        self.at = ListenAddress(self.at.host, int(sock.getsockname()[1]))
        # One in each round of the loop: nobody is charged for these, and sandboxes may be among them.
        self._acceptor = Acceptor(sock, self._admit, _ACCEPT_PAUSE, most=1)

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._acceptor is not None:
            self._acceptor.close()
        await self._conversations.close()

    # One conversation

    def _admit(self, sock: socket.socket) -> None:
        """Begin a conversation; a peer that is refused takes the place of none."""
        if self._guard.standing(sock) is ScrapeStanding.REFUSED:
            self._tell(sock, "the peer may not scrape")
            sock.close()
        else:
            self._conversations.begin(sock)

    def _tell(self, sock: socket.socket, reason: str) -> None:
        """Log a refusal, at most one in a second: a sandbox can be refused as often as it likes."""
        self._refused += 1
        now = self._monotonic()
        if now - self._told >= _FRESH_SECONDS:
            _log.warning("metrics.refused", peer=peer_address(sock), reason=reason, count=self._refused)
            self._refused, self._told = 0, now

    async def _talk(self, sock: socket.socket) -> None:
        # Judged again: what served a sandbox may have been opened meanwhile.
        standing = self._guard.standing(sock)
        if standing is ScrapeStanding.REFUSED:
            return
        loop = asyncio.get_running_loop()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                status, text = await self._reply(sock, standing)
                await loop.sock_sendall(sock, encode_text(status, text, CONTENT_TYPE))
                await read_to_end(sock)

    async def _reply(self, sock: socket.socket, standing: ScrapeStanding) -> tuple[int, str]:
        try:
            head = await read_request(sock)
        except WireError:
            head = None
        # In the order in which they give the least away: nothing is told to a browser or without the token.
        if head is None or head.form != "origin" or not head.framing.is_empty:
            return 400, "This is no request for metrics.\n"
        if any(name in _BROWSER_FIELDS for name, _ in head.headers):
            return 403, "Metrics are not served to browsers.\n"
        if self.at.is_loopback and standing is ScrapeStanding.WELCOME and not _names_loopback(head.host):
            return 403, "Scrape the address, or localhost.\n"
        if standing is ScrapeStanding.NEEDS_TOKEN and not self._guard.has_token(head.headers):
            self._tell(sock, "without the token")
            return 401, "Give the token of --metrics-token-file as a bearer token.\n"
        if head.target != METRICS_PATH:
            return 404, f"There is only {METRICS_PATH}.\n"
        if head.method != "GET":
            return 405, "Use GET.\n"
        return 200, self._current()

    def _current(self) -> str:
        now = self._monotonic()
        if now - self._rendered >= _FRESH_SECONDS:
            self._text, self._rendered = self._render(), now
        return self._text


def _names_loopback(host: str) -> bool:
    """Tell whether a request is for an address or `localhost`.

    A name of a web site may be made to resolve to this machine. To a browser it is the site of its page then,
    and the request has none of the fields above.
    """
    found = read_authority(host, _HTTP_PORT)
    return found is not None and (found[0] == "localhost" or is_address(found[0]))
