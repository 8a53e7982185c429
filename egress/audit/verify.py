"""Checking a log: every line that was written is there, as it was written, in its order.

It works on the bytes of the files, beginning at the first line or at the anchor, and goes on behind
a fault so that one change is one fault. It changes nothing, and may run while the proxy writes.

A log is sound when each line follows from the one before it and the newest line that the head knows is
there. Lines that the head only announced may be missing: that is a process which was killed, and the
next start will record it as a gap. A gap of the kind `killed` is sound and accounts for the fragment of
a line in front of it; every other gap says that a start found the log damaged, and stays a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from egress.audit import chain_count, checkpoint, files
from egress.audit.chain import TAIL, ZERO_MAC, Chain, Keys, ParsedLine, is_authentic, mac_in, parse_line
from egress.audit.chain_register import RegisteredLine
from egress.audit.checkpoint import Checkpoint
from egress.audit.files import Pruning
from egress.audit.gaps import Fragment, Gap, gap_in
from egress.audit.quick_verify import BatchVerifier, is_plain, read_batches, split_lines
from egress.audit.resume_point import previous_mac_in
from egress.audit.verified_digest import ExtentDigest, VerifiedExtent
from egress.errors import UnreadableError, reason_of

FaultKind = Literal[
    "altered", "missing", "cut", "foreign", "file", "head", "anchor", "gap", "chain", "register"
]

MAX_FAULTS = 1000
"""So many are told one by one: whoever can write to the folder can make any number of them."""
KEEP_HINT = "keep the folder as it is, and compare it with a copy from another place"
HINTS: dict[FaultKind, str] = {
    "altered": KEEP_HINT,
    "missing": KEEP_HINT,
    "cut": f"{KEEP_HINT}; after a power failure this can be what had not reached the disk",
    "foreign": f"{KEEP_HINT}; only the proxy may write here, so look for log rotation or editors",
    "file": "bring the file back; to keep fewer files use the setting of the proxy, which moves the anchor",
    "head": "without it a cut tail is not seen; the next start makes a new one and records that",
    "anchor": "without it nobody knows where the log begins; bring it back from a copy",
    "chain": "bring its folder back from a copy; a chain is pruned, and never deleted as a whole",
    "register": "without it a deleted chain is not seen; the next start makes a new one and records that",
    "gap": "find out what happened before that start; this stays a fault as long as the file is kept",
}
GAP_MESSAGES = {
    "cut": "the start that wrote this found the end of the log cut off",
    "altered": "the start that wrote this found the end of the log changed",
    "foreign": "the start that wrote this found bytes behind the log that no proxy wrote",
    "head": "the start that wrote this found the head missing or damaged",
    "register": "the start that wrote this found the register of chains missing or damaged",
}


class NoLogError(UnreadableError):
    """A folder holds no log."""

    @classmethod
    def of(cls, directory: Path) -> Self:
        return cls(f"there is no audit log in {directory}", "name its folder with --dir")


@dataclass(frozen=True, slots=True)
class LogFault:
    """A fault of a log, with its place."""

    file: str
    line: int
    """0 where it is about the file as a whole."""
    kind: FaultKind
    message: str

    @property
    def hint(self) -> str:
        """The cure of this kind of fault."""
        return HINTS[self.kind]

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification."""

    lines: int
    files: int
    faults: tuple[LogFault, ...]
    newest: int
    """The number of the last line that is authentic."""
    mac: str
    """Its MAC: kept in another place, it shows a log that was put back to an older state."""
    unfinished: int
    """Lines that were announced and are not there: a process was killed, or is writing just now."""
    pruning: Pruning | None = None
    """Where old files were deleted: who did it last, when, and how far."""
    chains: int = 0
    """The most chains that a start in this chain counted."""
    seen: tuple[VerifiedExtent, ...] = ()
    """Every file that was gone over, where that was asked for."""
    starts: frozenset[bytes] = frozenset()
    """The MAC of the first line of each file: no two chains have one in common."""

    @property
    def is_sound(self) -> bool:
        return not self.faults


