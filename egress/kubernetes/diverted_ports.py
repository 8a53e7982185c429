"""The ports at which the lock of a network leads everybody to the proxy, whatever the address. Pure."""

from __future__ import annotations

from typing import Final

DIVERTED_TCP_PORTS: Final = (443, 80, 53)
DIVERTED_UDP_PORTS: Final = (53,)
DIVERTED_PORTS: Final = frozenset(DIVERTED_TCP_PORTS + DIVERTED_UDP_PORTS)
