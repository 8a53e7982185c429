"""A command that goes on: written to, read from, waited for, and signalled."""

from __future__ import annotations

import codecs
import re
import secrets
import signal as signals
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.protocol import Output
from egress.runtime.protocol import RuntimeProcess as Running
from egress.runtime.spec import MIB, Command, ExecResult
from egress.runtime.supervisor import with_proc
from egress.sandbox.cancellation import CancellableEvent
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import LogEndedError, checked
from egress.sandbox.port_wait import await_port
from egress.sandbox.ring_buffer import RingBuffer

OutputCallback = Callable[[bytes], object]
COMMAND_VARIABLE: Final = "EGRESS_COMMAND"
"""The variable by which the processes of a command are known."""
MAX_KEPT_BYTES: Final = 8 * MIB

_SIGNAL_SCRIPT: Final = with_proc(Path(__file__).with_name("signal.sh"))
_NO_PROCESS_STATUS: Final = 44


class Stream:
    """What a process writes to one of its outputs.

    >>> for line in process.stdout.lines():  # doctest: +SKIP
    ...     print(line)
    """

    def __init__(self, name: str, keep: int) -> None:
        self._name = name
        self._ring = RingBuffer(keep)

    def __repr__(self) -> str:
        return f"<Stream {self._name}>"

    def chunks(self) -> Iterator[bytes]:
        """Return its bytes as they come, from the oldest that are kept on, until the process ends.

        Raises `OutputLostError` where more came than was kept before it was read.
        """
        return self._ring.pieces()

    def lines(self) -> Iterator[str]:
        """Return its lines as text, without their ends, until the process ends.

        Raises `OutputLostError` where more came than was kept before it was read.
        """
        return split_lines(self._ring.pieces())

    def read(self) -> bytes:
        """Return what is kept of it just now."""
        return self._ring.data()


