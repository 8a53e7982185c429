"""A persistent shell in a sandbox: folder, variables and state stay between commands.

Theory of operation. One shell runs a small loop, `session.sh`, that reads a command at a time and evaluates
it. Each command comes with a new random marker; its output ends where the marker appears on both streams,
which no program can know in advance. A command that ends the shell, such as `exit`, ends with that status.

At a timeout the processes of the command are ended, and the shell goes on if it can. A shell that is busy
itself cannot be interrupted: it is killed with its state.

The threads of the runtime bring output, and may be held up by the reader of a command. So each stream has a
lock of its own, and the condition by which an end is told is never held while output is handed over.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from egress.fleet.session_interface import MAX_SESSION_OUTPUT_BYTES, SessionResult, ShellSettings
from egress.runtime.command_result import CapturedStream
from egress.runtime.errors import SandboxDiedError, SandboxError
from egress.runtime.marker_splitter import MarkerSplitter
from egress.runtime.proc_scripts import with_proc
from egress.runtime.protocol import Output, Runtime, RuntimeProcess
from egress.runtime.spec import MIB, TIMED_OUT_STATUS, Command

_LOOP_SCRIPT: Final = Path(__file__).with_name("session.sh").read_text(encoding="utf-8")
_ANY_SHELL_SCRIPT: Final = 'command -v bash >/dev/null 2>&1 && exec bash -c "$@"; exec /bin/sh -c "$@"'
_END_SCRIPT: Final = with_proc(Path(__file__).with_name("session_end.sh"))
_END_TICKS_PER_SECOND: Final = 20
"""The end script polls this often."""
_SIGNAL_GRACE_SECONDS: Final = 0.3
_SIGNAL_TIMEOUT: Final = 10.0
_KILL_GRACE_SECONDS: Final = 2.0
_MIN_COMMAND_INTERVAL: Final = 0.02
_MAX_STRAY_BYTES: Final = 1 * MIB
_FACT_COUNT: Final = 2
_MAX_FACT_BYTES: Final = 100
_MAX_STATUS_DIGITS: Final = 3
_FAILED_STATUS: Final = 1


class SessionShell:
    """A shell, from its start to its end. One thread at a time runs a command in it."""

    def __init__(self, runtime: Runtime, name: str, settings: ShellSettings) -> None:
        self._runtime = runtime
        self._name = name
        self._changed = threading.Condition()
        self._streams = (_ShellStream(self._changed), _ShellStream(self._changed))
        self._ended = False
        self._error: BaseException | None = None
        self._status = 0
        self._pid = ""
        self._idle_since = 0.0
        # The first marker tells the shell's process id, which the end script needs.
        first = secrets.token_hex(16)
        self._streams[0].expect_greeting(first.encode(), self._greeted)
        loop = (_LOOP_SCRIPT, "session", first)
        shell = settings.shell
        argv = ("/bin/sh", "-c", _ANY_SHELL_SCRIPT, "sh", *loop) if shell is None else (shell, "-c", *loop)
        command = Command(
            argv=argv, cwd=settings.cwd, env=settings.env, most_output=0, rights=settings.rights
        )
        out, err = self._streams
        self._running: RuntimeProcess = runtime.spawn(name, command, Output(out.add, err.add))
        threading.Thread(target=self._await, name=f"egress-{name}-session", daemon=True).start()

    @property
    def is_lost(self) -> bool:
        """Whether its sandbox has ended under it: it has no status, and no command can run."""
        return self._error is not None

    def run(self, call: ShellCall, line: str, timeout: float | None) -> SessionResult:
        """Run a command to its end. Raises the error with which the sandbox ended."""
        # Process ages are counted in hundredths of a second: older processes must be at least one tick older.
        time.sleep(max(0.0, self._idle_since + _MIN_COMMAND_INTERVAL - time.monotonic()))
        started = time.monotonic()
        for stream, splitter in zip(self._streams, call.splitters, strict=True):
            stream.begin(splitter)
        # The marker goes first: the shell repeats it at the start and the end of the command.
        self._running.write(f"{call.mark}\n{_pack_line(line)}\n".encode("utf-8", "surrogateescape"))
        timed_out = not self._until(call, timeout)
        if timed_out:
            self.interrupt(call)
            self._until(call, None)
        for stream in self._streams:
            stream.end()
        self._idle_since = time.monotonic()
        return self._result(call, time.monotonic() - started, timed_out=timed_out)

    def end(self) -> None:
        """End the shell and its processes."""
        self._running.close_input()
        self._running.kill()

    def lose(self) -> None:
        """Take the shell for dead: its sandbox was stopped or removed."""
        self._settle(SandboxDiedError(f"the sandbox {self._name} has ended", "create the session again"))

    def interrupt(self, call: ShellCall) -> None:
        """End the processes of a command, and the shell if the command does not end by that."""
        # TERM first, repeatedly: the command may start new processes meanwhile; then KILL, then the shell
        # itself.
        end = time.monotonic() + _KILL_GRACE_SECONDS
        while time.monotonic() < end and not self._until(call, 0):
            self._ask(call, "TERM", _SIGNAL_GRACE_SECONDS)
            self._until(call, _SIGNAL_GRACE_SECONDS)
        if not self._until(call, 0):
            self._ask(call, "KILL", _SIGNAL_GRACE_SECONDS)
        if not self._until(call, 1.0):
            self._running.kill(0)

    # Internals

    def _until(self, call: ShellCall, timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: call.is_over or self._ended, timeout)

    def _ask(self, call: ShellCall, signal: str, seconds: float) -> None:
        words = (
            "/bin/sh",
            "-c",
            _END_SCRIPT,
            "sh",
            self._pid,
            call.since,
            signal,
            f"{round(seconds * _END_TICKS_PER_SECOND)}",
        )
        # A failure means that the shell has ended, or will be killed.
        with suppress(SandboxError):
            self._runtime.exec(self._name, Command(argv=words, cwd="/", timeout=_SIGNAL_TIMEOUT))

    def _result(self, call: ShellCall, duration: float, *, timed_out: bool) -> SessionResult:
        # An error of the shell counts only if it cut the command short.
        if not call.is_over and self._error is not None:
            raise self._error
        status = call.status if call.is_over else self._status
        return SessionResult(
            exit_code=TIMED_OUT_STATUS if timed_out else status,
            stdout_bytes=call.stdout.data(),
            stderr_bytes=call.stderr.data(),
            duration=duration,
            timed_out=timed_out,
            truncated=call.stdout.truncated or call.stderr.truncated,
            state_kept=call.is_over,
        )

    def _greeted(self, fact: bytes) -> None:
        self._pid = fact.decode("ascii", "replace")

    def _await(self) -> None:
        try:
            self._status = self._running.wait().exit_code
        except BaseException as error:  # noqa: BLE001 - raised again by the next command
            self._settle(error)
        else:
            self._settle(None)

    def _settle(self, error: BaseException | None) -> None:
        with self._changed:
            # The first error stays: it tells what happened to the sandbox.
            if not self._ended:
                self._ended, self._error = True, error
            self._changed.notify_all()


class _ShellStream:
    """An output of a shell: to the command that runs, or kept for the next one."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._stray = bytearray()
        """Output that arrived between commands."""
        self._splitter: MarkerSplitter | None = None
        self._greeting: MarkerSplitter | None = None

    def expect_greeting(self, mark: bytes, greeted: Callable[[bytes], object]) -> None:
        """Drop the output before the marker, which belongs to no command."""

        def found(fact: bytes) -> None:
            greeted(fact)
            self._greeting = None

        self._greeting = MarkerSplitter(mark, self._after_greeting, found)

    def add(self, piece: bytes) -> None:
        """Add the next bytes; called by a thread of the runtime."""
        with self._lock:
            greeting = self._greeting
            if greeting is None:
                self._pass_on(piece)
            else:
                greeting.add(piece)
                if self._greeting is None:
                    # The first command's output may be in the same piece.
                    greeting.rest()
        # After the piece, and not in the middle: the callback of its reader may block.
        with self._changed:
            self._changed.notify_all()

    def begin(self, splitter: MarkerSplitter) -> None:
        """Lead the output to a command, beginning with what came since the last one."""
        with self._lock:
            self._splitter = splitter
            if self._stray:
                splitter.add(bytes(self._stray))
                self._stray.clear()

    def end(self) -> None:
        """Keep the output for the next command."""
        with self._lock:
            if self._splitter is not None:
                self._splitter.rest()
            self._splitter = None

    def _after_greeting(self, piece: bytes) -> None:
        if self._greeting is None:
            self._pass_on(piece)

    def _pass_on(self, piece: bytes) -> None:
        if self._splitter is not None:
            self._splitter.add(piece)
        else:
            self._stray.extend(piece[: _MAX_STRAY_BYTES - len(self._stray)])


