"""The audit as the proxy sees it: one line for everything that was tried, in order, and never twice.

Whoever sends something upstream takes a ticket first (`begin`), and the line that says what came of it
spends the ticket. Lines wait until `flush`, which the caller schedules, once per turn of its event loop;
`tick` is due once a second. Nothing here knows an event loop, and nothing here is safe to call from two
threads.

A kill of the process (SIGKILL) loses no exchange: each is either a line or, at the next start, a `lost`
line. Of refusals that were made in the very turn of the kill it knows how many there were. A failure of
the power is another matter: what the kernel had not yet brought to the disk may be gone, and shows as
lines that are missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from egress.audit import files, lines
from egress.audit.chain import Keys
from egress.audit.clock import AuditClock
from egress.audit.files import Pruning
from egress.audit.flood_limit import DailyQuota, RefusalCounter
from egress.audit.gaps import Gap, GapKind
from egress.audit.inflight import DROPPED, FOLDED, LOOSE, UNRECORDED, InFlight
from egress.audit.recorded_pruning import PendingPrunings
from egress.audit.reported_facts import (
    AuditCounts,
    AuditStoppedError,
    ExchangeFacts,
    Intent,
    RefusalFacts,
    Ticket,
    TunnelFacts,
)
from egress.audit.resume_point import ResumePoint, find_resume_point
from egress.audit.writer import (
    NO_SLOT,
    OnFull,
    OnLine,
    TimestampFormatter,
    Writer,
    WriterOptions,
    forget_line,
)
from egress.errors import UnreadableError, reason_of
from egress.exchange import ExchangeRecord
from egress.run_ticket import mask_tickets
from egress.types import Identity, Verdict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


DAY = 86_400 * 1_000_000_000
MEBIBYTE = 1024 * 1024


class SinkOptions(TypedDict, total=False):
    """How a chain is kept."""

    in_flight: int
    """How many exchanges may be under way at once; 4096 by default."""
    rotate_at: int
    """Bytes after which a further file is begun; 64 MiB by default."""
    keep: int
    """How many files are kept, the newest one included; 0, the default, for all."""
    quota: int
    """Bytes that each sandbox may write in a UTC day; 0, the default, for no bound."""
    on_line: OnLine
    """Told each line, from the first that the opening writes."""
    on_full: OnFull
    """Whether sandboxes are stopped when the disk is full (the default), or lines are dropped and counted."""


class Sink:
    """The audit log of one process."""

    def __init__(
        self,
        lock: int,
        in_flight: InFlight,
        writer: Writer,
        untold: PendingPrunings,
        clock: AuditClock,
        quota: int,
    ) -> None:
        """For `open`."""
        self._lock = lock
        self._in_flight = in_flight
        self._writer = writer
        self._untold = untold
        self._clock = clock
        self._stamps = TimestampFormatter(clock)
        self._folder = RefusalCounter()
        self._quota = DailyQuota(quota)
        self._tally = AuditCounts()
        self.hide: RedactName = keep_name
        """What the names that sandboxes ask for go through before they are written; whoever knows sets it."""
        self.folder = Path()
        """The folder of the chain, which no other process writes to."""
        self.is_damaged = False
        """The start found more amiss than what a kill leaves behind."""
        self.run = ""
        """The id of the run, which every line names."""
        self.chains = 1
        """How many chains the log had at the start; whoever opens one of several chains sets it."""
        self.on_exchange: OnExchange = forget_exchange
        """What each exchange is told to that has a line, with its names as they may be read."""
        self.on_closed: OnClosed = forget_end
        """What the end of the chain is told to."""

    @classmethod
    def open(
        cls,
        directory: Path,
        key: bytes,
        *,
        clock: AuditClock,
        run: str = "",
        lock: int | None = None,
        **options: Unpack[SinkOptions],
    ) -> Self:
        """Become the writer of the chain in this folder, and record what a process before this one left.

        Args:
            directory: made when it is missing; at most one process writes to it.
            key: 32 bytes, as `key.read_or_create` gives them.
            clock: stamps and seconds come from it.
            run: the id of the run, which every line names: letters, digits and dashes.
            lock: the writer lock of the folder, which the sink keeps; taken here where it is None.
            options: how the chain is kept.

        Raises `UnreadableError` when there is another writer, the key is wrong or the folder cannot be used.
        """
        try:
            if lock is None:
                directory.mkdir(mode=0o750, parents=True, exist_ok=True)
                lock = files.lock(directory)
            return cls._open(directory, key, clock, run, lock, options)
        except OSError as error:
            raise UnreadableError(
                f"the audit log in {directory} cannot be opened: {reason_of(error)}",
                "nothing is let through without it; make the folder writable, with space on its disk, "
                "or name another with --audit-dir",
            ) from None

    @classmethod
    def _open(
        cls, directory: Path, key: bytes, clock: AuditClock, run: str, lock: int, options: SinkOptions
    ) -> Self:
        try:
            keys = Keys.of(key)
            found = find_resume_point(directory, keys)
            in_flight = InFlight(directory, options.get("in_flight", 4096))
            kept = WriterOptions(
                options.get("rotate_at", 64 * MEBIBYTE),
                options.get("keep", 0),
                options.get("on_full", "stop"),
                options.get("on_line", forget_line),
            )
            writer = Writer(directory, keys, found, in_flight, kept, clock, run)
        except BaseException:
            os.close(lock)
            raise
        _report(found, in_flight, writer, TimestampFormatter(clock))
        sink = cls(
            lock, in_flight, writer, PendingPrunings(directory, keys.anchor), clock, options.get("quota", 0)
        )
        sink.run, sink.folder = run, directory
        sink.is_damaged = found.gap is not None and found.gap.kind != "killed"
        sink._tell_prunings()
        return sink

    # Questions of the proxy ---------------------------------------------------------------------

    def may_work(self, sandbox: str) -> bool:
        """True if the requests of this sandbox can be recorded. A full disk is tried again here."""
        if self._writer.trouble is not None:
            self._writer.flush()
            if self._writer.is_stopped(sandbox):
                return False
        if not self._in_flight.has_free_slot:
            # Slots whose lines wait to be written are still taken.
            self._writer.flush()
        return self._in_flight.has_free_slot and not self._is_spent(sandbox)

    @property
    def trouble(self) -> str:
        """Why the log cannot be written at the moment, as `ENOSPC`; empty when it can."""
        return self._writer.trouble.reason if self._writer.trouble is not None else ""

    @property
    def write_failures(self) -> int:
        """How many writes the kernel has refused since the start."""
        return self._writer.failures

    @property
    def newest(self) -> int:
        """The number of the newest line."""
        return self._writer.newest

    @property
    def newest_mac(self) -> bytes:
        """The MAC of that line."""
        return self._writer.mac

    @property
    def tally(self) -> AuditCounts:
        """A copy of the counts since the start."""
        return replace(self._tally, unrecorded=self._tally.unrecorded + self._writer.lost)

    def begin(self, opening: Intent) -> Ticket:
        """Take a ticket, before anything is sent upstream.

        Raises `AuditStoppedError` when `may_work` says no: then nothing may be sent.
        """
        if not self.may_work(opening.sandbox):
            raise AuditStoppedError("what this sandbox does cannot be recorded now, so it may do nothing")
        shown = redact_fields(opening, self.hide, opening.sandbox, "host")
        return Ticket(self._in_flight.take(shown, self._clock.now_ns()))

    def sent(self, ticket: Ticket) -> None:
        """Say that the first byte goes upstream now."""
        if not ticket.is_spent:
            self._in_flight.sent(ticket.slot)

    # Reports of the proxy -----------------------------------------------------------------------

    def exchange(self, ticket: Ticket | None, record: ExchangeRecord, facts: ExchangeFacts) -> None:
        """Record an exchange. Raises `ValueError` for a ticket that was spent before."""
        slot = _spend(ticket)
        tally = self._tally
        tally.exchanges += 1
        if record.injected:
            tally.with_secret += 1
        tally.refused += record.verdict is Verdict.DENY
        tally.cut += record.verdict is Verdict.CUT
        # An exchange without a slot was never sent: a sandbox can make any number, so these may be folded.
        if slot == NO_SLOT and not self._admit(record.identity, record.code):
            return
        try:
            sandbox = record.identity.sandbox
            to = redact_fields(record.destination, self.hide, sandbox, "host")
            record = record if to is record.destination else replace(record, destination=to)
            way = redact_fields(facts.way, self.hide, sandbox, "sni")
            facts = facts if way is facts.way else replace(facts, way=way)
            self._put(lines.exchange(record, facts), sandbox, slot)
        except BaseException:
            tally.unrecorded += 1
            raise
        self.on_exchange(record, facts)

    def tunnel(self, ticket: Ticket | None, value: TunnelFacts) -> None:
        """Record a tunnel that has ended. Raises `ValueError` for a ticket that was spent before."""
        self._tally.tunnels += 1
        self._tally.refused += value.verdict is Verdict.DENY
        self._tally.cut += value.verdict is Verdict.CUT
        shown = redact_fields(value, self.hide, value.identity.sandbox, "host", "sni")
        self._put(lines.tunnel(shown), value.identity.sandbox, _spend(ticket))

    def refusal(self, value: RefusalFacts) -> None:
        """Record a connection that the door refused, or a DNS name."""
        self._tally.refused += 1
        if self._admit(value.identity, value.code):
            shown = redact_fields(value, self.hide, value.identity.sandbox, "host", "sni")
            self._put(lines.refusal(shown), value.identity.sandbox, NO_SLOT)

    def gap(self, kind: GapKind) -> None:
        """Record damage beside the lines of this chain, for as long as its file is kept."""
        self.is_damaged = True
        self._writer.add(lines.gap(kind, None, 0, (0, ""), self._writer.mac.hex()))

    def event(self, kind: str, /, **facts: str | int | None) -> None:
        """Record something that happened to the proxy. Raises `ValueError` for one that `EVENTS` has not."""
        self._writer.add(lines.event(kind, facts))

    # Calls from the proxy's loop ----------------------------------------------------------------

    def flush(self) -> None:
        """Hand all lines to the kernel. A full disk is not an error here: see `may_work`."""
        self._writer.flush()

    def tick(self) -> None:
        """Once a second: record what was folded and what was pruned, and try a full disk again."""
        self._fold(self._clock.monotonic())
        self._writer.flush()
        self._tell_prunings()

    def begin_file(self) -> None:
        """Go on in a further file of the chain."""
        self._writer.begin_file()

    def close(self) -> None:
        """Write all there is and let go of the log; the last event is the caller's to write."""
        self._fold(float("inf"))
        self._writer.close()
        self._in_flight.close()
        try:
            # With the lock still held: the next writer of the chain would tell a later end before us.
            if self._writer.trouble is None:
                self.on_closed(self.newest, self.newest_mac)
        finally:
            os.close(self._lock)

    # Inside -------------------------------------------------------------------------------------

    def _put(self, body: str, sandbox: str, slot: int) -> None:
        size = self._writer.add(body, sandbox, slot)
        if self._quota.limit and self._quota.spend(sandbox, size, self._day()):
            used, limit = self._quota.used(sandbox), self._quota.limit
            facts: dict[str, str | int | None] = {"sandbox": sandbox, "reason": "quota", "bytes": used}
            self._writer.add(lines.event("sandbox.stopped", {**facts, "quota": limit}))

    def _admit(self, identity: Identity, code: str) -> bool:
        """True if a refusal is to be written by itself; otherwise it has been counted."""
        is_slow = self._writer.trouble is not None or self._is_spent(identity.sandbox)
        now = self._clock.monotonic()
        if self._folder.admit(identity.sandbox, code, now, self._stamps.now(), is_slow=is_slow):
            return True
        self._in_flight.set_count(FOLDED, self._folder.waiting)
        return False

    def _fold(self, now: float) -> None:
        # While the disk is full the counts wait in memory, where they take no more room.
        if self._writer.trouble is not None:
            return
        for folded in self._folder.take_due(now):
            body = lines.folded(folded.sandbox, folded.code, folded.count, folded.began)
            self._writer.add(body, folded.sandbox, stands_for=folded.count)
        self._in_flight.set_count(FOLDED, self._folder.waiting)

    def _tell_prunings(self) -> None:
        # Left for later where it cannot be done now: the anchor keeps it.
        if self._writer.trouble is None:
            with suppress(OSError):
                self._untold.record_due(self._tell_pruning)

    def _tell_pruning(self, value: Pruning) -> bool:
        self._writer.add(lines.pruned(value, self._stamps.at(value.at)))
        self._writer.flush()
        return self._writer.trouble is None

    def _is_spent(self, sandbox: str) -> bool:
        return bool(self._quota.limit) and self._quota.is_spent(sandbox, self._day())

    def _day(self) -> int:
        return self._clock.now_ns() // DAY