class Process:
    """A command that was begun by `Sandbox.spawn`.

    >>> process = sandbox.spawn(["python3", "-m", "http.server", "8000"])  # doctest: +SKIP
    >>> process.wait_for_port(8000)  # doctest: +SKIP
    """

    def __init__(
        self,
        place: CommandRunner,
        command: Command,
        *,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
        keep: int = MAX_KEPT_BYTES,
    ) -> None:
        """Begin it. Raises what keeps it from beginning."""
        self._place = place
        self._token = secrets.token_hex(12)
        self._argv = command.argv
        self.stdout = Stream("stdout", keep)
        self.stderr = Stream("stderr", keep)
        self._both = RingBuffer(min(keep, MIB))
        marked = Command(
            argv=command.argv,
            cwd=command.cwd,
            env={**command.env, COMMAND_VARIABLE: self._token},
            input=command.input,
            timeout=command.timeout,
            most_output=keep,
        )
        output = Output(
            self._output_callback(self.stdout, on_stdout), self._output_callback(self.stderr, on_stderr)
        )
        self._running: Running = place.begin(marked, output)
        self._settled = CancellableEvent()
        self._came: ExecResult | BaseException | None = None
        threading.Thread(target=self._await, name=f"egress-{place.name}-wait", daemon=True).start()

    def __repr__(self) -> str:
        return f"<Process {self._argv[0]!r} in {self._place.name!r}, {self._state()}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, where it has not ended."""
        if not self._settled.is_set():
            self.kill()
            self._settled.wait()

    def write(self, data: str | bytes) -> None:
        """Give it input; returns when it has been taken. Without effect once it has ended."""
        self._running.write(data.encode() if isinstance(data, str) else data)

    def close_stdin(self) -> None:
        """Tell it that there is no more input."""
        self._running.close_input()

    def poll(self) -> int | None:
        """Return its status, or None while it runs."""
        return self._came.exit_code if isinstance(self._came, ExecResult) else None

    def wait(self, timeout: float | None = None, *, check: bool = False) -> ExecResult:
        """Return what came of it. Raises `TimeoutError` when it has not ended by then.

        With `check` another status than 0 is a `FailedCommandError`. Where the sandbox ended under it:
        `SandboxDiedError`.
        """
        if not self._settled.wait(timeout):
            raise TimeoutError
        return self._result(check=check)

    def kill(self, signal: str | int | None = None, *, grace: float = 2.0) -> None:
        """End it, with all that it began: politely, and `grace` seconds later not. Returns at once.

        With `signal`, such as "HUP" or `signal.SIGINT`, that is sent to all of its processes instead, and
        nothing else. Nothing happens where it has ended.
        """
        if self._settled.is_set():
            return
        if signal is None:
            self._running.kill(grace)
            return
        self._send(_signal_name(signal))

    def logs(self) -> str:
        """Return the newest of both outputs, as one text in the order in which it came."""
        return self._both.data().decode("utf-8", "replace")

    def wait_for_log(self, pattern: str | re.Pattern[str], timeout: float | None = None) -> re.Match[str]:
        """Wait until a line of its output matches; returns the match.

        Raises `TimeoutError`, or `LogEndedError` where it ended without such a line.
        """
        wanted = re.compile(pattern)
        end = None if timeout is None else time.monotonic() + timeout
        for line in split_lines(self._until(end), is_whole=False):
            found = wanted.search(line)
            if found is not None:
                return found
        raise LogEndedError(
            "the process ended, and no line of its output matched", "look at its logs() and its status"
        )

    def wait_for_port(self, port: int, timeout: float | None = None) -> None:
        """Wait until something in the sandbox listens on a TCP port.

        Raises `TimeoutError`, or `LogEndedError` where the process ended before that.
        """
        await_port(self._place, port, timeout, self._settled.is_set)

    # Inside

    def _output_callback(self, stream: Stream, told: OutputCallback | None) -> OutputCallback:
        def tell(piece: bytes) -> None:
            stream._ring.add(piece)  # noqa: SLF001 - the two are one
            self._both.add(piece)
            if told is not None:
                told(piece)

        return tell

    def _await(self) -> None:
        try:
            self._came = self._running.wait()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            self._came = error
        self._settled.set()
        for ring in (self.stdout._ring, self.stderr._ring, self._both):  # noqa: SLF001 - the two are one
            ring.close()

    def _result(self, *, check: bool) -> ExecResult:
        if isinstance(self._came, BaseException):
            raise self._came
        if self._came is None:
            raise TimeoutError
        return checked(self._came) if check else self._came

    def _state(self) -> str:
        if not self._settled.is_set():
            return "running"
        status = self.poll()
        return "lost" if status is None else f"ended with {status}"

    def _until(self, end: float | None) -> Iterator[bytes]:
        """Its output of both kinds, as it comes. Raises `TimeoutError` at the end of the time."""
        at = self._both.dropped
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            piece = self._both.read_after(at, left)
            if piece is None:
                return
            if not piece:
                raise TimeoutError
            at += len(piece)
            yield piece

    def _send(self, name: str) -> None:
        words = ("/bin/sh", "-c", _SIGNAL_SCRIPT, "sh", name, f"{COMMAND_VARIABLE}={self._token}")
        status = self._place.run(Command(argv=words, cwd="/")).exit_code
        if status not in (0, _NO_PROCESS_STATUS):
            raise UnsupportedError(
                "the signal could not be sent", "the image needs a POSIX shell, grep and /proc"
            )


def _signal_name(signal: str | int) -> str:
    """Return a signal as a shell names it. Raises `SpecError` for what is none."""
    name = str(signal).upper().removeprefix("SIG")
    with suppress(ValueError, KeyError):
        found = signals.Signals[f"SIG{name}"] if isinstance(signal, str) else signals.Signals(signal)
        return found.name.removeprefix("SIG")
    raise SpecError("signal is none that there is", 'name one, such as "TERM", "HUP" or signal.SIGINT')


# Bytes as they come, cut into lines of text.
MAX_LINE_LENGTH: Final = 1024 * 1024
"""Letters of a line."""


def split_lines(pieces: Iterable[bytes], *, is_whole: bool = True) -> Iterator[str]:
    """Return the lines of a text that comes in pieces, without their ends.

    Without `is_whole` what there is of the last one is returned as well whenever a piece has come, and again
    when there is more of it: for those who wait for a prompt. A line that is longer than any should be is
    cut: whoever writes it need never end it.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        if len(rest) > MAX_LINE_LENGTH:
            whole, rest = [*whole, rest], ""
        for line in whole:
            yield line.removesuffix("\r")
        if rest and not is_whole:
            yield rest
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest
