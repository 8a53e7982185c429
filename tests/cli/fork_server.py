"""A fork server: it has `egress` imported, and forks a process for each command it is asked to run.

A start of Python with our commands and the proxy takes more than a second of processor time, and the tests
start thousands. A forked process is given everything that a started one has of its own: folder,
environment, words, standard streams, signals. Some tests are about the start itself (what Python imports,
what `/proc` shows of a process); `real_process` marks those, and they never come here.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import os
import pickle
import pkgutil
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

LENGTH: Final = struct.Struct("!I")
STREAMS: Final = 3


@dataclass(frozen=True, slots=True)
class Start:
    """A process to be forked. Its three standard streams come beside this, as descriptors."""

    words: tuple[str | bytes, ...]
    """The arguments of `egress`, or of the program."""
    cwd: str
    env: dict[str, str]
    program: str = ""
    """Source to be run instead of `egress`, as `python -c` would."""


@dataclass(frozen=True, slots=True)
class Reap:
    """The question for how an ended process ended."""

    pid: int


def import_all() -> None:
    """Import every module of `egress`, so that no forked process has to."""
    package = importlib.import_module("egress")
    for found in pkgutil.walk_packages(package.__path__, "egress."):
        if not found.name.endswith(".__main__"):
            importlib.import_module(found.name)


def receive(sock: socket.socket) -> tuple[Any, list[int]]:
    """One message and the descriptors that came with it. Raises `EOFError` at the end."""
    head, descriptors, _, _ = socket.recv_fds(sock, LENGTH.size, STREAMS)
    while 0 < len(head) < LENGTH.size:
        more = sock.recv(LENGTH.size - len(head))
        head = head + more if more else b""
    if not head:
        raise EOFError
    left, parts = LENGTH.unpack(head)[0], []
    while left:
        part = sock.recv(left)
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return pickle.loads(b"".join(parts)), list(descriptors)


def send(sock: socket.socket, message: object, descriptors: tuple[int, ...] = ()) -> None:
    data = pickle.dumps(message)
    head = LENGTH.pack(len(data))
    sent = socket.send_fds(sock, [head], descriptors) if descriptors else sock.send(head)
    sock.sendall(head[sent:] + data)


def serve(sock: socket.socket) -> None:
    """Fork what is asked for until the other side has gone; then none of the forked ones is left."""
    children: set[int] = set()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            message, streams = receive(sock)
            if isinstance(message, Reap):
                _, status, used = os.wait4(message.pid, 0)
                children.discard(message.pid)
                send(sock, (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime))
                continue
            assert isinstance(message, Start)
            pid = os.fork()
            if not pid:
                _become(message, streams, sock)
            children.add(pid)
            for stream in streams:
                os.close(stream)
            # A process that ended stays a zombie until it is asked for: its number means no other one.
            handle = os.pidfd_open(pid)
            send(sock, pid, (handle,))
            os.close(handle)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _become(start: Start, streams: list[int], sock: socket.socket) -> NoReturn:
    """Be what a fresh Python would be that is told to run this; never comes back."""
    status = 1
    try:
        status = _run(start, streams, sock)
    except BaseException:  # noqa: BLE001 - nothing above it may go on as the server
        traceback.print_exc()
    os._exit(status)


def _run(start: Start, streams: list[int], sock: socket.socket) -> int:
    sock.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(start.cwd)
    os.environ.clear()  # noqa: TID251 - the process gets its own
    os.environ.update(start.env)  # noqa: TID251 - the same
    time.tzset()
    _open_streams()
    words = [os.fsdecode(word) for word in start.words]
    if start.program:
        sys.argv, sys.orig_argv = ["-c", *words], [sys.executable, "-c", start.program, *words]
        run: Callable[[], int | None] = _of_program(start.program)
    else:
        sys.argv, sys.orig_argv = ["egress", *words], [sys.executable, "-m", "egress", *words]
        run = importlib.import_module("egress.cli.main").main
    gc.enable()
    return _ended(run)


def _of_program(source: str) -> Callable[[], None]:
    code = compile(source, "<string>", "exec")
    return lambda: exec(code, {"__name__": "__main__"})


def _ended(run: Callable[[], int | None]) -> int:
    """Run it, and do what Python does at its end; the status."""
    try:
        status = run() or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201 - as Python does
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        traceback.print_exc()
        os.kill(os.getpid(), signal.SIGINT)
        raise
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        status = 120
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return status & 0xFF


def _open_streams() -> None:
    """Standard streams as Python makes them for these descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old: io.TextIOWrapper = getattr(sys, name)
        raw = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115 - a descriptor
        is_by_line = name == "stderr" or os.isatty(number)
        stream = io.TextIOWrapper(raw, old.encoding, old.errors, line_buffering=is_by_line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main(number: int) -> None:
    """Be the server, on an inherited socket."""
    # Ctrl-C is for the tests: the server ends when they do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_all()
    gc.disable()
    gc.freeze()
    serve(socket.socket(fileno=number))
