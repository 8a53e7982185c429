"""The key of a log: 32 random bytes in a file that only its owner can read.

A reader of the log must not be able to read the key, because the key can forge lines. So the file must lie
outside the folder of the log.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from egress.audit.private_key_file import create_private, read_private
from egress.errors import UnreadableError

KEY_BYTES = 32
_HINT = "name a readable and writable file with --audit-key, or use another --state-dir"


def read_or_create(path: Path, log: Path) -> bytes:
    """Return the key of the log in the folder `log`; create it if missing. Raises `UnreadableError`."""
    if path.resolve().is_relative_to(log.resolve()):
        raise UnreadableError(
            f"the key {path} lies in the folder of the log", "keep it where readers of the log have no access"
        )
    try:
        return read(path)
    except FileNotFoundError:
        create_private(path, secrets.token_bytes(KEY_BYTES), _HINT)
        return read(path)


def read(path: Path) -> bytes:
    """Read a key file. Raises `FileNotFoundError`, and `UnreadableError` for a file that cannot be used."""
    key = read_private(path, KEY_BYTES + 1, _HINT)
    if len(key) != KEY_BYTES:
        raise UnreadableError(
            f"{path} is not the key of an audit log: it must have {KEY_BYTES} bytes",
            "name the file that the proxy created",
        )
    return key
