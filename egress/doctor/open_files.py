"""Check how many descriptors a proxy gets, and whether the requested connections fit.

Raises the soft limit of this process, as a start does; it lasts as long as the process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from egress.doctor.diagnosis import Diagnosis, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.proxy.process.descriptor_limit import fit_capacity, raise_descriptor_limit, requested_capacity


def check(setup: ProxyUnderCheck) -> Iterator[Diagnosis]:
    """Check the limit on open files."""
    yield _judged(setup, raise_descriptor_limit())


def _judged(setup: ProxyUnderCheck, limit: int) -> Diagnosis:
    asked = requested_capacity(setup.values.connections, setup.values.sandbox_connections)
    # The same computation as at the start, so that both report the same numbers.
    room = fit_capacity(asked, limit)
    text = "unlimited" if limit == sys.maxsize else f"{limit}"
    if (room.clients, room.clients_of_sandbox) == (asked.clients, asked.clients_of_sandbox):
        return ok("open files", f"{text}: enough for {asked.clients} client connections")
    return warning(
        "open files",
        f"{text}: enough for {room.clients} client connections, {room.clients_of_sandbox} of one sandbox; "
        f"requested: {asked.clients} and {asked.clients_of_sandbox}",
        "raise the hard limit of open files (`ulimit -Hn`), or request fewer with `--connections`",
    )
