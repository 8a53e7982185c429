"""The register of chains: a small file that names every chain of a log, so that a deleted chain is found.

Each entry holds the place of a chain, and the number and MAC of a line of it. A proxy enters its chain
when it opens the chain, and renews the entry when it closes it. `verify` expects each entry: the chain has to
be there, and the line has to be in it. The file has a MAC and is replaced as a whole, under a lock.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.audit.chain import ZERO_MAC
from egress.audit.chain_folders import CHAINS_FOLDER, MAX_CHAINS, is_place
from egress.audit.files import read_start, replace_file
from egress.errors import UnreadableError

REGISTER: Final = f"{CHAINS_FOLDER}/register"
MAX_REGISTER_BYTES: Final = 4 * 1024 * 1024
_MAX_ENTRIES: Final = 2 * MAX_CHAINS
_MAC_BYTES: Final = 32
_LOCK_TIMEOUT: Final = 10.0
_POLL_INTERVAL: Final = 0.005


@dataclass(frozen=True, slots=True)
class RegisteredLine:
    """A line that a chain must have; number 0 for a chain without lines."""

    seq: int = 0
    mac: bytes = ZERO_MAC


type Entries = dict[str, RegisteredLine]
"""A line for each chain, by place."""


class DamagedRegisterError(ValueError):
    """The register was not written with this key, or was changed."""


def read(log: Path, key: bytes) -> Entries | None:
    """Read the register; None if it is missing. Raises `DamagedRegisterError` and `OSError`."""
    try:
        data = read_start(log / REGISTER, MAX_REGISTER_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    # The MAC is verified before anything is parsed: a forged register is never interpreted.
    body, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
    if len(data) > MAX_REGISTER_BYTES or not hmac.compare_digest(hmac.digest(key, body, "sha256"), mac):
        raise DamagedRegisterError("the register was not written with this key")
    return _parsed(body)


@contextmanager
def locked(log: Path) -> Iterator[None]:
    """Hold the register, so that processes change it one after the other.

    Raises `UnreadableError` if another process does not let go of it, and `OSError`.
    """
    folder = log / CHAINS_FOLDER
    folder.mkdir(mode=0o750, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def write(log: Path, key: bytes, entries: Entries) -> None:
    """Replace the register; the caller has it locked. Raises `OSError`."""
    lines = {place: [line.seq, line.mac.hex()] for place, line in sorted(entries.items())}
    body = json.dumps({"chains": lines}, separators=(",", ":")).encode("ascii")
    replace_file(log / REGISTER, body + hmac.digest(key, body, "sha256"))


def _lock(descriptor: int, folder: Path) -> None:
    # The lock is held for about a millisecond. A process that was stopped meanwhile must not stop all others.
    end = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise UnreadableError(
                    f"another process holds the register of the audit log in {folder}",
                    "look for a stopped `egress` process, and continue or end it",
                ) from None
            time.sleep(_POLL_INTERVAL)
        else:
            return


def _parsed(body: bytes) -> Entries:
    try:
        found = json.loads(body)["chains"]
        return {_place(place): _line(*value) for place, value in found.items()}
    # The MAC is right, so only a later version could have written another form.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DamagedRegisterError("the register has a form that this version does not know") from None


def _place(text: str) -> str:
    if not is_place(text):
        raise ValueError
    return text


def _line(seq: int, mac: str) -> RegisteredLine:
    found = RegisteredLine(seq, bytes.fromhex(mac))
    if type(seq) is not int or seq < 0 or len(found.mac) != len(ZERO_MAC):
        raise ValueError
    return found
