"""An API at a port: its address, the token for it, and connections whose server has proved its name."""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self

from egress.api.tls_socket import open_tls
from egress.errors import UnreadableError, UsageError, reason_of

_URL_FORM: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[0-9A-Za-z][0-9A-Za-z._-]{0,252})"
    r"(?::(?P<port>[0-9]{1,5}))?/?",
    re.ASCII,
)
_TOKEN_FORM: Final = re.compile(r"[\x21-\x7e]{1,1024}", re.ASCII)
_USUAL_PORTS: Final = {"http": 80, "https": 443}
_CONNECT_SECONDS: Final = 20.0
"""For the connection and the handshake. Calls take as long as they take."""


@dataclass(frozen=True, slots=True)
class UrlEndpoint:
    """The port of a server. Its `repr` and its text show the address, and never the token."""

    address: str
    """The host without brackets."""
    port: int
    token: str = field(repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @classmethod
    def read(cls, url: str, token: str, ca_file: Path | None = None) -> Self:
        """Read an address such as `https://boxes.example.com:8700`.

        `ca_file` are the authorities to trust instead of those of the system. Raises `UsageError`, which
        repeats neither, and `UnreadableError` for a file that has no certificate.
        """
        found = _URL_FORM.fullmatch(url)
        port = int(found["port"] or _USUAL_PORTS[found["scheme"]]) if found else 0
        if found is None or not 0 < port <= 65535:
            raise UsageError(
                "this is not the address of an API",
                "write it like https://boxes.example.com:8700, without a path",
            )
        if not _TOKEN_FORM.fullmatch(token):
            raise UsageError(
                "this is not a token", "give the one line of --api-token-file, without its line end"
            )
        address, is_secure = found["host"].strip("[]"), found["scheme"] == "https"
        if not is_secure and not _is_loopback(address):
            raise UsageError("without TLS the token would be open to the network", "write https://")
        return cls(address, port, token, _trusting(ca_file) if is_secure else None)

    @property
    def host(self) -> str:
        """The `Host` of requests."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of every request."""
        return (("authorization", f"Bearer {self.token}"),)

    def connect(self) -> socket.socket:
        """Return a connected socket, whose server has proved its name. Raises `OSError`."""
        sock = socket.create_connection((self.address, self.port), _CONNECT_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A server that vanishes without a word ends a call that waits for it.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.tls is not None:
            return open_tls(sock, self.tls, self.address)
        sock.settimeout(None)
        return sock

    def __str__(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.host}"


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    try:
        # Verifies the certificate and its name, and takes no version before TLS 1.2.
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else reason_of(error)
        raise UnreadableError(
            f"the authorities in {ca_file} cannot be used: {reason}", "name a file of certificates in PEM"
        ) from None
