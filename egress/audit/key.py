"""The key of a log: 32 random bytes in a file that only its owner can read.

Whoever reads the log must not be able to read the key, or they could write lines of their own; so the
file stands outside of the log's folder.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from egress.errors import UnreadableError
from egress.private_file import read_or_create_private, read_private

KEY_BYTES = 32
_CURE = "name another with --audit-key or --state-dir, and start a new log"


def read_or_create(path: Path, log: Path) -> bytes:
    """The key of the log in that folder; made when there is none yet. Raises `UnreadableError`."""
    if path.resolve().is_relative_to(log.resolve()):
        raise UnreadableError(
            f"the key {path} would stand in the folder of the log",
            "keep it where readers of the log cannot go",
        )
    return _checked(path, read_or_create_private(path, _new_key, KEY_BYTES + 1, _CURE, is_named=True))


def read(path: Path) -> bytes:
    """The key in a file. Raises `FileNotFoundError`, and `UnreadableError` for one that cannot be used."""
    return _checked(path, read_private(path, KEY_BYTES + 1, _CURE, is_named=True))


def _new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def _checked(path: Path, key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise UnreadableError(
            f"{path} is not the key of an audit log: it must have {KEY_BYTES} bytes",
            "give the file that the proxy made",
        )
    return key
