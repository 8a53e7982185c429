"""The address of the proxy as programs in the sandbox see it: a host, and the port of the explicit proxy.

Transparent ports are not part of it: DNS leads clients there. The address ends up in variables, options and
configuration files of several languages, so every character with a special meaning is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from egress.errors import UsageError
from egress.rules.language.hosts import is_canonical


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """The proxy's address, as seen from the sandbox. Raises `UsageError` for an invalid host or port."""

    host: str
    """An IP address without brackets, or a name that the sandbox can resolve; in lower case."""
    port: int = 3128

    def __post_init__(self) -> None:
        if not is_canonical(self.host):
            raise UsageError(
                "the proxy's host is neither an address nor a name",
                "write it in lower case, without port and brackets",
            )
        if not 0 < self.port < 65536:
            raise UsageError("the proxy's port is invalid", "give a number from 1 to 65535")

    @property
    def url(self) -> str:
        """The URL for proxy variables. Without a final slash: some clients read it as a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"
