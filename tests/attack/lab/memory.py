"""How much memory a proxy takes, told by the kernel."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.attack.lab.proxies import Proxy

MOST = 50
"""MiB that one sandbox may cost, whatever it does."""


class Memory:
    """What the process of a proxy takes at most, from here on, more than it has now."""

    def __init__(self, proxy: Proxy) -> None:
        assert proxy.process is not None
        self._path = Path(f"/proc/{proxy.process.pid}")

    def __enter__(self) -> Self:
        # The high-water mark begins anew; where that is not allowed, it is what it was.
        with suppress(OSError):
            (self._path / "clear_refs").write_text("5", encoding="ascii")
        self._before = max(self._read("VmRSS"), self._read("VmHWM"))
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def growth(self) -> int:
        """MiB."""
        return self._read("VmHWM") - self._before

    def _read(self, name: str) -> int:
        text = (self._path / "status").read_text(encoding="ascii", errors="replace")
        found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
        return int(found[1]) // 1024 if found else 0
