"""The key of a log: 32 random bytes in a file that only its owner can read.

A reader of the log must not be able to read the key, because the key can forge lines. So the file must lie
outside the folder of the log.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from egress.errors import UnreadableError
from egress.private_file import read_mounted, read_or_create_private, read_private

KEY_BYTES = 32
_CURE = "name another with --audit-key or --state-dir, and start a new log"


def read_or_create(path: Path, log: Path) -> bytes:
    """Return the key of the log in the folder `log`; create it if missing. Raises `UnreadableError`."""
    # Both paths are resolved: a link must not lead back into the folder.
    if path.resolve().is_relative_to(log.resolve()):
        raise UnreadableError(
            f"the key {path} lies in the folder of the log", "keep it where readers of the log have no access"
        )
    if _is_mounted(path):
        return read(path)
    return _checked(path, read_or_create_private(path, _new_key, KEY_BYTES + 1, _CURE, is_named=True))


def read(path: Path) -> bytes:
    """Read a key file. Raises `FileNotFoundError`, and `UnreadableError` for a file that cannot be used."""
    if _is_mounted(path):
        return _checked(path, read_mounted(path, KEY_BYTES + 1, _CURE))
    return _checked(path, read_private(path, KEY_BYTES + 1, _CURE, is_named=True))


def _is_mounted(path: Path) -> bool:
    """Report whether a cluster has put the key there: it belongs to root, and a group of ours may read it."""
    try:
        return path.stat().st_uid == 0 != os.geteuid()
    except OSError:
        return False


def _new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def _checked(path: Path, key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise UnreadableError(
            f"{path} is not the key of an audit log: it must have {KEY_BYTES} bytes",
            "name the file that the proxy created",
        )
    return key
