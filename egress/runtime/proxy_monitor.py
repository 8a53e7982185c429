"""Watches the proxy: notices its end, and the return of a proxy in its place.

It holds an idle connection. After a return it calls its owner, repeatedly until that succeeds, and only then
waits for the next end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from egress.runtime.errors import GatewayError
from egress.runtime.proxy_client import LivenessConnection, ProxyClient

_RECONNECT_INTERVAL: Final = 0.05


class ProxyMonitor:
    """Watches a proxy until it is closed."""

    def __init__(self, proxy: ProxyClient, returned: Callable[[], None]) -> None:
        """Connect. `returned` is called after each return of the proxy. Raises `GatewayError`."""
        self._proxy = proxy
        self._returned = returned
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._connection: LivenessConnection = proxy.open_liveness()
        self._thread = threading.Thread(target=self._watch, name="egress-presence", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        with self._lock:
            self._connection.close()
        # The callback may close the monitor from the monitor's own thread.
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._connection.wait()
            self._reconnect()

    def _reconnect(self) -> None:
        while not self._closed.wait(_RECONNECT_INTERVAL):
            try:
                connection = self._proxy.open_liveness()
            except GatewayError:
                continue
            with self._lock:
                self._connection.close()
                self._connection = connection
            # `close` may have run before the new connection was stored, and missed it.
            if self._closed.is_set():
                connection.close()
                return
            # Called before the next wait: sandboxes without a proxy have no network until it succeeds.
            try:
                self._returned()
            except GatewayError:
                # The proxy is still starting, or has ended again.
                continue
            return
