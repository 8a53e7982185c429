"""Whether the proxy is ready, over TCP: for the kubelet, and for whatever balances between replicas.

`GET /ready` is answered 200, or 503 with the reasons as lines of text. `GET /replica` is the report of a
gateway to its other replicas. There is nothing else to ask for, and nothing that is said names a rule or a
secret.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from egress.errors import UnreadableError, WireError, reason_of
from egress.kubernetes.replica_report import REPLICA_PATH
from egress.proxy.control.text_exchange import encode_text, read_request, read_to_end
from egress.proxy.ingress.acceptor import Acceptor
from egress.proxy.ingress.connection_tasks import ConnectionTasks
from egress.proxy.ingress.listener import listen
from egress.proxy.ingress.port_owner import owner_of_port
from egress.proxy.setting_values import ListenAddress

READY_PATH: Final = "/ready"
_TIMEOUT: Final = 2.0
"""Seconds for the request and its answer together."""
_MAX_CONVERSATIONS: Final = 8
_ACCEPT_PAUSE: Final = 0.1


class ReadyListener:
    """The listener, from `open` to `close`."""

    def __init__(
        self,
        at: ListenAddress,
        problems: Callable[[], list[str]],
        report: Callable[[], str] | None = None,
    ) -> None:
        """`problems` says why the proxy is not ready; nothing if it is. `report` is for other replicas."""
        self.at = at
        self._report = report
        self._problems = problems
        self._acceptor: Acceptor | None = None
        self._conversations = ConnectionTasks(self._talk, _MAX_CONVERSATIONS)

    def open(self) -> None:
        """Listen. Raises `UnreadableError` where that cannot be."""
        try:
            sock = listen(self.at.host, self.at.port)
        except OSError as error:
            holder = owner_of_port(self.at) if error.errno == errno.EADDRINUSE else ""
            by = f", by {holder}" if holder else ""
            raise UnreadableError(
                f"readiness cannot be told on {self.at}: {reason_of(error)}{by}",
                "name another address with --ready",
            ) from None
        # A port that the kernel chose is told from here on.
        self.at = ListenAddress(self.at.host, int(sock.getsockname()[1]))
        self._acceptor = Acceptor(sock, self._conversations.begin, _ACCEPT_PAUSE, most=1)

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._acceptor is not None:
            self._acceptor.close()
        await self._conversations.close()

    async def _talk(self, sock: socket.socket) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                status, text = await self._reply(sock)
                await asyncio.get_running_loop().sock_sendall(sock, encode_text(status, text))
                await read_to_end(sock)

    async def _reply(self, sock: socket.socket) -> tuple[int, str]:
        try:
            head = await read_request(sock)
        except WireError:
            head = None
        if head is None or head.form != "origin" or not head.framing.is_empty:
            return 400, "This is no request for readiness.\n"
        if head.target != READY_PATH and (head.target != REPLICA_PATH or self._report is None):
            return 404, f"There is only {READY_PATH}.\n"
        if head.method != "GET":
            return 405, "Use GET.\n"
        if head.target == REPLICA_PATH and self._report is not None:
            return 200, self._report()
        problems = self._problems()
        return (503, "".join(f"{each}\n" for each in problems)) if problems else (200, "ready\n")
