"""Waits until a program in a sandbox listens on a port."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from egress.runtime.errors import PortClosedError, SandboxTimeoutError
from egress.runtime.spec import check_ports
from egress.sandbox.cancellation import cancelled_by
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import LogEndedError

_POLL_INTERVALS: Final = (0.02, 0.5)


def await_port(
    place: CommandRunner, port: int, timeout: float | None, has_ended: Callable[[], bool] = lambda: False
) -> None:
    """Wait for a listener on a TCP port. Raises `SandboxTimeoutError`, or `LogEndedError` if `has_ended`."""
    check_ports((port,))
    # Polled with growing pauses: a kernel reports no event for a new listener.
    end = None if timeout is None else time.monotonic() + timeout
    given_up = threading.Event()
    interval, max_interval = _POLL_INTERVALS
    with cancelled_by(given_up.set):
        while not _listens(place, port):
            if has_ended():
                raise LogEndedError(f"the process ended without listening on port {port}", "see its logs()")
            # Ends early rather than late: another pause would pass the deadline.
            if timeout is not None and end is not None and time.monotonic() + interval > end:
                raise SandboxTimeoutError(
                    f"no program listens on port {port} within {timeout:g}s", "wait longer, or see its logs()"
                )
            if given_up.wait(interval):
                return
            interval = min(interval * 2, max_interval)


def _listens(place: CommandRunner, port: int) -> bool:
    try:
        place.runtime.dial(place.name, port).close()
    except PortClosedError:
        return False
    return True
