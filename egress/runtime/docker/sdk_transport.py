"""The transport of the Docker SDK, with a leak closed: a socket that cannot connect is closed.

The SDK leaves such a socket to the garbage collector, one for every call to an engine that is gone.
"""

from __future__ import annotations

import socket

from docker.transport import UnixHTTPAdapter
from docker.transport.unixconn import UnixHTTPConnection, UnixHTTPConnectionPool


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
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self.unix_socket)
        except BaseException:
            sock.close()
            raise
        self.sock = sock
