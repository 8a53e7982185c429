"""The default fleet: opened at its first use, once per process.

It connects to `egress up` if that runs; otherwise it opens a fleet that ends with this process.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Final

from egress.runtime.errors import SpecError, SpecTypeError
from egress.runtime.protocol import Runtime


class DefaultFleet:
    """A fleet, from its first use to the end of the process."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Runtime]]) -> None:
        self._opened = opened
        self._runtime: Runtime | None = None
        self._parts = ExitStack()
        self._lock = threading.Lock()

    def get(self) -> Runtime:
        """Return the fleet; open it at the first use. Raises the error of a failed opening."""
        with self._lock:
            if self._runtime is None:
                self._runtime = self._parts.enter_context(self._opened())
                # Sandboxes of this process must not outlive it, even if no caller closes the fleet.
                atexit.register(self.close)
            return self._runtime

    def close(self) -> None:
        """Close the fleet. A later use opens another one."""
        with self._lock:
            self._runtime = None
            parts, self._parts = self._parts, ExitStack()
            atexit.unregister(self.close)
        parts.close()


def _open_default() -> AbstractContextManager[Runtime]:
    from egress.fleet import open_fleet  # noqa: PLC0415 - it brings much with it

    return open_fleet()


DEFAULT_FLEET: Final = DefaultFleet(_open_default)

_NAMED_FLEETS: Final[dict[str, DefaultFleet]] = {}
_NAMING: Final = threading.Lock()


def find_runtime(asked: Runtime | str | None) -> Runtime:
    """Return the runtime of a call: the given one, the fleet of the named kind, or the default fleet.

    Raises `SpecError` for a value that is neither, and the error of a failed opening.
    """
    if asked is None:
        return DEFAULT_FLEET.get()
    if isinstance(asked, str):
        if not asked:
            raise SpecError("runtime is empty", 'name a kind such as "docker" or "namespace", or omit it')
        with _NAMING:
            fleet = _NAMED_FLEETS.setdefault(asked, DefaultFleet(lambda: _open_named(asked)))
        return fleet.get()
    if not callable(getattr(asked, "spawn", None)):
        raise SpecTypeError(
            f"runtime is of type {type(asked).__name__}, which has no sandboxes",
            'name a kind such as "docker" or "namespace", or omit it',
        )
    return asked


def _open_named(kind: str) -> AbstractContextManager[Runtime]:
    """The fleet that `egress up` serves, if its sandboxes are of this kind; else one of this process."""
    from egress import environment  # noqa: PLC0415 - as below
    from egress.fleet import open_fleet  # noqa: PLC0415 - it brings much with it
    from egress.fleet.folders import SOCKET_NAME  # noqa: PLC0415 - as above
    from egress.fleet.remote import connect_if_served  # noqa: PLC0415 - as above

    # A runtime that is named to `open_fleet` always gets a fleet of its own.
    served = connect_if_served(environment.runtime_dir(environment.read_environment()) / SOCKET_NAME)
    if served is not None and served.about.kind == kind:
        return served
    if served is not None:
        served.close()
    return open_fleet(runtime=kind)
