"""Listen for previews: at the place that the operator names, or else on loopback.

Browsers on this machine resolve names below `localhost` by themselves.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from egress.errors import UnreadableError, reason_of
from egress.fleet.preview_address import LOCAL_DOMAIN, PreviewPlace, host_and_port

if TYPE_CHECKING:
    import ssl

_LOOPBACK_HOST: Final = "127.0.0.1"
_LOOPBACK_IPV6_HOST: Final = "::1"
_BACKLOG: Final = 64
_MAX_TRIES: Final = 20


class PreviewListener:
    """The listening socket, from its creation to `close`."""

    def __init__(
        self, sock: socket.socket, twin: socket.socket | None, domain: str, tls: ssl.SSLContext | None
    ) -> None:
        self._sock = sock
        self._twin = twin
        self._domain = domain
        self._tls = tls
        self.scheme = "http" if tls is None else "https"
        self.address: tuple[str, int] = sock.getsockname()[:2]

    def host_of(self, label: str) -> str:
        """Return the `Host` that browsers send for the name of this label."""
        return host_and_port(self.scheme, f"{label}.{self._domain}", self.address[1])

    def accept(self) -> socket.socket | None:
        """Wait for a connection; None once the listener is closed. Raises `OSError` for any other failure."""
        try:
            sock, _ = self._sock.accept()
        except OSError:
            if self._sock.fileno() < 0:
                return None
            raise
        # A client that vanishes without a word ends its connection too.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return sock

    def secured(self, sock: socket.socket) -> socket.socket:
        """Return the connection as requests come over it, before any handshake. Raises `OSError`."""
        if self._tls is None:
            return sock
        # Loaded here, since most listeners have no TLS.
        from egress.api.tls_socket import accept_tls  # noqa: PLC0415

        return accept_tls(sock, self._tls)

    def close(self) -> None:
        for sock in (self._sock, self._twin):
            if sock is None:
                continue
            # Closing alone does not wake a thread that waits in `accept`.
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def listen_at(place: PreviewPlace) -> PreviewListener:
    """Listen. Raises `UsageError` and `UnreadableError` for settings that cannot be."""
    # Loaded here, since few fleets have such a place.
    from egress.server_certificate import server_context  # noqa: PLC0415

    place.check()
    tls = None
    if place.certificate is not None and place.key is not None:
        tls = server_context(place.certificate, place.key, "--preview-tls-cert and --preview-tls-key")
        tls.set_alpn_protocols(["http/1.1"])
    try:
        sock, twin = _listen(place.at.host, place.at.port)
    except OSError as error:
        raise UnreadableError(
            f"previews cannot be served on {place.at}: {reason_of(error)}",
            "name another address with --preview-listen",
        ) from None
    return PreviewListener(sock, twin, place.domain, tls)


def local_listener() -> PreviewListener:
    """Listen on IPv4 loopback, at any free port. Raises `OSError`."""
    for tries_left in reversed(range(_MAX_TRIES)):
        try:
            return PreviewListener(*_listen(_LOOPBACK_HOST, 0), LOCAL_DOMAIN, None)
        except OSError:
            if not tries_left:
                raise
    raise AssertionError("not reached")


def _listen(host: str, port: int) -> tuple[socket.socket, socket.socket | None]:
    """Listen; on IPv4 loopback, reserve the same port on IPv6 loopback. Raises `OSError`.

    Browsers resolve a name below `localhost` to both, and try IPv6 first: a process that listened there would
    receive the token. With the port reserved and nothing listening, browsers fall back to IPv4.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    if host != _LOOPBACK_HOST:
        return listener, None
    try:
        return listener, _reserve_port(listener.getsockname()[1])
    except OSError:
        listener.close()
        raise


def _reserve_port(port: int) -> socket.socket | None:
    """Bind the port on IPv6 loopback without listening; None if the machine has no IPv6 loopback."""
    try:
        twin = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        twin.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        twin.bind((_LOOPBACK_IPV6_HOST, port))
    except OSError as error:
        twin.close()
        if error.errno == errno.EADDRNOTAVAIL:
            return None
        raise
    return twin
