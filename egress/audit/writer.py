"""Writing the log: lines wait in memory until `flush`, which hands them to the kernel in one write.

The order of a flush is the promise of the log, and a kill may come between any two steps:

1. the head says where the lines will end                       (announce)
2. the lines are appended to the file
3. the head says that they are there                            (commit)
4. their slots in the in-flight file are freed

Killed before 1, the exchanges are found in their slots. Between 1 and 3, the lines that made it are
lines, the rest is a gap that `recover` can tell from a tail that was cut, and the slots say which
exchanges these were. Between 3 and 4, the slots name lines that are in the log.

When the disk is full, what the kernel took stays, the rest waits, and the same bytes are tried again
at most once a second: the chain does not notice. Meanwhile the sandbox whose line did not fit is
stopped, and everybody when the next try fails too; or lines are dropped and counted (`drop`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from egress.audit import files, lines, recorded_pruning
from egress.audit.chain import Chain, Keys
from egress.audit.checkpoint import CheckpointFile, LogPosition
from egress.audit.clock import AuditClock, date_and_time
from egress.audit.gaps import CLOSING
from egress.audit.inflight import DROPPED, LOOSE, MAX_LOOSE_REFUSALS, InFlight
from egress.audit.resume_point import ResumePoint

OnFull = Literal["stop", "drop"]
OnLine = Callable[[bytes, str], None]
"""A line, and the sandbox that it is about; empty for one about the proxy."""


def forget_line(_line: bytes, _owner: str) -> None:
    """Do nothing."""


NO_SLOT = 0
MAX_UNFLUSHED_LINES = 512
"""So many lines are written without waiting for a flush."""
MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Bytes that wait for space on a full disk; lines beyond are counted, not kept."""
RETRY_INTERVAL = 1.0
EVERY_SANDBOX = "*"