def _spend(ticket: Ticket | None) -> int:
    if ticket is None:
        return NO_SLOT
    if ticket.is_spent:
        raise ValueError("this ticket was spent: an exchange is recorded once")
    ticket.is_spent = True
    return ticket.slot


def _report(found: ResumePoint, in_flight: InFlight, writer: Writer, stamps: TimestampFormatter) -> None:
    """Say what a process before this one left behind.

    First every slot forgets the number of a line that was never written: from here on the numbers are
    given anew. A kill in the middle of this leaves the next start with the same to say, and nothing twice.
    """
    left = []
    for slot in in_flight.leftovers():
        if slot.line and slot.line <= found.end.seq:
            in_flight.free(slot.slot)
        else:
            in_flight.mark(slot.slot, UNRECORDED)
            left.append(slot)
    _report_gap(found, in_flight, writer)
    for slot in left:
        body = lines.lost(slot.opening, stamps.at(slot.began), sent=slot.sent)
        writer.add(body, slot.opening.sandbox, slot.slot)
    writer.carry_dropped(in_flight.count(DROPPED))
    writer.flush()


def _report_gap(found: ResumePoint, in_flight: InFlight, writer: Writer) -> None:
    batch, count = divmod(in_flight.count(LOOSE), 1 << 16)
    # Announced lines are in the range that the gap names.
    refusals = in_flight.count(FOLDED) + (count if batch >= found.next_seq else 0)
    gap = found.gap or (Gap("killed") if refusals else None)
    if gap is not None:
        if gap.size:
            writer.close_off()
        body = lines.gap(gap.kind, gap.missing, refusals, (gap.size, gap.digest), found.end.mac.hex())
        writer.add(body, stands_for=max(refusals, 1))
    in_flight.set_count(FOLDED, 0)


OnExchange = Callable[[ExchangeRecord, ExchangeFacts], None]


def forget_exchange(_record: ExchangeRecord, _facts: ExchangeFacts) -> None:
    """Do nothing."""


OnClosed = Callable[[int, bytes], None]
"""Number and MAC of the newest line."""


def forget_end(_seq: int, _mac: bytes) -> None:
    """Do nothing."""


# Redaction of names that a sandbox asked for: a name can carry text that must not be read in a log.
#
# The audit does not know this text: the caller, who knows which canaries each sandbox has, passes `hide`.
RedactName = Callable[[str, str], str]
"""Sandbox and text to the text as it may be written."""


def keep_name(_: str, text: str) -> str:
    """The text."""
    return text


def redact_fields[T: DataclassInstance](value: T, hide: RedactName, sandbox: str, *fields: str) -> T:
    """The value with these fields as they may be written; itself where that is what they are."""
    changes = {}
    for field in fields:
        said = getattr(value, field)
        # A client whose proxy is misspelt takes its ticket for the name of a host.
        shown = hide(sandbox, mask_tickets(said)) if said else said
        if shown != said:
            changes[field] = shown
    return replace(value, **changes) if changes else value
