"""How long a sandbox takes to wake from sleep: by a call that does nothing else, and by a command."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from egress.fleet import Fleet
from egress.runtime.protocol import Runtime
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import Command, Spec

TRUE = Command(argv=("true",))


def woken(
    runtime: Runtime, spec: Spec, sockets: Path, rounds: int, between: Callable[[], object] = lambda: None
) -> tuple[list[float], list[float]]:
    """Seconds of each wake alone, and of each command in a sandbox that was asleep.

    `between` is called before each round, for what these are held against. The fleet is not closed: the
    runtime goes on.
    """
    fleet = Fleet(runtime, revoked=ControlProxyClient(sockets).revoked_sandboxes, tick=None)
    fleet.create(spec)
    fleet.start(spec.name)
    alone, whole = [], []
    for _ in range(rounds):
        between()
        fleet.sleep(spec.name)
        began = time.perf_counter()
        fleet.wake(spec.name)
        alone.append(time.perf_counter() - began)
        fleet.sleep(spec.name)
        began = time.perf_counter()
        fleet.exec(spec.name, TRUE)
        whole.append(time.perf_counter() - began)
    fleet.remove(spec.name)
    return alone, whole
