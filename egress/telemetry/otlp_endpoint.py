"""The address of a collector, read strictly from a URL or from the standard variables. Pure.

A URL holds no credential here: users, queries and fragments are refused, since settings are shown and logged.
The standard variables count only where the operator asks for them, and those that would carry a credential
or change what is exported are refused instead of being passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from egress.errors import UsageError

FROM_ENVIRONMENT: Final = "environment"
"""The value of `--otlp` that takes the standard variables."""
Signal = Literal["traces", "metrics", "logs"]
SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics", "logs")
_PREFIX: Final = "OTEL_EXPORTER_OTLP_"
_READ: Final = frozenset({"ENDPOINT", "PROTOCOL"})
_PROTOCOL: Final = "http/protobuf"
_HINT: Final = "write it like https://collector.example.com:4318"
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]{1,100}){0,16}/?", re.ASCII)
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class CollectorEndpoint:
    """A collector, which is sent OTLP over HTTP."""

    is_tls: bool
    host: str
    """A name, or an address without brackets."""
    port: int
    path: str = ""
    """The path before `/v1/traces` and its like, without a slash at the end."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.path}"

    @property
    def is_private_channel(self) -> bool:
        """Whether nobody on the way can read what is sent: TLS, or an address of this machine."""
        if self.is_tls or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_endpoint(url: str) -> CollectorEndpoint:
    """Read the URL of a collector. Raises `ValueError`, which does not quote it."""
    # Tabs and line ends would be passed over without a word.
    if not url.isascii() or not url.isprintable():
        raise ValueError("this is not a URL")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("this is not a URL") from None
    host = parts.hostname or ""
    if parts.scheme not in _DEFAULT_PORTS or not _is_host(host) or port == 0:
        raise ValueError("this is not the URL of a collector")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ValueError("the URL of a collector has no user, no query and no fragment")
    if not _PATH.fullmatch(parts.path) or not _has_plain_authority(parts):
        raise ValueError("the URL of a collector has a plain path")
    return CollectorEndpoint(
        parts.scheme == "https", host, port or _DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/")
    )


def endpoint_of_variables(environ: Mapping[str, str]) -> CollectorEndpoint:
    """Read the standard variables. Raises `UsageError` for one that has no effect here."""
    given = {name for name, value in environ.items() if name.startswith(_PREFIX) and value}
    for name in sorted(given - {_PREFIX + each for each in _READ}):
        cure = "leave it out"
        if "HEADERS" in name:
            # A variable can be read by every process of the user, and is passed on to children.
            cure = "write the headers to a private file, and name it with --otlp-headers-file"
        elif "CERTIFICATE" in name:
            cure = "name the file with --otlp-ca"
        raise UsageError(f"--otlp={FROM_ENVIRONMENT} does not take {name}", cure)
    if environ.get(f"{_PREFIX}PROTOCOL", "") not in ("", _PROTOCOL):
        raise UsageError(
            f"{_PREFIX}PROTOCOL names a protocol that is not spoken here", f"set it to {_PROTOCOL}"
        )
    try:
        return read_endpoint(environ.get(f"{_PREFIX}ENDPOINT", ""))
    except ValueError as error:
        raise UsageError(f"{_PREFIX}ENDPOINT: {error}", _HINT) from None


def _is_host(host: str) -> bool:
    if _HOST.fullmatch(host):
        return True
    try:
        return ip_address(host).version == 6 and "%" not in host
    except ValueError:
        return False


def _has_plain_authority(parts: SplitResult) -> bool:
    """Tell whether the authority is the host and the port, and nothing that was passed over."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    port = parts.netloc.rpartition(":")[2] if parts.port is not None else ""
    return parts.netloc.lower() == (f"{host}:{port}" if parts.port is not None else host)