def verify(
    directory: Path, key: bytes, *, keeps_seen: bool = False, registered: RegisteredLine | None = None
) -> Verification:
    """Check the chain in a folder. Raises `UnreadableError` when there is none, or for another key.

    `keeps_seen` is for who reads the lines again: it costs a digest of every file. `registered` is a line
    that the chain must have, unless it was pruned.
    """
    try:
        return _verify(directory, Keys.of(key), registered or RegisteredLine(), keeps_seen=keeps_seen)
    except OSError as error:
        raise UnreadableError(
            f"the audit log in {directory} cannot be read: {reason_of(error)}", "name its folder with --dir"
        ) from None


def _verify(directory: Path, keys: Keys, registered: RegisteredLine, *, keeps_seen: bool) -> Verification:
    # Read before the files: what is written meanwhile can only be more.
    data = checkpoint.read(directory)
    known = checkpoint.decode(data or b"", keys.head)
    there = files.numbers(directory)
    # A folder without a head and without files is a wrong path, and must not pass for a sound, empty log.
    if data is None and not there:
        raise NoLogError.of(directory)
    walk = _Walk(Chain(keys.line), BatchVerifier(keys.line), known, _points(known, registered))
    first, pruning = _start(walk, directory, keys, there)
    # A crash during a pruning can leave files before the anchor: they are no part of the log any more.
    there = [number for number in there if number >= first]
    due, seen = first, list[VerifiedExtent]()
    for number in there:
        looking = ExtentDigest() if keeps_seen else None
        walk.missing(due, number)
        walk.file(directory, number, looking)
        seen += [looking.extent(number)] if looking else []
        due = number + 1
    # The head names the newest file, so a file deleted from the end of the log is noticed, too.
    walk.missing(due, known.written.file + 1 if known and known.written.seq else due)
    # No authentic line and no readable head: the key is wrong, rather than every single byte changed.
    if known is None and walk.bad and not walk.lines:
        raise UnreadableError(
            f"the audit log in {directory} was not written with this key", "give the right one with --key"
        )
    _end(walk, known, registered, directory, keys)
    return Verification(
        walk.lines,
        len(there),
        walk.told(),
        walk.seq,
        walk.mac.hex(),
        walk.unfinished,
        pruning,
        walk.chains,
        tuple(seen),
        frozenset(walk.starts),
    )


def _points(known: Checkpoint | None, registered: RegisteredLine) -> dict[int, tuple[bytes, str]]:
    """Return the lines whose MACs are known from elsewhere, each with the file that knows it."""
    points = {registered.seq: (registered.mac, "register")} if registered.seq else {}
    return points | ({known.written.seq: (known.written.mac, "head")} if known else {})


def _start(walk: _Walk, directory: Path, keys: Keys, there: list[int]) -> tuple[int, Pruning | None]:
    """The first file of the log, and who deleted those before it."""
    try:
        anchor = files.read_anchor(directory, keys.anchor)
    except ValueError:
        # A forged anchor could hide deleted files: the walk goes on at the first file, and the fault stays.
        walk.fault(files.ANCHOR, 0, "anchor", "the anchor was changed, or belongs to another log")
        walk.broken = True
        return (there[0] if there else 1), None
    if anchor is None:
        return 1, None
    walk.mac, walk.seq = anchor.mac, -1
    return anchor.file, anchor.pruning


