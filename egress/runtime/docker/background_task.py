"""A call that runs in a thread beside its caller, while both wait for the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundTask:
    """A call that runs in a thread; `result` waits for it."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="egress-aside", daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def result(self) -> None:
        """Wait for the end. Raises the call's exception."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._failure = error
