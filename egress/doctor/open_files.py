"""How many descriptors a proxy gets here, and whether the connections that were asked for fit into them.

It raises the bound of this process as a start does, which lasts as long as the process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from egress.doctor.diagnosis import Diagnosis, ok, warning
from egress.doctor.proxy_setup import ProxySetup
from egress.proxy.process.descriptor_limit import fit_capacity, raise_descriptor_limit, requested_capacity


def check(patient: ProxySetup) -> Iterator[Diagnosis]:
    """Look at the bound on open files."""
    yield _judged(patient, raise_descriptor_limit())


def _judged(patient: ProxySetup, limit: int) -> Diagnosis:
    asked = requested_capacity(patient.values.connections, patient.values.sandbox_connections)
    room = fit_capacity(asked, limit)
    text = "without a bound" if limit == sys.maxsize else f"{limit}"
    if (room.clients, room.clients_of_sandbox) == (asked.clients, asked.clients_of_sandbox):
        return ok("open files", f"{text}: enough for {asked.clients} client connections")
    return warning(
        "open files",
        f"{text}: enough for {room.clients} client connections, {room.clients_of_sandbox} of one sandbox; "
        f"asked for are {asked.clients} and {asked.clients_of_sandbox}",
        "raise the hard limit of open files (`ulimit -Hn`), or ask for fewer with `--connections`",
    )
