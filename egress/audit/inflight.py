"""Requests under way, in a small file mapped into memory: the next start finds there what a kill cut off.

A slot is taken before anything is sent upstream and freed when the line that records it has been taken
by the kernel. What was stored in a shared mapping is in the kernel's hands at once, so a kill of the
process loses nothing; a power failure may.

Each slot begins with one word that is changed in a single store, always last:

    0                 free
    UNRECORDED        under way
    N                 its line is number N; recorded if that line is in the log, lost if it is not

so a kill between writing a line and freeing its slot does not record the exchange twice. The file is
filled whenever it is made or made larger: a mapping of a file with holes would end the process with SIGBUS
when the disk is full.

There are more slots as soon as more is under way. How much a sandbox may have under way is decided elsewhere
(`egress.shares.pool`).

The first block holds counters of what has no slot: refusals in the lines that are not written yet,
refusals that are being folded, and lines that were dropped.
"""

from __future__ import annotations

import json
import mmap
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from pathlib import Path

from egress.audit.fields import CUT_MARK, MAX_ID, MAX_NAME, MAX_SECRETS
from egress.audit.files import IN_FLIGHT
from egress.audit.reported_facts import AuditStoppedError, Intent

SLOT = 1024
"""Bytes of a slot; the first block of the file has as many."""
WORDS = SLOT // 8
STATE, SENT, LENGTH, BEGAN = 0, 1, 2, 3
TEXT_OFFSET = 32
"""Where the text of a slot begins, behind its words."""
MAX_TEXT_BYTES = SLOT - TEXT_OFFSET
UNRECORDED = (1 << 64) - 1
LOOSE, FOLDED, DROPPED = 0, 1, 2
MAX_LOOSE_REFUSALS = 0xFFFF
MAX_SLOTS = 64 * 1024
"""Slots that the file may grow to: 64 MiB."""


@dataclass(frozen=True, slots=True)
class LeftoverSlot:
    """A slot that an earlier process did not free."""

    slot: int
    line: int
    """The number of the line that was to record it; 0 when there was none yet."""
    opening: Intent
    began: int
    """UTC nanoseconds."""
    sent: bool


