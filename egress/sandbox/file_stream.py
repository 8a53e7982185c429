"""Reads and writes files of a sandbox piece by piece, of any size and in constant memory.

Theory of operation. The script of `Files` runs as a command whose output or input is the content. A reader
first learns the size of the file that the script has opened, and then names the part that it wants. A reader
that is slow slows the command. A writer sends a mark after the content: the end of the input alone may be
that of a writer that broke off or was killed, and the script then removes what has arrived.
"""

from __future__ import annotations

import re
import secrets
import threading
from typing import Final

from egress.errors import EgressError
from egress.runtime.errors import ExecTimeoutError, SandboxError
from egress.runtime.protocol import Output
from egress.runtime.spec import MIB, Command, ExecResult
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.paths import TEMPORARY_PREFIX, Where, path_command, path_error

STREAM_TIMEOUT: Final = 3600.0
"""Seconds for a whole stream: processes of the same user can stop the command."""
_MAX_HELD_BYTES: Final = MIB
_SIZE_PATTERN: Final = re.compile(rb"[0-9]{1,19}")
_MAX_SIZE_LINE_BYTES: Final = 32
_UNEXPECTED_STATUS: Final = 1
_ABORT_TIMEOUT: Final = 10.0
"""Seconds until a command that does not end by itself is killed."""


class FileReader:
    """A file that was opened for reading: its size, then one part of it."""

    def __init__(self, place: CommandRunner, path: Where, timeout: float = STREAM_TIMEOUT) -> None:
        """Open the file. Raises the errors of `Files.read`."""
        self._place = place
        self._path = path
        self._timeout = timeout
        self._changed = threading.Condition()
        self._held = bytearray()
        self._left = 0
        self._is_closed = False
        self._end: ExecResult | BaseException | None = None
        command = Command(argv=path_command("open", path), most_output=0, timeout=timeout)
        self._process = place.begin(command, Output(stdout=self._add))
        threading.Thread(target=self._await, name=f"egress-{place.name}-read", daemon=True).start()
        self.size = self._read_size()

    def begin(self, first: int, count: int) -> None:
        """Ask for `count` bytes from the offset `first`."""
        self._left = count
        self._process.write(b"%d %d\n" % (first, count))
        self._process.close_input()

    def read(self) -> bytes:
        """Return the next piece, or nothing at the end of the part.

        Raises an error if the file turns out shorter than it was.
        """
        if not self._left:
            return b""
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._end is not None)
            piece = bytes(self._held[: self._left])
            self._held.clear()
            self._changed.notify_all()
        if not piece:
            raise self._failure()
        self._left -= len(piece)
        return piece

    def close(self) -> None:
        """End the command if it runs."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            is_over = self._end is not None
        if not is_over:
            self._process.kill()

    def _read_size(self) -> int:
        with self._changed:
            self._changed.wait_for(
                lambda: b"\n" in self._held or len(self._held) > _MAX_SIZE_LINE_BYTES or self._end is not None
            )
            line, end, rest = self._held.partition(b"\n")
            self._held.clear()
        if not end or rest or not _SIZE_PATTERN.fullmatch(line):
            self.close()
            raise self._failure()
        return int(line)

    def _failure(self) -> BaseException:
        if isinstance(self._end, BaseException):
            return self._end
        if self._end is not None and self._end.timed_out:
            return _late_error(self._path, self._place.name, self._timeout)
        status = self._end.exit_code if self._end is not None else 0
        return path_error(status or _UNEXPECTED_STATUS, self._path, self._place.name)

    def _add(self, data: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._held) < _MAX_HELD_BYTES or self._is_closed)
            if not self._is_closed:
                self._held += data
                self._changed.notify_all()

    def _await(self) -> None:
        end: ExecResult | BaseException
        try:
            end = self._process.wait()
        except BaseException as error:  # noqa: BLE001 - raised again where the file is read
            end = error
        with self._changed:
            self._end = end
            self._changed.notify_all()


class FileWriter:
    """A file that is being written. It appears as a whole with `finish`, or not at all."""

    def __init__(
        self, place: CommandRunner, path: Where, *, mode: str = "", timeout: float = STREAM_TIMEOUT
    ) -> None:
        """Begin. `mode` is octal; without it, an existing file keeps its permissions."""
        self._place = place
        self._path = path
        self._timeout = timeout
        self._mark = secrets.token_hex(12)
        name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        argv = path_command("write", path, name, mode, self._mark)
        self._process = place.begin(Command(argv=argv, timeout=timeout))

    def write(self, data: bytes) -> None:
        """Pass on a piece; returns when it was taken. After a failure, pieces are dropped."""
        self._process.write(data)

    def finish(self) -> None:
        """Complete the file. Raises the errors of `Files.write`."""
        self._process.write(self._mark.encode())
        self._process.close_input()
        result = self._process.wait()
        if result.timed_out:
            raise _late_error(self._path, self._place.name, self._timeout)
        if result.exit_code:
            raise path_error(result.exit_code, self._path, self._place.name)

    def abort(self) -> None:
        """Remove what has arrived; returns when it is gone."""
        self._process.close_input()
        try:
            self._process.wait(_ABORT_TIMEOUT)
        except TimeoutError:
            # A process of the same user has stopped the command.
            self._process.kill()
        except EgressError:
            # The sandbox has ended with its processes.
            return


def _late_error(path: Where, name: str, timeout: float) -> SandboxError:
    return ExecTimeoutError(
        f"{str(path)!r} in the sandbox {name} did not finish within {timeout:g}s", "check its processes"
    )
