"""All sandboxes of one proxy: made once by name, ended in time, and reached from other processes.

It knows the proxy by its sockets and as a program to start, and the sandboxes as a `Runtime`. It decides
nothing about what a sandbox may reach.
"""

from __future__ import annotations

from egress.fleet.fleet import Fleet
from egress.fleet.opening import open_fleet
from egress.fleet.protocol import About, Preview, Sandboxes, Standing
from egress.fleet.remote import RemoteRuntime
from egress.fleet.terms import FOREVER, Terms

__all__ = [
    "FOREVER",
    "About",
    "Fleet",
    "Preview",
    "RemoteRuntime",
    "Sandboxes",
    "Standing",
    "Terms",
    "open_fleet",
]
