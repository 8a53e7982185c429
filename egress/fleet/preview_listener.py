"""Listen for previews: a port of this machine, and the domain below which each preview has its name.

Without a wish of the operator that is the loopback address and `localhost`, which browsers on this machine
resolve by themselves. Any other address needs TLS and a domain whose names lead there.
"""

from __future__ import annotations

import errno
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from egress.errors import UnreadableError, UsageError, reason_of

if TYPE_CHECKING:
    import ssl

    from egress.proxy.setting_values import ListenAddress

LOCAL_DOMAIN: Final = "localhost"
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
"""Ports that the `Host` of a request leaves out."""
_LOOPBACK_HOST: Final = "127.0.0.1"
_LOOPBACK_IPV6_HOST: Final = "::1"
_BACKLOG: Final = 64
_MAX_TRIES: Final = 20
_MAX_DOMAIN_CHARS: Final = 180
"""With the label of a preview in front, a name has at most 253."""
_DOMAIN_FORM: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewPlace:
    """An address that the operator names for previews, with its domain and its certificate."""

    at: ListenAddress
    domain: str = LOCAL_DOMAIN
    certificate: Path | None = None
    key: Path | None = None

    @property
    def url(self) -> str:
        """The addresses of all previews, for people."""
        return f"{self.scheme}://*.{host_and_port(self.scheme, self.domain, self.at.port)}"

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"

    @property
    def private_files(self) -> tuple[Path, ...]:
        """Files that no sandbox may see."""
        return () if self.key is None else (self.key,)

    def check(self) -> None:
        """Raise `UsageError` for settings that do not fit together."""
        if (self.certificate is None) != (self.key is None):
            raise UsageError(
                "a certificate and its key belong together", "give --preview-tls-cert and --preview-tls-key"
            )
        if self.certificate is None and not self.at.is_loopback:
            raise UsageError(
                f"previews at {self.at} need TLS: their tokens and pages would be open to the network",
                "give --preview-tls-cert and --preview-tls-key, or listen on 127.0.0.1",
            )
        if self.domain == LOCAL_DOMAIN and not self.at.is_loopback:
            raise UsageError(
                f"previews at {self.at} need a domain: names below localhost are the browser's own machine",
                "give --preview-domain; every name below it has to lead to that address",
            )
        if not _DOMAIN_FORM.fullmatch(self.domain) or len(self.domain) > _MAX_DOMAIN_CHARS:
            raise UsageError(
                "--preview-domain is not a domain", "write it in lower case, like previews.example.com"
            )

    def open(self) -> PreviewListener:
        """Listen. Raises `UsageError` and `UnreadableError` for settings that cannot be."""
        # Loaded here, since few fleets have such a place.
        from egress.server_certificate import server_context  # noqa: PLC0415

        self.check()
        tls = None
        if self.certificate is not None and self.key is not None:
            tls = server_context(self.certificate, self.key, "--preview-tls-cert and --preview-tls-key")
            tls.set_alpn_protocols(["http/1.1"])
        try:
            sock, twin = _listen(self.at.host, self.at.port)
        except OSError as error:
            raise UnreadableError(
                f"previews cannot be served on {self.at}: {reason_of(error)}",
                "name another address with --preview-listen",
            ) from None
        return PreviewListener(sock, twin, self.domain, tls)


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


def local_listener() -> PreviewListener:
    """Listen on IPv4 loopback, at any free port. Raises `OSError`."""
    for tries_left in reversed(range(_MAX_TRIES)):
        try:
            return PreviewListener(*_listen(_LOOPBACK_HOST, 0), LOCAL_DOMAIN, None)
        except OSError:
            if not tries_left:
                raise
    raise AssertionError("not reached")


def host_and_port(scheme: str, name: str, port: int) -> str:
    """Return a name and a port as `Host` has them: without the port that goes without saying."""
    return name if port == DEFAULT_PORTS[scheme] else f"{name}:{port}"


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