class ShellCall:
    """A command, and its output so far."""

    def __init__(self, output: Output, most_output: int = MAX_SESSION_OUTPUT_BYTES) -> None:
        self.mark = secrets.token_hex(16)
        self.stdout = CapturedStream(most_output, output.stdout)
        self.stderr = CapturedStream(most_output, output.stderr)
        self._facts: list[bytes] = []
        """The values after the first two markers."""
        self._has_ended = False
        mark = self.mark.encode()
        self.splitters = (
            MarkerSplitter(mark, self.stdout.add, self._said),
            MarkerSplitter(mark, self.stderr.add, self._end),
        )

    @property
    def since(self) -> str:
        """The start of the command, on the sandbox's clock."""
        return self._facts[0].decode("ascii", "replace") if self._facts else ""

    @property
    def is_over(self) -> bool:
        return len(self._facts) == _FACT_COUNT and self._has_ended

    @property
    def status(self) -> int:
        # A program that inspected the shell may have forged the value.
        said = self._facts[1]
        return int(said) if said.isdigit() and len(said) <= _MAX_STATUS_DIGITS else _FAILED_STATUS

    def _said(self, fact: bytes) -> None:
        # A program that knows the marker can repeat it.
        if len(self._facts) < _FACT_COUNT:
            self._facts.append(fact[:_MAX_FACT_BYTES])

    def _end(self, _fact: bytes) -> None:
        self._has_ended = True


def _pack_line(line: str) -> str:
    """Encode a text as one line, for `printf %b`."""
    return "." + line.replace("\\", "\\\\").replace("\n", "\\n")
