"""Opening a log for a proxy: a free chain is continued or a new one begun, and the register is renewed.

Any number of proxies write one log: none waits for another, and none stops when another is killed. Each
holds the lock of its chain from the choice of the chain on, so two never choose the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Unpack

from egress.audit import chain_count, chain_register, checkpoint, files, inflight
from egress.audit.chain import Keys
from egress.audit.chain_folders import (
    CHAINS_FOLDER,
    MAX_CHAINS,
    ChainFolder,
    chain_folders,
    numbered_chain,
)
from egress.audit.chain_register import DamagedRegisterError, Entries, RegisteredLine
from egress.audit.clock import AuditClock
from egress.audit.resume_point import OtherKeyError
from egress.audit.sink import Sink, SinkOptions
from egress.errors import UnreadableError, reason_of

_MAX_CLOSED_AT_ONCE: Final = 16
"""Chains of older versions that one start closes: each costs some milliseconds."""
_CURE: Final = (
    "nothing is let through without it; make the folder writable, with space on its disk, "
    "or name another with --audit-dir"
)


def open_log(
    log: Path, key: bytes, *, clock: AuditClock, run: str = "", **options: Unpack[SinkOptions]
) -> Sink:
    """Open a chain of the log in this folder that no other process writes.

    `run` and `options` are those of `Sink.open`. Raises `UnreadableError` when the key is wrong or the folder
    cannot be used.
    """
    keys = Keys.of(key)
    try:
        log.mkdir(mode=0o750, parents=True, exist_ok=True)
        _begin_register(log, keys)
        for chain, lock in _free_chains(log, keys):
            try:
                sink = Sink.open(chain.path, key, clock=clock, run=run, lock=lock, **options)
            except OtherKeyError:
                # A later chain of another key keeps no proxy from its own chain; `verify` reports it.
                if chain.number == 1:
                    raise
            else:
                opened = _registered(log, keys, chain, sink)
                _close_old_chains(log, key, clock)
                return opened
    except OSError as error:
        raise UnreadableError(f"the audit log in {log} cannot be opened: {reason_of(error)}", _CURE) from None
    raise UnreadableError(f"the audit log in {log} has {MAX_CHAINS} chains, and all are in use", _CURE)


# A free chain -----------------------------------------------------------------------------------


def _free_chains(log: Path, keys: Keys) -> Iterator[tuple[ChainFolder, int]]:
    """Yield chains with their locks: those of killed proxies, then other free ones, then a new one."""
    there = [chain for chain in chain_folders(log) if chain.number]
    # A chain with requests under way was left by a kill, and the next start records them as lost.
    for chain in sorted(there, key=lambda chain: (inflight.is_settled(chain.path), chain.number)):
        lock = _lock(chain)
        if lock is not None:
            yield chain, lock
    # Of a chain that was deleted the number stays in the register, and no new chain may take its place.
    used = max([chain.number for chain in there] + [_number(place) for place in _known(log, keys)])
    for number in range(used + 1, MAX_CHAINS + 1):
        chain = numbered_chain(log, number)
        chain.path.mkdir(mode=0o750, parents=True, exist_ok=True)
        lock = _lock(chain)
        if lock is not None:
            yield chain, lock


def _close_old_chains(log: Path, key: bytes, clock: AuditClock) -> None:
    """Close chains that proxies of an older version left: record what was lost, and shorten their files.

    No proxy continues such a chain, so nothing else would do it.
    """
    old = [chain for chain in chain_folders(log) if not chain.number and not inflight.is_settled(chain.path)]
    for chain in old[:_MAX_CLOSED_AT_ONCE]:
        lock = _lock(chain)
        if lock is not None:
            # A chain of another key, or on a full disk, stays as it is; `verify` tells what is wrong with it.
            with suppress(UnreadableError):
                Sink.open(chain.path, key, clock=clock, lock=lock, in_flight=1).close()


def _lock(chain: ChainFolder) -> int | None:
    """Take the writer lock of a chain; None if another process has it, or another user the folder."""
    # Files of this user in the folder of another would lock the other out.
    if chain.number != 1 and chain.path.stat().st_uid != os.geteuid():
        return None
    try:
        return files.lock(chain.path)
    except UnreadableError:
        return None


def _known(log: Path, keys: Keys) -> Entries:
    try:
        return chain_register.read(log, keys.register) or {}
    except DamagedRegisterError:
        return {}


def _number(place: str) -> int:
    folder, _, name = place.partition("/")
    return int(name) if folder == CHAINS_FOLDER else 1


# The register -----------------------------------------------------------------------------------


def _begin_register(log: Path, keys: Keys) -> None:
    """Write an empty register for a log that never had one: from now on a missing register is damage."""
    with chain_register.locked(log):
        try:
            is_missing = chain_register.read(log, keys.register) is None
        except DamagedRegisterError:
            _refuse_other_key(log, keys)
        else:
            if is_missing and not _had_register(log):
                chain_register.write(log, keys.register, {})


def _registered(log: Path, keys: Keys, chain: ChainFolder, sink: Sink) -> Sink:
    """Enter the chain into the register, before its proxy writes a line of its own."""
    try:
        with chain_register.locked(log):
            entries = _entries(log, keys, sink)
            _add_missing(log, keys, entries)
            entries[chain.place] = RegisteredLine(sink.newest, sink.newest_mac)
            chain_register.write(log, keys.register, entries)
    except BaseException:
        sink.close()
        raise
    sink.chains = len(entries)

    def closed(seq: int, mac: bytes) -> None:
        # An old entry stays right: it only asks for fewer lines.
        with suppress(OSError, UnreadableError, DamagedRegisterError), chain_register.locked(log):
            known = chain_register.read(log, keys.register)
            if known is not None:
                chain_register.write(log, keys.register, {**known, chain.place: RegisteredLine(seq, mac)})

    sink.on_closed = closed
    return sink


def _entries(log: Path, keys: Keys, sink: Sink) -> Entries:
    """Read the register. If it is missing or damaged, record that, and begin a new one."""
    try:
        found = chain_register.read(log, keys.register)
    except DamagedRegisterError:
        found = None
    if found is None:
        # Written before the new register, which would otherwise hide the loss of the old one.
        sink.gap("register")
        sink.flush()
    return found or {}


def _refuse_other_key(log: Path, keys: Keys) -> None:
    """Raise `OtherKeyError` if no chain was written with this key: then the register is not damaged."""
    heads = (checkpoint.read(chain.path) for chain in chain_folders(log))
    if all(checkpoint.decode(head or b"", keys.head) is None for head in heads):
        raise OtherKeyError.of(log)


def _had_register(log: Path) -> bool:
    """Return whether a log without a register had one: every start since version 0.3 makes it."""
    later = [chain for chain in chain_folders(log) if chain.number > 1]
    return any(files.numbers(chain.path) for chain in later) or chain_count.newest_count(log) > 0


def _add_missing(log: Path, keys: Keys, entries: Entries) -> None:
    """Enter chains that are not in the register: those of older versions, and one whose start was killed."""
    for chain in chain_folders(log):
        if chain.place not in entries:
            known = checkpoint.decode(checkpoint.read(chain.path) or b"", keys.head)
            if known is not None:
                entries[chain.place] = RegisteredLine(known.written.seq, known.written.mac)
