"""The sandboxes of one proxy: created once per name, removed in time, and shared with other processes.

The package knows the proxy by its sockets and as a program to start, and the sandboxes as a `Runtime`. It
must not decide what a sandbox may reach.
"""

from __future__ import annotations

from egress.fleet.fleet import Fleet
from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.fleet.opening import open_fleet
from egress.fleet.protocol import FleetInfo, Preview, SandboxFleet, SandboxStatus
from egress.fleet.remote import RemoteRuntime

__all__ = [
    "NO_TIME_LIMIT",
    "Fleet",
    "FleetInfo",
    "Preview",
    "RemoteRuntime",
    "SandboxFleet",
    "SandboxLifetime",
    "SandboxStatus",
    "open_fleet",
]
