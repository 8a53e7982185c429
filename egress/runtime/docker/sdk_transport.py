"""The transport of the Docker SDK, with a leak closed: a socket that cannot connect is closed.

The SDK leaves such a socket to the garbage collector, one for every call to an engine that is gone.
"""

from __future__ import annotations

from pathlib import Path

from docker.transport import UnixHTTPAdapter
from docker.transport.unixconn import UnixHTTPConnection, UnixHTTPConnectionPool

from egress.unix.stream_socket import connect


class SdkTransport(UnixHTTPAdapter):
    """Replaces the SDK's own adapter."""

    def get_connection(self, url: bytes | str, proxies: object = None) -> UnixHTTPConnectionPool:  # noqa: ARG002 - its signature
        """The pool of connections for this address."""
        with self.pools.lock:
            pool = self.pools.get(url)
            if pool is None:
                pool = _UnixConnectionPool(
                    str(url), self.socket_path, self.timeout, maxsize=self.max_pool_size
                )
                self.pools[url] = pool
        return pool


class _UnixConnectionPool(UnixHTTPConnectionPool):
    def _new_conn(self) -> UnixHTTPConnection:  # type: ignore[override]
        return _UnixConnection(self.base_url, self.socket_path, self.timeout)  # type: ignore[arg-type]


class _UnixConnection(UnixHTTPConnection):
    def connect(self) -> None:
        self.sock = connect(Path(self.unix_socket), self.timeout)
