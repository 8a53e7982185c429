"""Processes of `egress` begun by a fork server; each process of tests has one, made when first asked.

What is made here looks like `subprocess.Popen`, as far as tests use that.
"""

from __future__ import annotations

import atexit
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from tests.cli.fork_server import Reap, Start, receive, send

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENT: Final = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
"""What the server was started with. Python reads these at its start alone."""
READ_AT_THE_START: Final = (
    *("PYTHON", "LC_", "LANG", "COVERAGE", "LD_", "MALLOC_", "GLIBC_"),
    *("SSL", "OPENSSL", "MITMPROXY_"),
)
"""How variables begin that Python reads at its start, or a library when it is imported."""
used = 0.0
"""Seconds of processor time that ended processes took; tests/conftest.py looks at it."""


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a forked process would be as one that was started with this environment."""
    told = {name: value for name, value in env.items() if name.startswith(READ_AT_THE_START)}
    return told == {name: ENVIRONMENT[name] for name in ("PYTHONPATH", "LANG")}


class Forked:
    """A process that the server has forked."""

    def __init__(self, server: _Server, pid: int, handle: int, words: Sequence[str | bytes]) -> None:
        self._server = server
        self._handle = handle
        self.args = words
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: TextIOWrapper | None = None
        self.stderr: TextIOWrapper | None = None
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises `subprocess.TimeoutExpired`."""
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(list(map(os.fsdecode, self.args)), timeout or 0)
        return status

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                return None
            # Only the first one may ask: after that the server knows the process no more.
            with self._reaping:
                if self.returncode is None:
                    self.returncode = self._server.reap(self.pid)
        return self.returncode

    def __del__(self) -> None:
        os.close(self._handle)

    def send_signal(self, number: int) -> None:
        """Send it a signal; nothing happens when it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _Server:
    """The server's other side."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._sock, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    f"from tests.cli import fork_server\nfork_server.main({number})",
                ],
                cwd=ROOT,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                pass_fds=(number,),
            )
        atexit.register(self.close)

    def fork(self, start: Start, streams: tuple[int, int, int]) -> Forked:
        with self._asking:
            send(self._sock, start, streams)
            pid, handles = receive(self._sock)
        assert isinstance(pid, int)
        return Forked(self, pid, handles[0], start.words)

    def reap(self, pid: int) -> int:
        with self._asking:
            send(self._sock, Reap(pid))
            (status, seconds), _ = receive(self._sock)
        global used  # noqa: PLW0603 - one number for the whole process
        used += seconds
        return int(status)

    def close(self) -> None:
        """End it, and all that it has forked."""
        self._sock.close()
        self._process.wait()


@functools.cache
def _server(_pid: int) -> _Server:
    return _Server()


def fork(
    words: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    program: str = "",
) -> Forked:
    """Have a process forked that runs `egress` with these words, or a program; on these descriptors."""
    start = Start(tuple(words), str(cwd), dict(env), program)
    return _server(os.getpid()).fork(start, streams)


def begin(
    words: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    program: str = "",
    terminal: tuple[int, int] | None = None,
) -> Forked:
    """The same with what it prints piped, as text; it reads nothing. `terminal` takes the place of a pipe."""
    (out, out_end), (err, err_end) = terminal or os.pipe(), os.pipe()
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - no folder of ours
        try:
            forked = fork(
                words, cwd=cwd, env=env, streams=(nothing.fileno(), out_end, err_end), program=program
            )
        finally:
            os.close(out_end)
            os.close(err_end)
    forked.stdout = os.fdopen(out, encoding="utf-8", errors="replace")
    forked.stderr = os.fdopen(err, encoding="utf-8", errors="replace")
    return forked


def run(
    words: Sequence[str | bytes], *, cwd: Path, env: Mapping[str, str], timeout: float, program: str = ""
) -> tuple[int, bytes, bytes]:
    """Run it to its end: its status, and all that it printed. Raises `subprocess.TimeoutExpired`."""
    forked = begin(words, cwd=cwd, env=env, program=program)
    assert forked.stdout is not None
    assert forked.stderr is not None
    with forked.stdout as out, forked.stderr as err, ThreadPoolExecutor(2) as readers:
        whole = [readers.submit(stream.buffer.read) for stream in (out, err)]
        try:
            status = forked.wait(timeout)
        except subprocess.TimeoutExpired:
            forked.kill()
            forked.wait()
            raise
        return status, bytes(whole[0].result()), bytes(whole[1].result())
