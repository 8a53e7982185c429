"""Say where previews are served: the address, the domain below it, and its certificate, checked together.

Any address but loopback needs TLS and a domain whose names lead there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from egress.errors import UsageError

if TYPE_CHECKING:
    from egress.proxy.setting_values import ListenAddress

LOCAL_DOMAIN: Final = "localhost"
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
"""Ports that the `Host` of a request leaves out."""
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


def host_and_port(scheme: str, name: str, port: int) -> str:
    """Return a name and a port as `Host` has them: without the port that goes without saying."""
    return name if port == DEFAULT_PORTS[scheme] else f"{name}:{port}"
