"""One run of a proxy as a child process: started, released, serving, ended.

The child is `egress serve --held`: it loads at once, opens nothing before its `release`, and says on its
standard output when it serves. It holds that stream until it ends, so the end of the stream is its end.
"""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from egress.fleet.errors import ProxyFailedError

_START_TIMEOUT: Final = 60.0
"""Seconds for which a start may stand still. Beside many others it takes long, and does not stand still."""
_MAX_START_SECONDS: Final = 900.0
_STOP_TIMEOUT: Final = 15.0
"""Seconds that a stop may take before the proxy is killed."""
_CHECK_INTERVAL: Final = 0.5
_MAX_LINE_LENGTH: Final = 300
_MAX_LOG_BYTES: Final = 64 * 1024
_MAX_FINDINGS: Final = 20
_EXPLAINED_STATUSES: Final = (1, 2, 3)
"""Exit statuses for which the proxy prints the cause."""


class ProxyProcess:
    """A proxy process. One thread calls it; `terminate` may come from any."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        """Start it; its standard error goes to the end of `log`. Raises `OSError`."""
        self._log = log
        with log.open("ab") as file:
            self._begun = file.tell()
            self._process = subprocess.Popen(
                words,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                # Ctrl-C goes to the caller, which has to remove the sandboxes before the proxy ends.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def terminate(self) -> None:
        """Ask it to end. It drains its connections first."""
        self._process.terminate()

    def release(self) -> None:
        """Let it open what it opens."""
        # A proxy that has ended already says why when it is waited for.
        with suppress(BrokenPipeError), _stream(self._process.stdin) as commands:
            commands.write(b"\n")

    def wait_until_serving(self) -> None:
        """Return when it serves. Raises `ProxyFailedError` with its output if it ended, or takes too long."""
        reports = _stream(self._process.stdout)
        begun = since = time.monotonic()
        used = self._processor_time()
        while not select.select([reports], [], [], _CHECK_INTERVAL)[0]:
            now, still_used = time.monotonic(), self._processor_time()
            if still_used != used:
                used, since = still_used, now
            if now - since > _START_TIMEOUT or now - begun > _MAX_START_SECONDS:
                self._end()
                raise ProxyFailedError(
                    f"the proxy was not ready within {now - begun:.0f}s", "check the load of this machine"
                )
        if not reports.readline():
            raise self._start_error(self._end())

    def wait_until_ended(self, is_closing: Callable[[], bool]) -> None:
        """Return when it has ended. Once `is_closing`, it is killed if that takes too long."""
        reports, deadline = _stream(self._process.stdout), None
        while not select.select([reports], [], [], _CHECK_INTERVAL)[0]:
            if deadline is None and is_closing():
                deadline = time.monotonic() + _STOP_TIMEOUT
            if deadline is not None and time.monotonic() > deadline:
                break
        self._end()

    def _processor_time(self) -> bytes:
        """Return the ticks that the process has computed, to compare; empty once it has ended."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_bytes()
        except OSError:
            return b""
        # Behind the name, which may hold any byte: user and system time are the twelfth and thirteenth field.
        return b" ".join(stat.rpartition(b")")[2].split()[11:13])

    def _end(self) -> int:
        """Make sure that it has ended, and return its exit status."""
        with _stream(self._process.stdout) as reports:
            # After the end of the stream the process only has to be collected.
            if not select.select([reports], [], [], 0)[0]:
                self._process.kill()
        with suppress(BrokenPipeError):
            _stream(self._process.stdin).close()
        return self._process.wait()

    def _start_error(self, status: int) -> ProxyFailedError:
        """Turn the output of a proxy that did not start into an error."""
        with self._log.open("rb") as log:
            log.seek(self._begun)
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


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise RuntimeError("a process without the stream it was given")
    return stream
