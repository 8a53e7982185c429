"""The authority in a file that a cluster mounts, read again when it changes: a renewal needs no restart.

A cluster replaces such a file as a whole. A new version that cannot be used changes nothing: the authority
that signs goes on, and that is logged. An authority that has expired is replaced by the other one of its
file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from egress.ca.authority import Authority
from egress.errors import EgressError
from egress.proxy.lanes.engine import ProxyEngine, ServedSandbox
from egress.proxy.settings import Settings

POLL_INTERVAL: Final = 2.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class MountedAuthority:
    """The file, and the sandboxes whose certificates its authority signs."""

    path: Path
    sandboxes: Callable[[], Iterable[ServedSandbox]]
    now: Callable[[], int]
    current: Authority
    _seen: tuple[int, ...] = field(default=(), init=False)

    async def run(self) -> None:
        """Follow the file until the task is cancelled."""
        while True:
            # The first look reads the file, too: it may have changed since the proxy read it to start.
            await asyncio.sleep(POLL_INTERVAL)
            seen = self._fingerprint()
            if seen != self._seen or not self.current.is_valid_at(self.now()):
                self._read(is_new=seen != self._seen)
                self._seen = seen

    def _fingerprint(self) -> tuple[int, ...]:
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self, *, is_new: bool) -> None:
        try:
            found = Authority.load_mounted(self.path, self.now())
        except EgressError as error:
            # Said once for each version of the file.
            if is_new:
                _log.error(
                    "authority.refused", cause=error.message, hint=error.hint, kept=self.current.fingerprint
                )
            return
        if found.fingerprint == self.current.fingerprint:
            return
        self.current = found
        # Connections go on: a certificate is for a handshake, and theirs is over.
        for each in self.sandboxes():
            each.authority = found
        _log.info("authority.changed", fingerprint=found.fingerprint)


def follow_authority(values: Settings, engine: ProxyEngine) -> list[Coroutine[None, None, None]]:
    """Return what follows the file of the settings; nothing if they name none."""
    if values.authority_file is None:
        return []
    current = engine.sandboxes[values.sandbox].authority
    mounted = MountedAuthority(
        values.authority_file, lambda: list(engine.sandboxes.values()), engine.clock.now, current
    )
    return [mounted.run()]