class InFlight:
    """The mapped file of the one process that writes."""

    __slots__ = ("_free", "_map", "_path", "_words", "slots")

    def __init__(self, directory: Path, slots: int) -> None:
        """Map the file, made or made larger when it has to be. Raises `OSError`."""
        self._path = directory / IN_FLIGHT
        self._map_file(slots)
        states = self._words[WORDS::WORDS]
        # A slot that a killed process left is not free: its request still has to be recorded.
        self._free = [slot for slot in range(self.slots, 0, -1) if not states[slot - 1]]

    def _map_file(self, slots: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            # Never smaller than before: what was under way must be found.
            slots = max(slots, os.fstat(descriptor).st_size // SLOT - 1)
            size = (slots + 1) * SLOT
            # Filled, not only extended: a hole would end the process with SIGBUS on a full disk.
            os.posix_fallocate(descriptor, 0, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self.slots = slots
        self._words = memoryview(self._map).cast("Q")

    @property
    def has_free_slot(self) -> bool:
        """A slot is free, or can be made."""
        return bool(self._free) or self.slots < MAX_SLOTS

    def _grow(self) -> None:
        """Make more slots. The old mapping stays until the new one stands: nothing that it holds is lost."""
        before, mapped, words = self.slots, self._map, self._words
        try:
            self._map_file(min(2 * before, MAX_SLOTS))
        except OSError:
            raise AuditStoppedError("the audit cannot keep track of more that is under way") from None
        words.release()
        mapped.close()
        self._free = list(range(self.slots, before, -1))

    def take(self, opening: Intent, began: int) -> int:
        """Note what is about to be sent. Raises `AuditStoppedError` when there can be no more slots."""
        if not self._free:
            if self.slots >= MAX_SLOTS:
                raise AuditStoppedError("too much is under way at once for the audit to keep track of it")
            self._grow()
        text = _packed(opening)
        if len(text) > MAX_TEXT_BYTES:
            text = _short(opening)
        slot = self._free.pop()
        at = slot * SLOT + TEXT_OFFSET
        self._map[at : at + len(text)] = text
        words, word = self._words, slot * WORDS
        words[word + LENGTH] = len(text)
        words[word + BEGAN] = max(began, 0)
        words[word + SENT] = 0
        # The state is stored last: a kill before it leaves a free slot, never a half-written one.
        words[word] = UNRECORDED
        return slot

    def sent(self, slot: int) -> None:
        """Note that the first byte goes out now."""
        self._words[slot * WORDS + SENT] = 1

    def mark(self, slot: int, line: int) -> None:
        """Note the number of the line that will record it."""
        self._words[slot * WORDS] = line

    def free(self, slot: int) -> None:
        """Release a slot, after the kernel has taken its line."""
        self._words[slot * WORDS] = 0
        self._free.append(slot)

    def leftovers(self) -> list[LeftoverSlot]:
        """The slots that an earlier process did not free."""
        taken = (slot for slot in range(1, self.slots + 1) if self._words[slot * WORDS])
        return [self._read(slot) for slot in taken]

    def count(self, counter: int) -> int:
        return self._words[counter]

    def set_count(self, counter: int, value: int) -> None:
        self._words[counter] = value

    def close(self) -> None:
        """Let go of the file, and shorten it to its counters if nothing is under way."""
        is_empty = len(self._free) == self.slots
        self._words.release()
        self._map.close()
        if is_empty:
            # Finished runs would leave 4 MiB each. A failure costs only the space.
            with suppress(OSError):
                _shorten(self._path)

    def _read(self, slot: int) -> LeftoverSlot:
        word, at = slot * WORDS, slot * SLOT + TEXT_OFFSET
        line, sent, length, began = self._words[word : word + 4]
        opening = _parsed(bytes(self._map[at : at + min(length, MAX_TEXT_BYTES)]))
        return LeftoverSlot(slot, 0 if line == UNRECORDED else line, opening, began, bool(sent))


def is_settled(directory: Path) -> bool:
    """Return whether the last writer of a chain closed it with nothing under way. Raises `OSError`."""
    try:
        return (directory / IN_FLIGHT).stat().st_size <= SLOT
    except FileNotFoundError:
        return True


def _shorten(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, SLOT)
    finally:
        os.close(descriptor)


def _packed(opening: Intent) -> bytes:
    """An opening as text; the parts that come back again and again are kept."""
    o = opening
    ids = f"[{_quoted(o.request, MAX_ID)},{_quoted(o.connection, MAX_ID)}"
    return (ids + _repeated(o.sandbox, o.host, o.port, o.method, o.secrets)).encode("ascii")


@lru_cache(1024)
def _repeated(sandbox: str, host: str, port: int, method: str, secrets: tuple[str, ...]) -> str:
    names = ",".join(_quoted(secret) for secret in secrets[:MAX_SECRETS])
    return f",{_quoted(sandbox, MAX_ID)},{_quoted(host)},{port:d},{_quoted(method)},[{names}]]"


def _quoted(text: str, limit: int = MAX_NAME) -> str:
    """A text as JSON in ASCII; a longer one is cut and marked."""
    return encode_basestring_ascii(text if len(text) <= limit else text[:limit] + CUT_MARK)


def _short(opening: Intent) -> bytes:
    """The same of an opening that does not fit: as many secrets as do, then less of every text."""
    for most in (8, 4, 2, 1, 0):
        text = _packed(replace(opening, secrets=(*opening.secrets[:most], CUT_MARK)))
        if len(text) <= MAX_TEXT_BYTES:
            return text
    o = opening
    cut = Intent(
        o.request[:20], o.connection[:20], o.sandbox[:20], o.host[:40], o.port, o.method[:8], (CUT_MARK,)
    )
    return _packed(cut)


def _parsed(text: bytes) -> Intent:
    """Parse the text of a slot. The file has no MAC, so its content is not trusted."""
    try:
        request, connection, sandbox, host, port, method, secrets = json.loads(text)
        names = tuple(str(secret) for secret in secrets)
        port = int(port) & 0xFFFF
        return Intent(str(request), str(connection), str(sandbox), str(host), port, str(method), names)
    except (ValueError, TypeError, RecursionError):
        return Intent("", "", "", "", 0)
