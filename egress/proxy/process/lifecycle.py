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
import ctypes
import gc
import itertools
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

import structlog

from egress import __version__
from egress.audit import Sink
from egress.control_client import CONTROL_SOCKET, HANDOVER_SOCKET
from egress.policy.profile_check import refuse_without_profiles
from egress.proxy.clock import Clock
from egress.proxy.control import rule_warnings
from egress.proxy.control.dynamic_sandboxes import DynamicSandboxes
from egress.proxy.control.kept_revocations import KeptRevocations
from egress.proxy.control.metrics_listener import MetricsListener
from egress.proxy.control.ready_listener import ReadyListener
from egress.proxy.control.server import Body, ControlReply, ControlServer, RouteHandler, Routes
from egress.proxy.control.service import ControlService, ProcessHooks
from egress.proxy.ingress.configured_listeners import GATE_PORTS, ConfiguredListeners, ports_of
from egress.proxy.ingress.listener_handover import HandoverServer, HandoverTarget
from egress.proxy.lanes.engine import ProxyEngine
from egress.proxy.process import logs
from egress.proxy.process.mounted_authority import follow_authority
from egress.proxy.process.start_values import ReadyReport, StartValues
from egress.proxy.process.telemetry_start import start_telemetry
from egress.proxy.process.wiring import ProxyParts, metrics_guard, open_audit, open_proxy, password_of
from egress.proxy.settings import Settings, unknown_variables
from egress.rules.compile.load import LoadResult
from egress.rules.decide.decision import prepare_routes
from egress.scrub import Needles

if TYPE_CHECKING:
    from egress.proxy.pods.replica_watch import ReplicaWatch

_log = structlog.get_logger(__name__)

FLUSH_INTERVAL = 0.2
"""Seconds between two writes of the audit log."""
TICK_INTERVAL = 1.0
RECHECK_TICKS = 3
"""Ticks between two looks at whether what is open may still be: rules expire."""
TRIM_TICKS = 60
"""Ticks between two times that freed memory is given back."""
NEWEST_LINE_TICKS = 3600
"""Ticks between two times that a gateway says how far its audit log goes."""
COLLECTOR_THRESHOLDS = (700, 3, 50)
"""Objects, and collections of the younger ones, after which garbage is collected: often, and little each
time. With Python's defaults a few hundred connections stop the loop for ten milliseconds, once a second."""
SWITCH_SECONDS = 0.0005
"""Instead of 5 ms: the loop waits for the interpreter several times in each request."""
_WARM_UP_TIMEOUT = 1.0
"""Seconds that the word to be ready waits for sources of secrets; it serves by then."""
_POLL_INTERVAL = 0.05
_LEAVE_SECONDS = 5.0
"""Seconds that a cluster has at least to lead clients elsewhere."""
_LAST_SECONDS = 10.0
_CLOSE_TIMEOUT = 2.0
"""Seconds for connections that were closed to be recorded."""

OnWaiting = Callable[[int, int, bool], None]
"""Called with the connections waited for, the seconds to wait, and whether Ctrl-C began the stop."""


