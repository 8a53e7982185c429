# What type checkers see of `egress.fleet`: each name is loaded when it is first asked for.

from egress.fleet.fleet import Fleet
from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.fleet.opening import open_fleet
from egress.fleet.protocol import FleetInfo, Preview, SandboxFleet, SandboxStatus
from egress.fleet.remote import RemoteRuntime, open_remote

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
    "open_remote",
]
