"""Pruning of a log: delete whole files, the oldest first, so that the remaining chains still verify.

An anchor records the new first file of a chain, the MAC before it and the author of the deletion. It is
written before the first deletion; a log line follows afterwards. The newest file of a chain is never deleted.
A chain that no proxy writes first continues in a further file, so that all of its old lines can go; only the
first chain, which the next proxy continues, keeps its newest file. A damaged log is evidence and must not be
pruned without `--force`. Proxies may run meanwhile: a lock admits one deletion of a chain at a time.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from egress.audit import Sink, files, verify_log
from egress.audit.chain import Keys
from egress.audit.chain_folders import ChainFolder, chain_folders
from egress.audit.clock import AuditClock
from egress.audit.recorded_pruning import delete_files
from egress.errors import ContentError, UnreadableError, UsageError, reason_of
from egress.review.entry import NotALineError, parse
from egress.review.log_files import LogFiles

TAIL_BYTES = 1024 * 1024
MAX_BARE_BYTES = 64 * 1024
"""A file with no line but those about its own beginning is smaller."""
_BARE_EVENTS = frozenset({"rotated", "pruned"})


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits on the kept files. A file over any limit is deleted; 0 and None mean no limit."""

    before: int | None = None
    """UTC microseconds. Files with only older lines are deleted."""
    files: int = 0
    """Files of each chain."""
    size: int = 0
    """Bytes of all chains together."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of a pruning or of a dry run."""

    files: tuple[str, ...]
    size: int
    first: str
    """The first file afterwards."""
    kept: int
    """Remaining bytes."""


@dataclass(frozen=True, slots=True)
class Pruner:
    """The author of a deletion."""

    key: bytes
    by: str
    at: int
    """UTC nanoseconds."""
    is_forced: bool

    def now_ns(self) -> int:
        return self.at

    def monotonic(self) -> float:
        return 0.0


@dataclass(slots=True)
class PrunableChain:
    """The files of a chain, and those to be deleted."""

    folder: ChainFolder
    there: list[int]
    sizes: dict[int, int]
    is_idle: bool
    """True if its newest file may go too, after a further one was begun."""
    gone: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, folder: ChainFolder) -> PrunableChain:
        there = files.numbers(folder.path)
        sizes = {number: files.size(folder.path, number) for number in there}
        return cls(folder, there, sizes, bool(there) and _is_idle(folder, there[-1]))

    def path(self, number: int) -> Path:
        return self.folder.path / files.name(number)

    def is_over(self, number: int, keep: Retention, left: int) -> bool:
        """Return whether a file is to be deleted, given the bytes of all chains that are left with it."""
        kept = len(self.there) - len(self.gone)
        if (keep.files and kept > keep.files) or (keep.size and left > keep.size):
            return True
        return keep.before is not None and _ends_before(self.path(number), keep.before)

    def delete(self, pruner: Pruner) -> bool:
        """Delete the chosen files; False if the rest does not verify with this key. Raises `OSError`."""
        first = next((number for number in self.there if number not in self.gone), 0)
        if not first:
            with ExitStack() as parts:
                sink = Sink.open(self.folder.path, pruner.key, clock=pruner, in_flight=1)
                parts.callback(sink.close)
                sink.begin_file()
            first = files.numbers(self.folder.path)[-1]
        keys = Keys.of(pruner.key)
        return delete_files(
            self.folder.path, keys, self.gone, first, pruner.by, pruner.at, is_forced=pruner.is_forced
        )


def prune(
    directory: Path,
    key: bytes,
    keep: Retention,
    *,
    by: str,
    now: int,
    is_trial: bool = False,
    is_forced: bool = False,
) -> Pruned:
    """Delete the files over the limits, the oldest first, and record `by` as the author.

    Raises `ContentError` for a damaged log, `UnreadableError` for an unreadable one, and `UsageError`
    without any limit.
    """
    if keep == Retention():
        raise UsageError("no limit is given", "give a time, a number of files or a size")
    # Verification comes before the locks: it may take minutes, and proxies must be able to rotate meanwhile.
    if not is_forced:
        _check(directory, key)
    try:
        directory.stat()
        LogFiles.there(directory)
        with ExitStack() as locks:
            chains = _locked(directory, locks)
            found = _choose(chains, keep)
            for chain in chains if not is_trial else ():
                if chain.gone and not chain.delete(Pruner(key, by, now * 1000, is_forced)):
                    first = chain.folder.file(files.name(chain.there[len(chain.gone)]))
                    raise ContentError(
                        f"nothing was deleted: no line of {first} verifies with this key",
                        "give the key that the log was written with",
                    )
            return found
    except OSError as error:
        raise _unreadable(directory, error) from None


def record_pruning(directory: Path, key: bytes, clock: AuditClock) -> bool:
    """Get log lines written about the pruning; False if the next start of a proxy has to write one."""
    try:
        chains = chain_folders(directory)
    except OSError:
        return False
    # Every chain is tried, also after one that could not be written.
    told = [
        _is_recorded(chain.path, key, clock) for chain in chains if chain.number == 1 or _has_anchor(chain)
    ]
    return all(told)