class ProxyServer:
    """A proxy, run once."""

    def __init__(self, start: StartValues, clock: Clock) -> None:
        self._start = start
        # Rules that were found count like rules that were named: hints name them.
        self._values = start.effective.values.model_copy(update={"rules": start.rules.paths})
        self._clock = clock
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._reason = "error"
        self._status = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, announce: Callable[[ReadyReport], None], waiting: OnWaiting) -> int:
        """Run until it is told to stop; return the exit status. Raises `EgressError` when it cannot start.

        `announce` is called once it serves; `waiting` when it stops and something is still under way.
        """
        self._waiting = waiting
        values, routes = self._values, dict(_STARTING_ROUTES)
        nothing = Needles({})
        logs.set_up_logging(values.log_level, values.log_format, self._clock, lambda: nothing)
        password = password_of(values.password_file)
        # Before anything is open: a proxy that cannot export as it was asked to does not start.
        telemetry = start_telemetry(values, self._start.captured.environ, self._clock)
        control = ControlServer(values.runtime_dir, routes, self._option_of_runtime_dir())
        await control.open()
        try:
            audit = open_audit(values, self._clock, telemetry)
            try:
                parts = await open_proxy(values, self._start.policy, self._start.captured, audit, self._clock)
                parts.engine.telemetry = telemetry
                await self._serve(parts, self._listening(parts, password), routes, announce)
            finally:
                audit.close()
                if self._values.kubernetes:
                    log_newest_line(audit)
        finally:
            await control.close()
            # After the last line. A collector that hangs holds the end up for a moment, and no longer.
            if telemetry is not None:
                telemetry.close()
        _log.info("proxy.stopped", reason=self._reason, status=self._status)
        return self._status

    def stop(self, reason: str) -> None:
        """Begin to stop; when it is stopping already, stop now."""
        if self._stopping.is_set():
            self._hurry.set()
        else:
            self._reason = reason
            self._stopping.set()

    # Serving

    async def _serve(
        self,
        parts: ProxyParts,
        listening: ConfiguredListeners,
        routes: dict[tuple[str, str], RouteHandler],
        announce: Callable[[ReadyReport], None],
    ) -> None:
        values, engine, start = self._values, parts.engine, self._start
        folding = logs.set_up_logging(
            values.log_level, values.log_format, self._clock, engine.secrets.all_needles
        )
        sandboxes = self._sandboxes(parts) if values.handover else None
        process = ProcessHooks(
            start.rules.files, lambda: self._read(engine), self.stop, lambda: self._remark(engine)
        )
        kept = KeptRevocations(values.state_dir)
        service = ControlService(
            engine, parts.door, listening, process, sandboxes, kept, parts.pods, parts.tickets
        )
        handover = None if sandboxes is None else self._handover(sandboxes)
        scraped = self._scraped(parts, service, sandboxes)
        replicas = self._replicas(parts)
        told = _readiness(values, service, replicas)
        prepare_routes(engine.policy)
        settle_interpreter()
        try:
            # Recorded before anything can be asked for.
            engine.audit.event(
                "started",
                version=__version__,
                policy=engine.policy.digest,
                files=", ".join(start.rules.files()),
                chains=engine.audit.chains,
            )
            service.record_kept()
            await listening.open()
            if handover is not None:
                handover.open()
            # After the listeners of sandboxes, by which its guard knows them.
            if scraped is not None:
                scraped.open()
            # Last: whoever asks it is told that all of the above is there.
            if told is not None:
                told.open()
            routes.update(service.routes())
            self._watch_signals(service)
            for forever in (
                self._flushing(engine),
                self._ticking(parts, service, folding),
                self._watching(service),
                *_watches_of_cluster(parts),
                *(() if replicas is None else (replicas.run(),)),
                *follow_authority(values, engine),
            ):
                self._keep(forever)
            self._say_started(engine)
            self._remark(engine)
            # The log names secrets that are not resolved by then.
            await asyncio.wait([self._beside(service.warm())], timeout=_WARM_UP_TIMEOUT)
            ready = self._ready(parts, listening, scraped)
            self._say_ready(ready, told)
            announce(ready)
            await self._stopping.wait()
            _log.info("proxy.stopping", reason=self._reason, connections=len(engine.live))
            if parts.pods is not None:
                await self._leave(engine)
        finally:
            if handover is not None:
                await handover.close()
            await self._drain(parts)
            for listener in (scraped, told):
                if listener is not None:
                    await listener.close()
            await engine.secrets.close()
            await engine.handlers.close()
            await _end_all_tasks()
            engine.audit.event("stopped", reason=self._reason)

    # What it is made of

    def _listening(self, parts: ProxyParts, password: bytes) -> ConfiguredListeners:
        def ports() -> frozenset[int]:
            return ports_of(parts.engine.policy)

        gates = GATE_PORTS if self._values.kubernetes else ()
        return ConfiguredListeners(parts.door, parts.names, self._values, password, ports, gates)

    def _sandboxes(self, parts: ProxyParts) -> DynamicSandboxes:
        return DynamicSandboxes(
            parts.engine, parts.door, parts.names, parts.full.tls, constrain=self._values.ca_constrain
        )

    def _handover(self, sandboxes: DynamicSandboxes) -> HandoverServer:
        adoption = HandoverTarget(sandboxes, sandboxes.adopt, sandboxes.release)
        return HandoverServer(self._values.runtime_dir / HANDOVER_SOCKET, adoption)

    def _scraped(
        self, parts: ProxyParts, service: ControlService, sandboxes: DynamicSandboxes | None
    ) -> MetricsListener | None:
        """Return the listener for Prometheus, if the settings name one."""
        at = self._values.metrics
        if at is None:
            return None
        guard = metrics_guard(self._values, parts, sandboxes)
        return MetricsListener(at, guard, service.metrics_text, self._clock.monotonic)

    def _replicas(self, parts: ProxyParts) -> ReplicaWatch | None:
        """Return the comparison with the other replicas, if there can be any and this one tells its state."""
        values, rules = self._values, self._start.rules
        if parts.pods is None or values.ready is None:
            return None
        return parts.pods.compare(parts.engine, values.ready, values.replica_lag, lambda: rules.version)

    # What is said

    def _remark(self, engine: ProxyEngine) -> None:
        rule_warnings.log_rule_warnings(engine, self._values)

    def _say_started(self, engine: ProxyEngine) -> None:
        rows = self._start.effective.rows()
        given = [f"{name} {value} ({origin})" for name, value, origin in rows if origin != "default"]
        _log.info(
            "proxy.started",
            version=__version__,
            policy=engine.policy.digest[:12],
            rules=self._start.rules.names,
            settings=", ".join(given),
        )
        for name, meant in unknown_variables(self._start.captured.environ):
            hint = {"hint": f"did you mean {meant}?"} if meant else {}
            _log.warning(
                "setting.unknown", variable=name, cause="this is not a setting, and has no effect", **hint
            )
        rule_warnings.log_findings(self._start.findings)

    def _say_ready(self, ready: ReadyReport, told: ReadyListener | None) -> None:
        places = {
            "proxy": ready.addresses,
            "transparent": ready.transparent,
            "dns": ready.names,
            "handover": () if ready.handover is None else (ready.handover,),
            "metrics": () if ready.metrics is None else (ready.metrics,),
            "ready": () if told is None else (told.at,),
        }
        said = {name: ", ".join(map(str, listed)) for name, listed in places.items() if listed}
        _log.info("proxy.ready", **said)

    def _ready(
        self, parts: ProxyParts, listening: ConfiguredListeners, scraped: MetricsListener | None
    ) -> ReadyReport:
        engine, name = parts.engine, self._values.sandbox
        stand_ins = engine.sandboxes[name].placeholders(engine.policy).all
        return ReadyReport(
            listening.addresses.get(name, ()),
            self._values.runtime_dir / CONTROL_SOCKET,
            tuple((each.secret, each.value) for each in stand_ins),
            listening.transparent,
            listening.names,
            self._values.runtime_dir / HANDOVER_SOCKET if self._values.handover else None,
            None if scraped is None else scraped.at,
            engine.secrets.unavailable(
                engine.policy.secrets.values(), rule_warnings.unscrubbed_secrets(engine.policy)
            ),
        )

    def _read(self, engine: ProxyEngine) -> LoadResult:
        loaded = self._start.rules.read(self._clock.now())
        in_use = [sandbox.identity.profile for sandbox in list(engine.sandboxes.values())]
        return refuse_without_profiles(loaded, in_use, self._start.rules.files()[0])

    def _option_of_runtime_dir(self) -> str:
        """Return the option that moves the runtime folder: its own, or that of the state folder around it."""
        values, origin = self._values, self._start.effective.origins["runtime_dir"]
        follows = origin == "default" and values.runtime_dir.is_relative_to(values.state_dir)
        return "--state-dir" if follows else "--runtime-dir"

    # Beside the connections

    def _beside(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        """Run what never ends by itself; if it does, stop the proxy."""

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                return
            _log.error("proxy.broken", exc_info=task.exception())
            self._status = 1
            self.stop("internal")

        self._beside(work).add_done_callback(ended)

    async def _flushing(self, engine: ProxyEngine) -> None:
        while True:
            engine.audit.flush()
            if not engine.audit.trouble:
                engine.metrics.flushed = self._clock.monotonic()
            await asyncio.sleep(FLUSH_INTERVAL)

    async def _ticking(self, parts: ProxyParts, service: ControlService, folding: logs.LogThrottle) -> None:
        monotonic = self._clock.monotonic
        for number in itertools.count(1):
            due = monotonic() + TICK_INTERVAL
            await asyncio.sleep(TICK_INTERVAL)
            parts.engine.metrics.loop_lag.add(max(0.0, monotonic() - due))
            folding.report_folded()
            tick(parts, number)
            service.policies.expire()
            service.expire_tickets()
            if parts.engine.telemetry is not None:
                parts.engine.telemetry.tick(service.metric_families)

    async def _watching(self, service: ControlService) -> None:
        await self._start.rules.follow(service.reload)

    def _watch_signals(self, service: ControlService) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number.name)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._beside(self._reload_by_signal(service)))

    async def _reload_by_signal(self, service: ControlService) -> None:
        await service.reload("SIGHUP")

    # Stopping

    async def _leave(self, engine: ProxyEngine) -> None:
        """Serve on for a while, not ready any more: a cluster needs time to lead clients elsewhere.

        Every answer ends its connection. Tunnels and streams go on.
        """
        began, seconds = self._clock.monotonic(), self._values.drain - self._last_seconds
        engine.leave()
        while (waited := self._clock.monotonic() - began) < seconds and not self._hurry.is_set():
            if not len(engine.live) and waited >= _LEAVE_SECONDS:
                return
            await asyncio.sleep(_POLL_INTERVAL)

    @property
    def _last_seconds(self) -> float:
        """Of the time to drain: the part in which nobody is let in any more."""
        if not self._values.kubernetes:
            return self._values.drain
        return min(_LAST_SECONDS, self._values.drain / 2)

    async def _drain(self, parts: ProxyParts) -> None:
        engine = parts.engine
        engine.stopping = True
        await parts.door.close()
        await parts.names.close()
        for carried in engine.live:
            carried.drain()
        # Idle connections close at once, and need no waiting.
        await self._until_empty(engine, _POLL_INTERVAL)
        if len(engine.live):
            self._say_waiting(len(engine.live))
        await self._until_empty(engine, self._last_seconds, self._hurry)
        if len(engine.live):
            _log.warning("proxy.cut", connections=len(engine.live))
        for carried in engine.live:
            carried.close("proxy.stopping")
        await self._until_empty(engine, _CLOSE_TIMEOUT)

    def _say_waiting(self, connections: int) -> None:
        seconds, by_key = round(self._last_seconds), self._reason == signal.SIGINT.name
        _log.info("proxy.waiting", connections=connections, seconds=seconds, hint="a second signal ends it")
        self._waiting(connections, seconds, by_key)

    async def _until_empty(
        self, engine: ProxyEngine, seconds: float, sooner: asyncio.Event | None = None
    ) -> None:
        end = self._clock.monotonic() + seconds
        while len(engine.live) and self._clock.monotonic() < end:
            if sooner is not None and sooner.is_set():
                return
            await asyncio.sleep(_POLL_INTERVAL)


