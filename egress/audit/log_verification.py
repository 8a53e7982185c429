"""Verification of a whole log: every chain by itself, and the chains against their register.

A deleted chain is found by its entry in the register, a deleted register by the `started` lines, and a
register that was put back by the number of chains in these lines. A chain that was put back to a state before
its last start or end is found by its entry. A chain that was copied into another folder is found by the lines
that both have. It is not found that a chain and the register were put back
together, before any later start in another chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from egress.audit import chain_register
from egress.audit.chain import Keys
from egress.audit.chain_folders import FIRST_PLACE, ChainFolder, chain_folders
from egress.audit.chain_register import REGISTER, DamagedRegisterError, Entries
from egress.audit.files import Pruning
from egress.audit.verify import LogFault, NoLogError, Verification, verify
from egress.errors import UnreadableError, reason_of


@dataclass(frozen=True, slots=True)
class VerifiedChain:
    """A chain, and what its verification found."""

    folder: ChainFolder
    found: Verification

    @property
    def place(self) -> str:
        return self.folder.place


@dataclass(frozen=True, slots=True)
class LogVerification:
    """The result of verifying all chains of a log."""

    chains: tuple[VerifiedChain, ...]
    faults: tuple[LogFault, ...]
    """Faults of all chains, their files named from the folder of the log, and faults of the register."""

    @property
    def is_sound(self) -> bool:
        return not self.faults

    @property
    def lines(self) -> int:
        return sum(chain.found.lines for chain in self.chains)

    @property
    def files(self) -> int:
        return sum(chain.found.files for chain in self.chains)

    @property
    def unfinished(self) -> int:
        return sum(chain.found.unfinished for chain in self.chains)

    @property
    def prunings(self) -> Iterator[tuple[str, Pruning]]:
        """The place of each pruned chain, with its pruning."""
        return (
            (chain.place, chain.found.pruning) for chain in self.chains if chain.found.pruning is not None
        )


def verify_log(log: Path, key: bytes, *, keeps_seen: bool = False) -> LogVerification:
    """Check every chain of the log in a folder; `keeps_seen` is that of `verify`.

    Raises `UnreadableError` when there is no log, or for another key.
    """
    try:
        return _verified(log, key, keeps_seen=keeps_seen)
    except OSError as error:
        raise UnreadableError(
            f"the audit log in {log} cannot be read: {reason_of(error)}", "name its folder with --dir"
        ) from None


def _verified(log: Path, key: bytes, *, keeps_seen: bool) -> LogVerification:
    # The register first: a chain that begins after this is one more than expected, and never one less.
    known, faults = _entries(log, key)
    entries, chains = dict(known or {}), list[VerifiedChain]()
    for folder in chain_folders(log):
        entry = entries.pop(folder.place, None)
        try:
            found = verify(folder.path, key, keeps_seen=keeps_seen, registered=entry)
        except NoLogError:
            # Without an entry it is the folder of a start that is under way.
            faults += [_missing(folder.place)] if entry is not None else []
        except UnreadableError as error:
            if folder.place == FIRST_PLACE:
                raise
            faults.append(LogFault(folder.place, 0, "chain", error.message))
        else:
            chains.append(VerifiedChain(folder, found))
            faults += [replace(fault, file=folder.file(fault.file)) for fault in found.faults]
    faults += map(_missing, entries)
    if not chains and not faults:
        raise NoLogError.of(log)
    faults += _copies(chains)
    faults += _register_faults(log, key, known, chains)
    return LogVerification(tuple(chains), tuple(faults))


def _entries(log: Path, key: bytes) -> tuple[Entries | None, list[LogFault]]:
    """Return the register, and the fault that it was changed."""
    try:
        return chain_register.read(log, Keys.of(key).register), []
    except DamagedRegisterError:
        text = "the register of chains was changed, or belongs to another log"
        return {}, [LogFault(REGISTER, 0, "register", text)]


def _missing(place: str) -> LogFault:
    return LogFault(place, 0, "chain", "this chain of the log is missing")


def _copies(chains: list[VerifiedChain]) -> Iterator[LogFault]:
    """Find chains with lines of another one: whoever copies a folder needs no key."""
    of: dict[bytes, str] = {}
    for chain in chains:
        twin = next((of[mac] for mac in chain.found.starts if mac in of), None)
        if twin is not None:
            text = f"this chain has lines of {twin}: one of the two is a copy, which tells everything twice"
            yield LogFault(chain.place, 0, "foreign", text)
        of |= dict.fromkeys(chain.found.starts, chain.place)


def _register_faults(
    log: Path, key: bytes, known: Entries | None, chains: list[VerifiedChain]
) -> Iterator[LogFault]:
    """Compare the register with the chains that starts counted, and with those that are there."""
    counted = max((chain.found.chains for chain in chains), default=0)
    is_needed = counted > 0 or any(chain.folder.number > 1 for chain in chains)
    if known is not None and len(known) >= counted:
        return
    # Read again: a start that entered its chain since the first reading has counted it already.
    now, faults = _entries(log, key)
    if faults:
        # A register that was changed is told of already.
        return
    if now is None and is_needed:
        yield LogFault(REGISTER, 0, "register", "the register of chains is missing")
    elif now is not None and len(now) < counted:
        text = f"the register has {len(now)} chains, but a start counted {counted}: an older one was put back"
        yield LogFault(REGISTER, 0, "register", text)
