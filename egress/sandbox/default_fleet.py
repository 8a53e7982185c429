"""The default fleet: opened at its first use, once per process.

It connects to `egress up` if that runs; otherwise it opens a fleet that ends with this process.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Final

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
