"""The fleet that is used where none was named: opened when it is first needed, one for a whole process.

It is the one that `egress up` serves, if there is one; else one of this process alone, which ends with it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Final

from egress.runtime.protocol import Runtime


class DefaultFleet:
    """One fleet, from the first who needs it to the end of the process."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Runtime]]) -> None:
        self._opened = opened
        self._runtime: Runtime | None = None
        self._parts = ExitStack()
        self._lock = threading.Lock()

    def get(self) -> Runtime:
        """Return it; opens it the first time. Raises what keeps it from being opened."""
        with self._lock:
            if self._runtime is None:
                self._runtime = self._parts.enter_context(self._opened())
                atexit.register(self.close)
            return self._runtime

    def close(self) -> None:
        """End it. Whoever needs it after that opens another one."""
        with self._lock:
            self._runtime = None
            parts, self._parts = self._parts, ExitStack()
            atexit.unregister(self.close)
        parts.close()


def _open_default() -> AbstractContextManager[Runtime]:
    from egress.fleet import open_fleet  # noqa: PLC0415 - it brings much with it

    return open_fleet()


DEFAULT_FLEET: Final = DefaultFleet(_open_default)
