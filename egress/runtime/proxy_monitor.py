"""Whether the proxy is there: notices when it has ended, and when it, or another one, has come in its place.

It looks by holding a connection that carries nothing. What is to be done on a return is for others to say; it
is done before the next end is waited for, and again until it succeeds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from egress.runtime.errors import GatewayError
from egress.runtime.proxy_client import LivenessConnection, ProxyClient

_RECONNECT_INTERVAL: Final = 0.05


class ProxyMonitor:
    """Keeps in touch with a proxy until it is closed."""

    def __init__(self, gateway: ProxyClient, returned: Callable[[], None]) -> None:
        """Meet it. `returned` is called whenever it is there again. Raises `GatewayError`."""
        self._gateway = gateway
        self._returned = returned
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._meeting: LivenessConnection = gateway.open_liveness()
        self._thread = threading.Thread(target=self._watch, name="egress-presence", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no longer."""
        self._closed.set()
        with self._lock:
            self._meeting.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._meeting.wait()
            self._reconnect()

    def _reconnect(self) -> None:
        while not self._closed.wait(_RECONNECT_INTERVAL):
            try:
                meeting = self._gateway.open_liveness()
            except GatewayError:
                continue
            with self._lock:
                self._meeting.close()
                self._meeting = meeting
            if self._closed.is_set():
                meeting.close()
                return
            try:
                self._returned()
            except GatewayError:
                # It is on its way, or on its way out again.
                continue
            return