def tick(parts: ProxyParts, number: int) -> None:
    """Do the work of each second: the log, limits, time-outs, and now and then expired entries."""
    parts.engine.audit.tick()
    parts.engine.counts.forget_idle()
    parts.full.tick()
    if number % RECHECK_TICKS == 0:
        # The rules are the same; the time is not.
        parts.engine.recheck_in_turns()
    if number % TRIM_TICKS == 0:
        trim_heap()
    if parts.pods is not None and number % NEWEST_LINE_TICKS == 1:
        log_newest_line(parts.engine.audit)


def log_newest_line(audit: Sink) -> None:
    """Say how far the audit log goes, where its volume is not: a log that is put back verifies otherwise."""
    _log.info("audit.newest", line=audit.newest, mac=audit.newest_mac.hex())


def _watches_of_cluster(parts: ProxyParts) -> list[Coroutine[None, None, None]]:
    if parts.pods is None:
        return []
    return [*(watch.run() for watch in parts.pods.watches(_log_lost_watch)), parts.pods.events.run()]


def _log_lost_watch(cause: str) -> None:
    _log.warning("cluster.unknown", cause=cause)


def _readiness(
    values: Settings, service: ControlService, replicas: ReplicaWatch | None
) -> ReadyListener | None:
    if values.ready is None:
        return None
    if replicas is None:
        return ReadyListener(values.ready, service.problems)
    return ReadyListener(
        values.ready, service.problems, lambda: replicas.report(ready=not service.problems())
    )


async def _end_all_tasks() -> None:
    """End whatever still runs, so that nothing is recorded behind the last line."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _alive(_: Body) -> ControlReply:
    return ControlReply(200, {"status": "alive", "version": __version__})


async def _starting(_: Body) -> ControlReply:
    return ControlReply(503, {"ready": False, "problems": ["it is starting"]})


_STARTING_ROUTES: Routes = {("GET", "/healthz"): _alive, ("GET", "/readyz"): _starting}


def settle_interpreter() -> None:
    """Keep what the interpreter does by itself from stopping the event loop for long."""
    # All that lives until the end is not searched for garbage again.
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    # A thread that computes, such as a reload, holds the interpreter for so long before the loop goes on.
    sys.setswitchinterval(SWITCH_SECONDS)


# Memory that was freed, given back to the system.
#
# OpenSSL and the parsers take pieces of every size for each connection, and free them. The C library keeps
# what
# lies between pieces that are still in use, so a process that serves many connections grows for a long time,
# though it uses no more than before. glibc can be asked for it; other libraries give it back by themselves.
def trim_heap() -> None:
    """Return whole pages in which nothing is; takes about a millisecond for 50 MB."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
