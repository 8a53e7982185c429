"""A proxy for the sandboxes of this process alone: a child process that ends with it.

The child is a plain `egress serve` without a listener. It gets the environment of its caller, because secrets
are read from there; sandboxes never see that environment. Its output goes into a file. A proxy that ends is
restarted. Until then sandboxes have no network, and their runtime admits them again afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final

from egress.fleet import control_client, die_with_parent
from egress.fleet.errors import ProxyFailedError
from egress.logger import EventLogger
from egress.runtime.errors import GatewayError

_log = EventLogger(__name__)

SANDBOX_NAME: Final = "egress-embedded"
"""The name of the one sandbox that every proxy needs; no real sandbox uses it."""
LOG_NAME: Final = "proxy.log"
_DRAIN_TIMEOUT: Final = "2s"
_START_TIMEOUT: Final = 60.0
"""Seconds that a start may take."""
_STOP_TIMEOUT: Final = 15.0
"""Seconds that a stop may take before the proxy is killed."""
_POLL_INTERVAL: Final = 0.02
_RESTART_DELAYS: Final = (0.1, 5.0)
"""Seconds before a restart: the first delay, and the longest."""
_STEADY_SECONDS: Final = 30.0
"""A proxy that ran this many seconds counts as healthy, and its restart delay begins small again."""
_MAX_LINE_LENGTH: Final = 300
_WAIT_INTERVAL: Final = 0.5
_MAX_LOG_BYTES: Final = 64 * 1024
_MAX_FINDINGS: Final = 20
_EXPLAINED_STATUSES: Final = (1, 2, 3)
"""Exit statuses for which the proxy prints the cause."""
_LISTENER_VARIABLES: Final = frozenset(
    {
        *("EGRESS_LISTEN", "EGRESS_TRANSPARENT", "EGRESS_DNS", "EGRESS_DNS_ANSWER", "EGRESS_NETWORK"),
        *("EGRESS_PASSWORD_FILE", "EGRESS_SANDBOX", "EGRESS_PROFILE", "EGRESS_HANDOVER", "EGRESS_RULES"),
        *("EGRESS_RUNTIME", "EGRESS_RUNTIME_DIR", "EGRESS_DRAIN", "EGRESS_AUDIT_DIR"),
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
        audit: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """Start the proxy, and return when it serves. Raises `ProxyFailedError` with its output otherwise.

        `folder` holds its sockets and its log; it belongs to this user and to this proxy alone.
        """
        self.folder = folder
        self.log = folder / LOG_NAME
        self._environ = {name: value for name, value in environ.items() if name not in _LISTENER_VARIABLES}
        self._words = _proxy_command(folder, rules or _rules_of(environ), audit, options)
        self._closing = threading.Event()
        self._started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: ProxyFailedError | None = None
        self._lock = threading.Lock()
        # A thread that lives long: the kernel ends the proxy when the thread that started it ends.
        self._supervisor = threading.Thread(target=self._run, name="egress-proxy", daemon=True)
        self._supervisor.start()
        self._started.wait()
        self.check()

    @property
    def pid(self) -> int | None:
        """The process id of the running proxy; None between two runs."""
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
        self._supervisor.join()

    # The supervising thread

    def _run(self) -> None:
        delay, max_delay = _RESTART_DELAYS
        while not self._closing.is_set():
            begun = time.monotonic()
            try:
                self._start()
            except (ProxyFailedError, OSError) as error:
                self._fail(error)
                return
            self._started.set()
            self._until_ended()
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

    def _start(self) -> None:
        with self._lock:
            # Under the lock, so that `close` either prevents this start or sees the new process and ends it.
            if self._closing.is_set():
                return
            with self.log.open("ab") as log:
                begun = log.tell()
                self._process = process = subprocess.Popen(
                    self._words,
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    # Ctrl-C goes to the caller, which has to remove the sandboxes before the proxy ends.
                    process_group=0,
                )
        # Readiness is polled: the proxy announces nothing, and its exit has to be noticed meanwhile.
        end = time.monotonic() + _START_TIMEOUT
        while not self._is_ready():
            if process.poll() is not None:
                if self._closing.is_set():
                    return
                raise self._start_error(begun, process.returncode)
            if time.monotonic() > end:
                process.kill()
                process.wait()
                raise ProxyFailedError(
                    f"the proxy was not ready within {_START_TIMEOUT:.0f}s",
                    "check the load of this machine",
                )
            time.sleep(_POLL_INTERVAL)

    def _until_ended(self) -> None:
        process = self._process
        if process is None:
            return
        while not self._closing.is_set():
            with suppress(subprocess.TimeoutExpired):
                process.wait(_WAIT_INTERVAL)
                return
        # `close` has sent SIGTERM; the proxy drains connections, and is killed only if that takes too long.
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _is_ready(self) -> bool:
        try:
            return control_client.ask(self.folder, "/readyz").status == HTTPStatus.OK
        except GatewayError:
            return False

    def _start_error(self, begun: int, status: int) -> ProxyFailedError:
        """Turn the output of a proxy that did not start into an error."""
        with self.log.open("rb") as log:
            log.seek(begun)
            lines = log.read(_MAX_LOG_BYTES).decode("utf-8", "replace").splitlines()
        message = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), "")
        hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), "")
        found = [line for line in lines if line.strip() and not line.startswith(("error: ", "hint: ", "{"))]
        if not message:
            last = found[-1][:_MAX_LINE_LENGTH] if found else "no output"
            return ProxyFailedError("the proxy exited during its start", f"its last line: {last}")
        if status not in _EXPLAINED_STATUSES:
            status = ProxyFailedError.exit_status
        return ProxyFailedError("\n".join([message, *found[:_MAX_FINDINGS]]), hint, status=status)


def _proxy_command(
    folder: Path, rules: Sequence[Path | str], audit: Path | None, options: Sequence[str]
) -> list[str]:
    # -P and -I keep modules in the working directory from being imported: a sandbox may have written them.
    own = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
    serve = [sys.executable, "-P", "-m", "egress", "serve", "--listen", "none", "--handover"]
    named = [word for path in rules for word in ("--rules", str(path))]
    placed = [] if audit is None else ["--audit-dir", str(audit)]
    return [
        *own,
        *serve,
        *("--sandbox", SANDBOX_NAME, "--runtime-dir", str(folder), "--drain", _DRAIN_TIMEOUT),
        *named,
        *placed,
        *options,
    ]


def _rules_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for part in environ.get("EGRESS_RULES", "").split(":") if part)
