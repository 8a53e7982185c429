"""A proxy for the sandboxes of this process alone: a child process that ends with it.

The child is a plain `egress serve` without a listener. It gets the environment of its caller, because secrets
are read from there; sandboxes never see that environment. Its output goes into a file. A proxy that ends is
restarted. Until then sandboxes have no network, and their runtime admits them again afterwards.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from egress.fleet import die_with_parent
from egress.fleet.errors import ProxyFailedError
from egress.fleet.proxy_process import ProxyProcess
from egress.logger import EventLogger

_log = EventLogger(__name__)

SANDBOX_NAME: Final = "egress-embedded"
"""The name of the one sandbox that every proxy needs; no real sandbox uses it."""
LOG_NAME: Final = "proxy.log"
_DRAIN_TIMEOUT: Final = "2s"
_RESTART_DELAYS: Final = (0.1, 5.0)
"""Seconds before a restart: the first delay, and the longest."""
_STEADY_SECONDS: Final = 30.0
"""A proxy that ran this many seconds counts as healthy, and its restart delay begins small again."""
_LISTENER_VARIABLES: Final = frozenset(
    {
        *("EGRESS_LISTEN", "EGRESS_TRANSPARENT", "EGRESS_DNS", "EGRESS_DNS_ANSWER", "EGRESS_NETWORK"),
        *("EGRESS_PASSWORD_FILE", "EGRESS_SANDBOX", "EGRESS_PROFILE", "EGRESS_HANDOVER", "EGRESS_RULES"),
        *("EGRESS_RUNTIME", "EGRESS_RUNTIME_DIR", "EGRESS_DRAIN", "EGRESS_RUN_ID"),
    }
)
"""Variables that configure a listener of the proxy, and variables that this module replaces by options."""


class EmbeddedProxy:
    """A proxy process, from its start to `close`."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        rules: Sequence[Path] = (),
        run: str = "",
        options: Sequence[str] = (),
        held: bool = False,
    ) -> None:
        """Start the proxy, and return when it serves. Raises `ProxyFailedError` with its output otherwise.

        `folder` holds its sockets and its log; it belongs to this user and to this proxy alone. `run` is the
        id that lines of the audit log name, also those of a proxy that takes the place of one that ended. A
        proxy that is `held` only loads until `release`, and leaves no trace if it is closed before.
        """
        self.folder = folder
        self.log = folder / LOG_NAME
        self._environ = {name: value for name, value in environ.items() if name not in _LISTENER_VARIABLES}
        self._words = _proxy_command(folder, rules or _rules_of(environ), run, options)
        self._closing = threading.Event()
        self._released = threading.Event()
        self._started = threading.Event()
        self._process: ProxyProcess | None = None
        self._failure: ProxyFailedError | None = None
        self._lock = threading.Lock()
        # A thread that lives long: the kernel ends the proxy when the thread that started it ends.
        self._supervisor = threading.Thread(target=self._run, name="egress-proxy", daemon=True)
        self._supervisor.start()
        if not held:
            self.release()

    def release(self) -> None:
        """Let a held proxy open its sockets and its log, and return when it serves.

        Raises `ProxyFailedError`.
        """
        self._released.set()
        self._started.wait()
        self.check()

    @property
    def pid(self) -> int | None:
        """The process id of the newest proxy; None before the first."""
        process = self._process
        return None if process is None else process.pid

    def check(self) -> None:
        """Raise `ProxyFailedError` if the proxy ended and cannot be restarted."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End the proxy, and wait until it has ended."""
        with self._lock:
            self._closing.set()
            process = self._process
            if process is not None:
                process.terminate()
        self._released.set()
        self._supervisor.join()

    # The supervising thread

    def _run(self) -> None:
        delay, max_delay = _RESTART_DELAYS
        while not self._closing.is_set():
            begun = time.monotonic()
            try:
                process = self._start()
            except (ProxyFailedError, OSError) as error:
                self._fail(error)
                return
            if process is None:
                return
            self._started.set()
            process.wait_until_ended(self._closing.is_set)
            if self._closing.is_set():
                return
            is_steady = time.monotonic() - begun > _STEADY_SECONDS
            delay = _RESTART_DELAYS[0] if is_steady else min(delay * 2, max_delay)
            _log.warning("proxy.ended", again_in=delay, hint=f"its log: {self.log}")
            self._closing.wait(delay)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, ProxyFailedError):
            error = ProxyFailedError(f"cannot start the proxy: {error}", "check that Python runs here")
        if self._started.is_set():
            _log.error("proxy.failed", cause=error.message, hint=error.hint)
        self._failure = error
        self._started.set()

    def _start(self) -> ProxyProcess | None:
        """Start a proxy, and return it when it serves; None if this is closed meanwhile."""
        with self._lock:
            # Under the lock, so that `close` either prevents this start or sees the new process and ends it.
            if self._closing.is_set():
                return None
            self._process = process = ProxyProcess(self._words, self._environ, self.log)
        self._released.wait()
        if self._closing.is_set():
            process.wait_until_ended(self._closing.is_set)
            return None
        process.release()
        try:
            process.wait_until_serving()
        except ProxyFailedError:
            if self._closing.is_set():
                return None
            raise
        return process


def _proxy_command(folder: Path, rules: Sequence[Path | str], run: str, options: Sequence[str]) -> list[str]:
    # -P and -I keep modules in the working directory from being imported: a sandbox may have written them.
    own = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
    serve = [sys.executable, "-P", "-m", "egress", "serve", "--held", "--listen", "none", "--handover"]
    named = [word for path in rules for word in ("--rules", str(path))]
    told = ["--run-id", run] if run else []
    return [
        *own,
        *serve,
        *("--sandbox", SANDBOX_NAME, "--runtime-dir", str(folder), "--drain", _DRAIN_TIMEOUT),
        *named,
        *told,
        *options,
    ]


def _rules_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for part in environ.get("EGRESS_RULES", "").split(":") if part)