def _has_anchor(chain: ChainFolder) -> bool:
    return (chain.path / files.ANCHOR).exists()


def _is_recorded(directory: Path, key: bytes, clock: AuditClock) -> bool:
    """Get a line written about the pruning of a chain.

    A running proxy sees the anchor within a second. Without a proxy the chain is opened here, which writes
    the line. The chain of another user is never opened: its owner could not write to files created here.
    """
    # Opening fails while a proxy writes the chain. The proxy then writes the line itself.
    try:
        if directory.stat().st_uid == os.geteuid():
            Sink.open(directory, key, clock=clock, in_flight=1).close()
        anchor = files.read_anchor(directory, Keys.of(key).anchor)
        return anchor is None or anchor.is_told or _is_written(directory)
    except UnreadableError:
        return _is_written(directory)
    except (OSError, ValueError):
        return False


def _is_written(directory: Path) -> bool:
    """True if a process is writing the chain."""
    try:
        os.close(files.lock(directory))
    except UnreadableError:
        return True
    return False


def _unreadable(directory: Path, error: OSError) -> UnreadableError:
    reason = reason_of(error)
    return UnreadableError(
        f"cannot change the audit log in {directory}: {reason}", "name its folder with --dir"
    )


def _check(directory: Path, key: bytes) -> None:
    faults = verify_log(directory, key).faults
    if faults:
        raise ContentError(
            f"nothing was deleted: the log is damaged ({len(faults)} faults, the first: {faults[0]})",
            "run `egress log verify`, keep a copy of the folder, then use --force",
        )


# The choice of files --------------------------------------------------------------------------


def _locked(directory: Path, locks: ExitStack) -> list[PrunableChain]:
    """List the files of every chain, with the deletion of each chain locked."""
    found = []
    for folder in chain_folders(directory):
        if not files.numbers(folder.path):
            continue
        descriptor = files.lock_oldest(folder.path)
        if descriptor is None:
            raise UnreadableError("the proxy is deleting old files right now", "try again in a moment")
        locks.callback(os.close, descriptor)
        # Listed under the lock: the writer may have deleted old files since the check.
        found.append(PrunableChain.of(folder))
    return found


def _choose(chains: list[PrunableChain], keep: Retention) -> Pruned:
    """Choose the files to delete of every chain, the oldest of the log first."""
    total = left = sum(sum(chain.sizes.values()) for chain in chains)
    kept: set[str] = set()
    for chain, number in _by_age(chains):
        # The first file to stay ends the search in a chain: a hole could not be verified.
        if chain.folder.place in kept:
            continue
        if (number == chain.there[-1] and not chain.is_idle) or not chain.is_over(number, keep, left):
            kept.add(chain.folder.place)
            continue
        chain.gone.append(number)
        left -= chain.sizes[number]
    names = tuple(chain.folder.file(files.name(number)) for chain in chains for number in chain.gone)
    first = chains[0]
    # Of an idle chain the file that is begun does not exist yet.
    at = first.there[len(first.gone)] if len(first.gone) < len(first.there) else first.there[-1] + 1
    return Pruned(names, total - left, first.folder.file(files.name(at)), left)


def _by_age(chains: list[PrunableChain]) -> list[tuple[PrunableChain, int]]:
    """Return all files, oldest first, those of a chain in its order whatever their times say."""
    found: list[tuple[int, int, int, PrunableChain]] = []
    for place, chain in enumerate(chains):
        age = 0
        for number in chain.there:
            age = max(age, _changed(chain.path(number)))
            found.append((age, place, number, chain))
    found.sort(key=lambda each: each[:3])
    return [(chain, number) for _, _, number, chain in found]


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _is_idle(folder: ChainFolder, newest: int) -> bool:
    """Return whether a later chain has lines to delete in its newest file, and nobody writes it."""
    if folder.number == 1 or folder.path.stat().st_uid != os.geteuid():
        return False
    return not _is_written(folder.path) and not _is_bare(folder.path / files.name(newest))


def _is_bare(path: Path) -> bool:
    """Return whether a file has only lines about its own beginning: nothing is gained by deleting it."""
    if path.stat().st_size > MAX_BARE_BYTES:
        return False
    try:
        return {parse(line).event for line in path.read_bytes().splitlines()} <= _BARE_EVENTS
    except NotALineError:
        return False


def _ends_before(path: Path, moment: int) -> bool:
    """True if the last lines of a file are older; False without a readable line, so that the file stays."""
    with path.open("rb") as file:
        # The end of a file is enough: lines stand in the order of time.
        file.seek(max(path.stat().st_size - TAIL_BYTES, 0))
        moments = []
        for line in file.read(TAIL_BYTES).split(b"\n"):
            try:
                moments.append(parse(line).moment)
            except NotALineError:
                continue
    return bool(moments) and max(moments) < moment