@dataclass(slots=True)
class WriteTrouble:
    """The log cannot be written at the moment."""

    reason: str
    since: float
    retry_at: float
    stopped: set[str]
    """The sandboxes that are stopped; `*` for all."""


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How a log is kept."""

    rotate_at: int
    keep: int
    on_full: OnFull
    on_line: OnLine = forget_line


class TimestampFormatter:
    """Formats timestamps of log lines: RFC 3339, UTC, microseconds. Caches the current second."""

    __slots__ = ("_clock", "_second", "_text")

    def __init__(self, clock: AuditClock) -> None:
        self._clock = clock
        self._second = -1
        self._text = ""

    def now(self) -> str:
        """`2026-03-01T09:30:00.000123Z`."""
        return self.at(self._clock.now_ns())

    def at(self, moment: int) -> str:
        """Format UTC nanoseconds."""
        second, rest = divmod(moment, 1_000_000_000)
        if second != self._second:
            self._second = second
            self._text = date_and_time(second)
        return f"{self._text}.{rest // 1000:06d}Z"


class Writer:
    """The one that appends lines to the files of a log."""

    def __init__(
        self,
        directory: Path,
        keys: Keys,
        found: ResumePoint,
        in_flight: InFlight,
        options: WriterOptions,
        clock: AuditClock,
        run: str = "",
    ) -> None:
        """Go on where the last process ended; every line names the run. Raises `OSError`."""
        self._directory = directory
        self._keys = keys
        self._options = options
        self._clock = clock
        self._stamps = TimestampFormatter(clock)
        self._in_flight = in_flight
        # Beside the number and the time: these three are the same for every kind of line.
        self._run = f'"run":"{run}",' if run else ""
        self._chain = Chain(keys.line, found.next_seq - 1, found.end.mac)
        self._file = found.end.file
        self._offset = found.offset
        # The head first: a log without lines is then one that has a head and says so.
        self._head = CheckpointFile(directory, keys.head, found.end, is_fresh=found.is_fresh)
        # A kill between the lines and the head leaves the head behind: a start that wrote nothing would leave
        # these lines open to be cut. Where there is a gap, its line comes first, and confirms them.
        if found.gap is None:
            self._head.commit(found.end)
        self._descriptor = files.open_to_append(directory, found.end.file)
        self._lines: list[bytes] = []
        self._owners: list[tuple[str, int]] = []
        self._recorded: list[int] = []
        self._waiting = 0
        self._dropped = 0
        self.lost = 0
        """Lines that were dropped since the start."""
        self.failures = 0
        """Writes that the kernel refused since the start."""
        self._loose = 0
        self._batch = found.next_seq
        self.trouble: WriteTrouble | None = None

    def add(self, body: str, owner: str = "", slot: int = NO_SLOT, *, stands_for: int = 1) -> int:
        """Put a line behind the others; returns its bytes, 0 when it had to be dropped.

        `owner` is the sandbox it is about, `slot` is freed when the kernel has the line, `stands_for` is
        how many refusals it tells of.
        """
        if self.trouble is not None and not self._has_room():
            self._drop(slot)
            return 0
        line = self._chain.seal(self._stamps.now(), self._run + body)
        if slot:
            self._in_flight.mark(slot, self._chain.seq)
        else:
            self._loose += stands_for
            self._in_flight.set_count(LOOSE, self._batch << 16 | min(self._loose, MAX_LOOSE_REFUSALS))
        self._lines.append(line)
        self._owners.append((owner, slot))
        self._waiting += len(line)
        self._options.on_line(line, owner)
        if len(self._lines) >= MAX_UNFLUSHED_LINES:
            self.flush()
        return len(line)

    @property
    def newest(self) -> int:
        """The number of the newest line, written or waiting."""
        return self._chain.seq

    @property
    def mac(self) -> bytes:
        """The MAC of that line."""
        return self._chain.mac

    def close_off(self) -> None:
        """End a line that was cut short, so that the next one begins at the start of a line."""
        self._lines.append(CLOSING)
        self._owners.append(("", NO_SLOT))
        self._waiting += len(CLOSING)

    def is_stopped(self, sandbox: str) -> bool:
        """True if this sandbox must not work, because its lines could not be written."""
        trouble = self.trouble
        return trouble is not None and not trouble.stopped.isdisjoint((sandbox, EVERY_SANDBOX))

    def flush(self) -> None:
        """Hand the waiting lines to the kernel; does not raise when it does not take them."""
        if self.trouble is not None and self._clock.monotonic() < self.trouble.retry_at:
            return
        while (self._lines or self.trouble is not None) and self._write():
            if self.trouble is not None:
                self._recovered(self.trouble)
            elif self._offset >= self._options.rotate_at:
                self._rotate()

    def carry_dropped(self, dropped: int) -> None:
        """Record lines that a process before this one dropped and could not record."""
        self._dropped = dropped
        self._say_dropped()

    def close(self) -> None:
        """Flush, bring the files to the disk, and let go of them."""
        self.flush()
        with suppress(OSError):
            os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._head.close()

    # A write ------------------------------------------------------------------------------------

    def _write(self) -> bool:
        """Write the waiting lines; True if the kernel took every byte."""
        data = b"".join(self._lines)
        end = self._end(len(data))
        try:
            # Announced first: after a kill, lines missing up to this end are a gap, and not a cut.
            self._head.announce(end)
            self._append(data)
            self._head.commit(end)
        except OSError as error:
            self._stuck(error)
            return False
        finally:
            self._free()
        return True

    def _end(self, further: int) -> LogPosition:
        """The end of the log after so many more bytes."""
        return LogPosition(self._chain.seq, self._file, self._offset + further, self._chain.mac)

    def _append(self, data: bytes) -> None:
        done = 0
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:] if done else data)
        finally:
            # Bytes taken before an error are in the file: counted here, they are never written twice.
            self._offset += done
            self._waiting -= done
            self._taken(
                *((len(self._lines), 0) if done == len(data) else count_whole_lines(self._lines, done))
            )

    def _taken(self, count: int, further: int) -> None:
        """Let go of so many lines, and of so many bytes of the next one."""
        self._recorded += [slot for _, slot in self._owners[:count] if slot]
        del self._lines[:count], self._owners[:count]
        if self._lines:
            self._lines[0] = self._lines[0][further:]
        else:
            self._batch = self._chain.seq + 1
            self._loose = 0

    def _free(self) -> None:
        for slot in self._recorded:
            self._in_flight.free(slot)
        self._recorded.clear()

    # A full disk --------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return self._options.on_full == "stop" and self._waiting < MAX_WAITING_BYTES

    def _drop(self, slot: int) -> None:
        self._dropped += 1
        self.lost += 1
        self._in_flight.set_count(DROPPED, self._dropped)
        if slot:
            self._in_flight.free(slot)

    def _stuck(self, error: OSError) -> None:
        self.failures += 1
        now = self._clock.monotonic()
        stops = self._options.on_full == "stop"
        if self.trouble is None:
            reason = errno.errorcode.get(error.errno or 0, "unknown")
            self.trouble = WriteTrouble(reason, now, now + RETRY_INTERVAL, set())
            owner = self._owners[0][0] if self._owners else ""
            if stops:
                self.trouble.stopped.add(owner or EVERY_SANDBOX)
        elif stops:
            # A second failure in a row is not about one large line: the disk is full for every sandbox.
            self.trouble.stopped.add(EVERY_SANDBOX)
        self.trouble.retry_at = now + RETRY_INTERVAL

    def _recovered(self, trouble: WriteTrouble) -> None:
        self.trouble = None
        stopped = "all" if EVERY_SANDBOX in trouble.stopped else "one" if trouble.stopped else "none"
        lasted = int((self._clock.monotonic() - trouble.since) * 1000)
        self.add(lines.resumed(trouble.reason, stopped, lasted))
        self._say_dropped()

    def _say_dropped(self) -> None:
        if self._dropped:
            self.add(lines.dropped(self._dropped), stands_for=self._dropped)
            self._dropped = 0
            self._in_flight.set_count(DROPPED, 0)

    # Rotation -----------------------------------------------------------------------------------

    def begin_file(self) -> None:
        """Go on in a further file, so that this one can be deleted. A full disk is not an error here."""
        self.flush()
        if self.trouble is None:
            self._rotate()

    def _rotate(self) -> None:
        """Go on in the next file; a failure leaves everything as it is until the next flush."""
        try:
            descriptor = files.open_to_append(self._directory, self._file + 1)
        except OSError:
            return
        # The old file is closed only now: while no new one can be opened, lines still have a file.
        os.close(self._descriptor)
        self._descriptor, self._offset = descriptor, 0
        full, self._file = files.name(self._file), self._file + 1
        self.add(lines.rotated(full, self._chain.mac.hex()))
        if self._write():
            with suppress(OSError):
                self._retain()

    def _retain(self) -> None:
        """Delete the oldest files beyond those to keep, unless somebody is pruning the log just now."""
        keep = self._options.keep
        if not keep or len(files.numbers(self._directory)) <= keep:
            return
        descriptor = files.lock_oldest(self._directory)
        if descriptor is None:
            return
        try:
            self._delete(files.numbers(self._directory), keep)
        finally:
            os.close(descriptor)

    def _delete(self, there: list[int], keep: int) -> None:
        """Delete all but the newest files."""
        if len(there) > keep:
            at = self._clock.now_ns()
            # The same call writes the anchor before a file goes: a deletion always has a record.
            recorded_pruning.delete_files(
                self._directory, self._keys, there[:-keep], there[-keep], recorded_pruning.PROXY, at
            )


def count_whole_lines(waiting: list[bytes], size: int) -> tuple[int, int]:
    """How many lines so many bytes are, and how many bytes of the next line."""
    for count, line in enumerate(waiting):
        if size < len(line):
            return count, size
        size -= len(line)
    return len(waiting), size
