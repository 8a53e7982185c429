"""How many descriptors the process may have, and how many connections fit into them.

Most systems give a process 1024 at first and let it ask for more, which is done here. What then still is too
little lowers the bounds on connections: one that cannot be served is better refused than half opened. A
third of what there is is for clients, one for upstream connections of the lane that reads, one for those of
the lane that does not; the reserve is for files, secrets, and the operator.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from dataclasses import dataclass, replace
from typing import Final

RESERVED_DESCRIPTORS: Final = 128
_DESCRIPTORS_PER_CLIENT: Final = 4
"""Upstream connections per client connection that a sandbox may have, taken together."""


@dataclass(frozen=True, slots=True)
class ConnectionCapacity:
    """The bounds on connections."""

    clients: int
    """Client connections of all sandboxes."""
    clients_of_sandbox: int
    upstreams: int
    """Upstream connections of all sandboxes, in the lane that reads."""
    upstreams_of_sandbox: int


def raise_descriptor_limit() -> int:
    """Have as many descriptors as the system lets us; returns how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def requested_capacity(clients: int, clients_of_sandbox: int) -> ConnectionCapacity:
    """Return the capacity that the settings ask for."""
    return ConnectionCapacity(
        clients,
        clients_of_sandbox,
        _DESCRIPTORS_PER_CLIENT * clients,
        _DESCRIPTORS_PER_CLIENT * clients_of_sandbox,
    )


def fit_capacity(room: ConnectionCapacity, limit: int) -> ConnectionCapacity:
    """The same, as far as it fits into so many descriptors; where they are scarce, a sandbox gets half."""
    third = max((limit - RESERVED_DESCRIPTORS) // 3, 2)
    if third >= room.clients:
        upstreams = min(room.upstreams, third)
        return replace(
            room,
            upstreams=upstreams,
            upstreams_of_sandbox=min(room.upstreams_of_sandbox, max(upstreams // 2, 1)),
        )
    return ConnectionCapacity(
        clients=third,
        clients_of_sandbox=min(room.clients_of_sandbox, third // 2),
        upstreams=third,
        upstreams_of_sandbox=min(room.upstreams_of_sandbox, third // 2),
    )
