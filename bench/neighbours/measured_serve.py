"""`egress serve`, measured: the processor time that the event loop takes between two looks at its sockets.

Started like `egress`. At SIGUSR1 it begins anew; at SIGUSR2 it writes what it has seen since, as JSON, to the
file that `EGRESS_BENCH_STEPS` names. Processor time does not count what other processes take.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import sys
import time
from pathlib import Path

from egress.cli.main import main
from egress.proxy.event_loop import FairSelector

_select = FairSelector.select


class Steps:
    """The steps of the loop, and the longest pause of the garbage collector."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self._began = time.monotonic()
        self._since = time.thread_time()
        self._pause_began = 0.0
        self._pause = 0.0

    def select(
        self, selector: FairSelector, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """End a step, and begin the next one behind the selection."""
        self.steps.append(time.thread_time() - self._since)
        found = _select(selector, timeout)
        self._since = time.thread_time()
        return found

    def collected(self, phase: str, _: object) -> None:
        if phase == "start":
            self._pause_began = time.thread_time()
        else:
            self._pause = max(self._pause, time.thread_time() - self._pause_began)

    def begin(self, *_: object) -> None:
        self.steps.clear()
        self._began = time.monotonic()
        self._pause = 0.0

    def tell(self, *_: object) -> None:
        ordered = sorted(self.steps) or [0.0]
        found = {
            "rounds": len(ordered),
            "p999_ms": ordered[len(ordered) * 999 // 1000] * 1e3,
            "longest_ms": ordered[-1] * 1e3,
            "busy_s": sum(ordered),
            "elapsed_s": time.monotonic() - self._began,
            "collector_ms": self._pause * 1e3,
        }
        place = Path(os.environ["EGRESS_BENCH_STEPS"])
        part = place.with_suffix(".part")
        part.write_text(json.dumps(found), encoding="ascii")
        part.rename(place)


if __name__ == "__main__":
    steps = Steps()
    FairSelector.select = lambda selector, timeout=None: steps.select(selector, timeout)  # type: ignore[assignment]
    gc.callbacks.append(steps.collected)
    signal.signal(signal.SIGUSR1, steps.begin)
    signal.signal(signal.SIGUSR2, steps.tell)
    sys.exit(main())
