"""The door as programs in the sandbox are told of it: an address, and the port where it is a proxy.

Its other ports are not told to anybody: names lead there by themselves. The address ends up in variables,
options and configuration files of several languages, so nothing is let in that has a meaning in any of
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from egress.errors import UsageError
from egress.rules.language.hosts import is_canonical


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """Where the sandbox finds its proxy. Raises `UsageError` for an address or port that is none."""

    host: str
    """An IP address without brackets, or a name that the sandbox can resolve; in lower case."""
    port: int = 3128

    def __post_init__(self) -> None:
        if not is_canonical(self.host):
            raise UsageError(
                "the door's host is neither an address nor a name",
                "give it in lower case, without port and brackets",
            )
        if not 0 < self.port < 65536:
            raise UsageError("the door's port is none", "give a number from 1 to 65535")

    @property
    def url(self) -> str:
        """What the variables of a proxy say. No slash at the end: some clients take it for a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"
