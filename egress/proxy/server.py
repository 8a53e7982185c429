"""The life of a proxy: start, run, reload, drain, stop.

Order of a start, each step only after the one before: the control socket (which also keeps a second proxy
out), the audit log, the authority and everything behind the door, the listeners. Only then it is ready.

Order of a stop: take nothing new, let requests under way come to their end for a bounded time, close what
is left, write the last line. A second signal ends the waiting.

What runs beside the connections must never end by itself: if it does, the proxy stops, because a proxy that
no longer records or reloads is not the one that was started.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

import structlog

from egress import __version__
from egress.audit.sink import Sink
from egress.errors import EgressError
from egress.policy.chosen import Chosen, read_chosen
from egress.policy.files import find_rule_files
from egress.policy.text import shown
from egress.policy.trust import Trust
from egress.proxy import logs
from egress.proxy.clock import Clock
from egress.proxy.control import Control, Reply
from egress.proxy.service import Service
from egress.proxy.settings import Listen, Settings
from egress.proxy.watch import changes
from egress.proxy.wiring import Parts, listener, open_audit, password_of, wire
from egress.proxy.withdraw import Withdrawals
from egress.rules.load import Loaded
from egress.rules.policy import Policy
from egress.scrub import Needles
from egress.secrets import Captured

_log = structlog.get_logger(__name__)

FLUSH = 0.2
"""Seconds between two writes of the audit log."""
TICK = 1.0
_POLL = 0.05
_GRACE = 2.0
"""Seconds for connections that were closed to be recorded."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a proxy is started with."""

    values: Settings
    chosen: Chosen
    trust: Trust
    policy: Policy
    captured: Captured


@dataclass(frozen=True, slots=True)
class Ready:
    """What a user needs to know once it serves."""

    addresses: tuple[Listen, ...]
    control: Path
    placeholders: tuple[tuple[str, str], ...]
    """The stand-ins of the sandbox: secret and value."""


class Server:
    """One proxy, run once."""

    def __init__(self, start: Start, clock: Clock) -> None:
        self._start = start
        self._clock = clock
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._reason = "asked"
        self._exit = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: tuple[Listen, ...] = start.values.listen
        self._password = b""

    async def run(self, announce: Callable[[Ready], None]) -> int:
        """Run until it is told to stop; return the exit status. Raises `EgressError` when it cannot start."""
        values = self._start.values
        self._password = password_of(values.password_file)
        none = Needles({})
        logs.set_up(values.log_level, values.log_format, self._clock, lambda: none)
        control = Control(values.runtime_dir, self._routes_of_start())
        await control.open()
        try:
            audit = open_audit(values, self._clock)
            try:
                parts = wire(values, self._start.policy, self._start.captured, audit, self._clock)
                logs.set_up(
                    values.log_level, values.log_format, self._clock, parts.engine.secrets.all_needles
                )
                await self._serve(parts, control, announce)
            finally:
                await self._end_tasks()
                audit.event("stopped", reason=self._reason)
                audit.close()
        finally:
            await control.close()
        return self._exit

    def stop(self, reason: str) -> None:
        """Begin to stop; a second time, stop now."""
        if self._stopping.is_set():
            self._hurry.set()
        else:
            self._reason = reason
            self._stopping.set()

    # Serving

    async def _serve(self, parts: Parts, control: Control, announce: Callable[[Ready], None]) -> None:
        withdrawals = Withdrawals(parts.engine, lambda name: self._shut(parts, service, name),
                                  lambda name: self._reopen(parts, service, name))
        service = Service(parts.engine, parts.door, withdrawals, self._files, self._read, self.stop)
        self._signals(service)
        try:
            await self._listen(parts, service)
            control.routes = service.routes()
            parts.engine.audit.event("started", version=__version__, policy=parts.engine.policy.digest,
                                     files=", ".join(self._files()))
            self._beside(self._ticking(parts))
            self._beside(self._watching(service))
            service.say_lacking()
            announce(self._ready(parts, control))
            await service.warm()
            await self._stopping.wait()
            _log.info("stopping", reason=self._reason)
        finally:
            self._no_signals()
            await self._drain(parts)
            await parts.engine.secrets.close()