def _end(
    walk: _Walk, known: Checkpoint | None, registered: RegisteredLine, directory: Path, keys: Keys
) -> None:
    """Compare where the files end with what the head said before, and with what it says now."""
    # The head is read a second time: lines announced since the first reading are a write in progress.
    now = checkpoint.read(directory)
    later = checkpoint.decode(now or b"", keys.head)
    if known is None or later is None:
        text = "the head is missing" if now is None else "the head was changed, or belongs to another log"
        walk.fault(checkpoint.FILE_NAME, 0, "head", text)
    elif walk.seq < max(known.written.seq, registered.seq):
        newest = max(known.written.seq, registered.seq)
        ends = f"the log ends with number {max(walk.seq, 0)}, but number {newest} was written"
        walk.fault(walk.name or files.name(1), walk.number, "cut", ends)
    elif walk.seq < later.intended.seq:
        walk.unfinished = later.intended.seq - walk.seq
        walk.forgive()
    walk.settle()


@dataclass(slots=True)
class _Walk:
    """Going through the lines: the last that is authentic, and what stands behind it and is not."""

    chain: Chain
    quick: BatchVerifier
    known: Checkpoint | None
    points: dict[int, tuple[bytes, str]]
    mac: bytes = ZERO_MAC
    seq: int = 0
    """-1 where the log begins behind deleted files."""
    lines: int = 0
    faults: list[LogFault] = field(default_factory=list)
    beyond: int = 0
    """Faults that are only counted."""
    bad: list[LogFault] = field(default_factory=list)
    """Faults that a gap may yet account for."""
    bad_beyond: int = 0
    """Of them those that are only counted."""
    bad_at: tuple[str, int] = ("", 0)
    """File and line of the newest of them."""
    others: tuple[bytes, ...] = ()
    """MACs that the next line may follow if the lines in `bad` are forgiven."""
    broken: bool = False
    """A fault that covers the jump to the next authentic line was told already."""
    unfinished: int = 0
    chains: int = 0
    is_open: bool = False
    """The file ends in the middle of a line."""
    name: str = ""
    number: int = 0
    fragment: Fragment = field(default_factory=Fragment)
    starts: set[bytes] = field(default_factory=set)
    is_start: bool = False
    """No line of the file was taken yet."""

    def file(self, directory: Path, number: int, looking: ExtentDigest | None) -> None:
        """Go through one file."""
        self.name, self.number, self.is_open = files.name(number), 0, False
        self.is_start = True
        with (directory / self.name).open("rb") as file:
            for data in read_batches(file):
                if looking is not None:
                    looking.add(data)
                # The slow path follows only where the quick one refuses, and gives a fault its line.
                if not self._quickly(data):
                    for text in split_lines(data):
                        self.number += not self.is_open
                        self.is_open = not text.endswith(b"\n")
                        self._line(text)

    def _quickly(self, data: bytes) -> bool:
        """Take a piece in which nothing is wrong and nothing special; False leaves all as it was."""
        if self.bad or self.broken or self.is_open or not is_plain(data):
            return False
        texts = data[:-1].split(b"\n")
        last = parse_line(texts[-1])
        # A line that the head or the register knows is looked at by itself.
        if last is None or any(last.seq >= seq > self.seq for seq in self.points):
            return False
        mac = self.quick.last_mac(self.mac, texts)
        if mac is None:
            return False
        if self.is_start and (first := parse_line(texts[0])) is not None:
            self._begin_file(first)
        self.number += len(texts)
        self.lines += len(texts)
        self.mac, self.seq = mac, last.seq
        self.chains = max([self.chains, *chain_count.counts_in(data)])
        return True

    def _begin_file(self, line: ParsedLine) -> None:
        self.starts.add(line.mac)
        self.is_start = False

    def missing(self, first: int, end: int) -> None:
        """Tell of the files from this one up to another that is there, however many that are."""
        if first >= end:
            return
        self.broken = True
        all_of = "this file of the log is missing"
        if end - first > 1:
            all_of += f", and so are those behind it up to {files.name(end - 1)}"
        self.fault(files.name(first), 0, "file", all_of)

    def fault(self, file: str, line: int, kind: FaultKind, message: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(LogFault(file, line, kind, message))
        else:
            self.beyond += 1

    def told(self) -> tuple[LogFault, ...]:
        """Every fault, or the first of very many and how many there are."""
        if not self.beyond:
            return tuple(self.faults)
        last = self.faults[-1]
        return (*self.faults, LogFault(last.file, 0, last.kind, f"there are {self.beyond} faults more"))

    def settle(self) -> None:
        """Report the bad lines, for which no gap accounts."""
        for fault in self.bad:
            self.fault(fault.file, fault.line, fault.kind, fault.message)
        self.beyond += self.bad_beyond
        self.forgive()

    def forgive(self) -> None:
        """Clear the bad lines: they are reported or accounted for."""
        self.bad.clear()
        self.bad_beyond = 0
        self.others = ()
        self.fragment = Fragment()

    def _line(self, text: bytes) -> None:
        line = None if self.is_open else parse_line(text[:-1])
        if line is not None and is_authentic(self.chain, self.mac, line):
            self._follows(line, is_next=True)
        elif line is not None and self._is_ours(line):
            self._follows(line, is_next=False)
        elif line is not None:
            self._unknown(text, *self._guess(line))
        else:
            self._unknown(text, "foreign", "this is no line of the log, or one that was changed or cut short")

    def _is_ours(self, line: ParsedLine) -> bool:
        """True if the line was made with the key, behind a line that is missing or was changed."""
        return any(is_authentic(self.chain, mac, line) for mac in (*self.others, previous_mac_in(line)))

    def _guess(self, line: ParsedLine) -> tuple[FaultKind, str]:
        if self.seq >= 0 and not self.bad and line.seq > self.seq + 1:
            return "missing", f"lines are missing before this one: number {self.seq + 1} to {line.seq - 1}"
        if 0 < line.seq <= self.seq:
            return "altered", f"this line, number {line.seq}, stands in the wrong place or was changed"
        return "altered", f"this line, number {line.seq}, or what came before it was changed"

    def _unknown(self, text: bytes, kind: FaultKind, message: str) -> None:
        self.fragment.add(text)
        content, tail = text[: -TAIL - 1], text[-TAIL - 1 : -1]
        # Of a changed line either the content or the MAC may still be what it was.
        self.others = (mac_in(tail) or ZERO_MAC, self.chain.mac_for(self.mac, content)) if content else ()
        if self.bad and self.bad_at == (self.name, self.number):
            return
        self.bad_at = (self.name, self.number)
        # A writer of the folder could otherwise make the report, and the memory for it, grow without bound.
        if len(self.bad) < MAX_FAULTS:
            self.bad.append(LogFault(self.name, self.number, kind, message))
        else:
            self.bad_beyond += 1

    def _follows(self, line: ParsedLine, *, is_next: bool) -> None:
        """Take an authentic line, and account for what stands in front of it."""
        gap = gap_in(line)
        if gap is not None:
            self._gap(gap, is_next=is_next)
        elif not is_next and not self.bad and not self.broken:
            self.fault(self.name, self.number, *self._guess(line))
        self.settle()
        self.broken = False
        if self.is_start:
            self._begin_file(line)
        self.mac, self.seq, self.lines = line.mac, line.seq, self.lines + 1
        self.chains = max([self.chains, *chain_count.counts_in(line.content)])
        expected, source = self.points.get(line.seq, (line.mac, ""))
        if line.mac != expected:
            self.fault(self.name, self.number, "altered", f"this is not the line that the {source} knows")

    def _gap(self, gap: Gap, *, is_next: bool) -> None:
        if gap.kind != "killed":
            self.fault(self.name, self.number, "gap", GAP_MESSAGES[gap.kind])
        # Size and digest must fit: a gap excuses the fragment that its start found, not bytes added since.
        elif is_next and gap.size and self.fragment.is_of(gap):
            self.forgive()
        elif not self.bad and not self.broken and (gap.size or not is_next):
            self.fault(self.name, self.number, "missing", "bytes are missing before this gap")
