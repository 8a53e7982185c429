"""A proxy for the sandboxes of this process alone: a child that ends with it, and not before.

It is `egress serve` as anybody runs it, with no listener of its own. It gets the environment of its
caller, which secrets are read from; sandboxes never do. What it says goes into a file. When it ends it is
begun again. Meanwhile sandboxes have no network: whoever keeps them has them admitted again when it is back.
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

import structlog

from egress.fleet import control_client, die_with_parent
from egress.fleet.errors import ProxyFailedError
from egress.runtime.errors import GatewayError

_log = structlog.get_logger(__name__)

SANDBOX_NAME: Final = "egress-embedded"
"""The name of the sandbox that every proxy has; nobody is in this one."""
LOG_NAME: Final = "proxy.log"
_DRAIN_TIMEOUT: Final = "2s"
_START_TIMEOUT: Final = 60.0
"""Seconds for a start."""
_STOP_TIMEOUT: Final = 15.0
"""Seconds for an end."""
_POLL_INTERVAL: Final = 0.02
_RESTART_DELAYS: Final = (0.1, 5.0)
"""Seconds before it is begun again, at first and at most."""
_STEADY_SECONDS: Final = 30.0
"""Seconds that it has run when its end is taken for the first one."""
_MAX_LINE_LENGTH: Final = 300
_WAIT_INTERVAL: Final = 0.5
_MAX_LOG_BYTES: Final = 64 * 1024
_MAX_FINDINGS: Final = 20
_EXPLAINED_STATUSES: Final = (1, 2, 3)
"""What it ends with where it says why."""
_LISTENER_VARIABLES: Final = frozenset(
    {
        *("EGRESS_LISTEN", "EGRESS_TRANSPARENT", "EGRESS_DNS", "EGRESS_DNS_ANSWER", "EGRESS_NETWORK"),
        *("EGRESS_PASSWORD_FILE", "EGRESS_SANDBOX", "EGRESS_PROFILE", "EGRESS_HANDOVER", "EGRESS_RULES"),
        *("EGRESS_RUNTIME", "EGRESS_RUNTIME_DIR", "EGRESS_DRAIN", "EGRESS_AUDIT_DIR"),
    }
)
"""Settings of a proxy that listens by itself, and what is said here by options."""


class EmbeddedProxy:
    """One proxy, from its start to `close`."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        rules: Sequence[Path] = (),
        audit: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """Start it, and return when it serves. Raises `ProxyFailedError` with what it said where it does not.

        `folder` is for its sockets and its log, of this user alone, and of nobody else.
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
        # One that lasts: the kernel ends the proxy when the thread that began it ends.
        self._keeper = threading.Thread(target=self._run, name="egress-proxy", daemon=True)
        self._keeper.start()
        self._started.wait()
        self.check()

    @property
    def pid(self) -> int | None:
        """Of the one that runs."""
        process = self._process
        return None if process is None else process.pid

    def check(self) -> None:
        """Raise `ProxyFailedError` where it has ended and cannot be started again."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End it, and wait for its end."""
        with self._lock:
            self._closing.set()
            process = self._process
            if process is not None:
                process.terminate()
        self._keeper.join()

    # The keeper

    def _run(self) -> None:
        pause, most = _RESTART_DELAYS
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
            pause = _RESTART_DELAYS[0] if time.monotonic() - begun > _STEADY_SECONDS else min(pause * 2, most)
            _log.warning("proxy.ended", again_in=pause, hint=f"its log: {self.log}")
            self._closing.wait(pause)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, ProxyFailedError):
            error = ProxyFailedError(f"the proxy cannot be started: {error}", "see whether Python runs here")
        if self._started.is_set():
            _log.error("proxy.failed", cause=error.message, hint=error.hint)
        self._failure = error
        self._started.set()

    def _start(self) -> None:
        with self._lock:
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
                    # Ctrl-C is for the caller, who ends the sandboxes first.
                    process_group=0,
                )
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
                    "see whether this machine is very busy",
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
        """What it said when it did not start, as an error of ours."""
        with self.log.open("rb") as log:
            log.seek(begun)
            lines = log.read(_MAX_LOG_BYTES).decode("utf-8", "replace").splitlines()
        message = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), "")
        hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), "")
        found = [line for line in lines if line.strip() and not line.startswith(("error: ", "hint: ", "{"))]
        if not message:
            last = found[-1][:_MAX_LINE_LENGTH] if found else "nothing"
            return ProxyFailedError("the proxy ended while it started", f"the last it said: {last}")
        if status not in _EXPLAINED_STATUSES:
            status = ProxyFailedError.exit_status
        return ProxyFailedError("\n".join([message, *found[:_MAX_FINDINGS]]), hint, status=status)


def _proxy_command(
    folder: Path, rules: Sequence[Path | str], audit: Path | None, options: Sequence[str]
) -> list[str]:
    # Nothing that lies in the working directory is imported.
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
