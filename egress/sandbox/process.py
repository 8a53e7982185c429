"""A command in the background: its input, its output, its end, and signals."""

from __future__ import annotations

import codecs
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from egress.runtime.argument_types import check_whole_number
from egress.runtime.errors import SandboxTimeoutError
from egress.runtime.process_signal import COMMAND_VARIABLE, send_signal, signal_name
from egress.runtime.protocol import Output
from egress.runtime.protocol import RuntimeProcess as Running
from egress.runtime.spec import MIB, Command, ExecResult
from egress.sandbox.cancellation import CancellableEvent
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import LogEndedError, checked
from egress.sandbox.options import as_bytes
from egress.sandbox.output_decoder import OutputCallback, OutputDecoder
from egress.sandbox.port_wait import await_port
from egress.sandbox.ring_buffer import RingBuffer

MAX_KEPT_BYTES: Final = 8 * MIB


class Stream:
    """An output of a process.

    >>> for line in process.stdout.lines():  # doctest: +SKIP
    ...     print(line)
    """

    def __init__(self, name: str, keep: int) -> None:
        self._name = name
        self._ring = RingBuffer(keep)

    def __repr__(self) -> str:
        return f"<Stream {self._name}>"

    def chunks(self) -> Iterator[str]:
        """Return its text as it arrives, from the oldest output that is kept on, until the process ends.

        A character that is cut between two pieces comes with the second piece; bytes that are not UTF-8 are
        replaced by U+FFFD. If you read too slowly, `OutputLostError` is raised.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for piece in self._ring.pieces():
            if text := decoder.decode(piece):
                yield text
        if rest := decoder.decode(b"", final=True):
            yield rest

    def byte_chunks(self) -> Iterator[bytes]:
        """Return its bytes as they arrive; see `chunks`."""
        return self._ring.pieces()

    def lines(self) -> Iterator[str]:
        """Return its lines as strings, without line ends, until the process ends.

        If you read too slowly, `OutputLostError` is raised.
        """
        return split_lines(self._ring.pieces())

    def read(self) -> str:
        """Return the text that is kept at this moment."""
        return self._ring.data().decode("utf-8", "replace")

    def read_bytes(self) -> bytes:
        """Return the bytes that are kept at this moment."""
        return self._ring.data()


class Process:
    """A command that was started by `Sandbox.spawn`.

    >>> process = sandbox.spawn(["python3", "-m", "http.server", "8000"])  # doctest: +SKIP
    >>> process.wait_for_port(8000)  # doctest: +SKIP
    """

    def __init__(
        self,
        place: CommandRunner,
        command: Command,
        *,
        text: bool = True,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
        keep: int = MAX_KEPT_BYTES,
    ) -> None:
        """Start the command. Raises the error of a failed start."""
        check_whole_number("keep", keep)
        self._place = place
        self._token = secrets.token_hex(12)
        self._argv = command.argv
        self.stdout = Stream("stdout", keep)
        self.stderr = Stream("stderr", keep)
        # At most 1 MiB: `logs()` shows only the newest output.
        self._both = RingBuffer(min(keep, MIB))
        # The variable is inherited by children, so signals reach processes that left the group.
        marked = replace(command, env={**command.env, COMMAND_VARIABLE: self._token}, most_output=keep)
        # Every piece goes to a stream's own ring, to the common one for logs(), and to the callback.
        self._decoders = (
            OutputDecoder("on_stdout", on_stdout, text=text),
            OutputDecoder("on_stderr", on_stderr, text=text),
        )
        out, err = self._decoders
        output = Output(
            self._output_callback(self.stdout, out.sink), self._output_callback(self.stderr, err.sink)
        )
        self._running: Running = place.begin(marked, output)
        self._settled = CancellableEvent()
        self._came: ExecResult | BaseException | None = None
        # A daemon thread: the program may exit while the command still runs.
        threading.Thread(target=self._await, name=f"egress-{place.name}-wait", daemon=True).start()

    def __repr__(self) -> str:
        return f"<Process {self._argv[0]!r} in {self._place.name!r}, {self._state()}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process if it runs."""
        if not self._settled.is_set():
            self.kill()
            self._settled.wait()

    def write(self, data: str | bytes) -> None:
        """Send input; returns when it was taken. Ignored after the process has ended."""
        self._running.write(as_bytes("data", data))

    def close_stdin(self) -> None:
        """Close the input."""
        self._running.close_input()

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._came.exit_code if isinstance(self._came, ExecResult) else None

    def wait(self, timeout: float | None = None, *, check: bool = False) -> ExecResult:
        """Return the result. Raises `SandboxTimeoutError` after `timeout` seconds.

        With `check`, a status other than 0 raises `FailedCommandError`. Raises `SandboxDiedError` if the
        sandbox ended meanwhile.
        """
        if not self._settled.wait(timeout):
            raise _late("the process has not ended")
        return self._result(check=check)

    def kill(self, signal: str | int | None = None, *, grace: float = 2.0) -> None:
        """End the process group: SIGTERM, and SIGKILL after `grace` seconds. Returns at once.

        With `signal`, such as "HUP" or `signal.SIGINT`, only that signal is sent, to all of its processes.
        Does nothing after the end.
        """
        if self._settled.is_set():
            return
        if signal is None:
            self._running.kill(grace)
            return
        send_signal(self._place.run, self._token, signal_name(signal))

    def logs(self) -> str:
        """Return the newest output of both kinds as one string, in the order of arrival."""
        return self._both.data().decode("utf-8", "replace")

    def wait_for_log(self, pattern: str | re.Pattern[str], timeout: float | None = None) -> re.Match[str]:
        """Wait until a line of its output matches; returns the match.

        Raises `SandboxTimeoutError`, or `LogEndedError` if it ends without such a line.
        """
        wanted = re.compile(pattern)
        end = None if timeout is None else time.monotonic() + timeout
        for line in split_lines(self._until(end), is_whole=False):
            found = wanted.search(line)
            if found is not None:
                return found
        raise LogEndedError(
            "the process ended without a matching line of output", "see its logs() and its status"
        )

    def wait_for_port(self, port: int, timeout: float | None = None) -> None:
        """Wait until a program in the sandbox listens on a TCP port.

        Raises `SandboxTimeoutError`, or `LogEndedError` if the process ends before that.
        """
        await_port(self._place, port, timeout, self._settled.is_set)

    # Internals

    def _output_callback(
        self, stream: Stream, callback: Callable[[bytes], object] | None
    ) -> Callable[[bytes], object]:
        def tell(piece: bytes) -> None:
            stream._ring.add(piece)  # noqa: SLF001 - both belong together
            self._both.add(piece)
            if callback is not None:
                callback(piece)

        return tell

    def _await(self) -> None:
        try:
            came = self._running.wait()
            # Inside the `try`: a callback may raise, and whoever waits has to learn it.
            for decoder in self._decoders:
                decoder.close()
            self._came = came
        except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait
            self._came = error
        # The result comes before the end of the outputs: a reader at their end can ask for the status.
        self._settled.set()
        for ring in (self.stdout._ring, self.stderr._ring, self._both):  # noqa: SLF001 - both belong together
            ring.close()

    def _result(self, *, check: bool) -> ExecResult:
        if isinstance(self._came, BaseException):
            raise self._came
        if self._came is None:
            raise _late("the process has not ended")
        return checked(self._came) if check else self._came

    def _state(self) -> str:
        if not self._settled.is_set():
            return "running"
        status = self.poll()
        return "lost" if status is None else f"ended with {status}"

    def _until(self, end: float | None) -> Iterator[bytes]:
        """Both outputs as they arrive. Raises `SandboxTimeoutError` at the given time."""
        at = self._both.dropped
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise _late("no line of its output matched")
            # Both outputs: a program may write its prompt to either.
            piece = self._both.read_after(at, left)
            if piece is None:
                return
            if not piece:
                raise _late("no line of its output matched")
            at += len(piece)
            yield piece


def _late(what: str) -> SandboxTimeoutError:
    return SandboxTimeoutError(f"{what} within the given time", "wait longer, or see its logs()")


# Bytes as they arrive, split into lines of text.
MAX_LINE_LENGTH: Final = 1024 * 1024
"""Characters of a line."""


def split_lines(pieces: Iterable[bytes], *, is_whole: bool = True) -> Iterator[str]:
    """Return the lines of a text that arrives in pieces, without line ends.

    Without `is_whole`, the incomplete last line is returned after each piece as well, and again when it
    grows: for a caller that waits for a prompt. A line beyond the limit is cut: its writer may never end it.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        # A program that never ends its line must not fill the memory of the caller.
        if len(rest) > MAX_LINE_LENGTH:
            whole, rest = [*whole, rest], ""
        for line in whole:
            yield line.removesuffix("\r")
        if rest and not is_whole:
            yield rest
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest
