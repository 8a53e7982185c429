"""Waiting until something in a sandbox listens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from egress.runtime.errors import PortClosedError
from egress.runtime.spec import check_ports
from egress.sandbox.cancellation import cancelled_by
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import LogEndedError

_POLL_INTERVALS: Final = (0.02, 0.5)


def await_port(
    place: CommandRunner, port: int, timeout: float | None, has_ended: Callable[[], bool] = lambda: False
) -> None:
    """Wait until a TCP port is listened on. Raises `TimeoutError`, or `LogEndedError` where `has_ended`."""
    check_ports((port,))
    end = None if timeout is None else time.monotonic() + timeout
    given_up = threading.Event()
    pause, longest = _POLL_INTERVALS
    with cancelled_by(given_up.set):
        while not _listens(place, port):
            if has_ended():
                raise LogEndedError(
                    f"the process ended, and nothing listens on port {port}", "look at its logs()"
                )
            if end is not None and time.monotonic() + pause > end:
                raise TimeoutError
            if given_up.wait(pause):
                return
            pause = min(pause * 2, longest)


def _listens(place: CommandRunner, port: int) -> bool:
    try:
        place.runtime.dial(place.name, port).close()
    except PortClosedError:
        return False
    return True
