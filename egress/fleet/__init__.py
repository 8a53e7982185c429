"""All sandboxes of one proxy: made once by name, ended in time, and reached from other processes.

It knows the proxy by its sockets and as a program to start, and the sandboxes as a `Runtime`. It decides
nothing about what a sandbox may reach.
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
