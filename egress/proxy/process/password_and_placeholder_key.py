"""The small secrets of a listener and a sandbox: the password of the proxy, the key of the stand-ins.

Both are files of the owner alone. They are not credentials of an upstream: those come from the rules.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from egress.errors import ContentError, UnreadableError
from egress.private_file import read_mounted, read_or_create_private, read_private
from egress.proxy.ingress.listener import password_digest

KEY_BYTES: Final = 32
_MIN_PASSWORD_CHARS: Final = 16
_MAX_PASSWORD_BYTES: Final = 1024


def read_password(path: Path, option: str = "--password-file", *, is_mounted: bool = False) -> bytes:
    """Return the digest of the password or token in a file, whose final line end is not part of it.

    `is_mounted` is for a file that a cluster mounts. Raises `UnreadableError` for a file that cannot be used,
    `ContentError` for a password that is too short.
    """
    try:
        text = (
            _password(path, option, is_mounted=is_mounted)
            .decode("ascii")
            .removesuffix("\n")
            .removesuffix("\r")
        )
    except UnicodeDecodeError:
        text = ""
    if len(text) < _MIN_PASSWORD_CHARS or not text.isprintable() or " " in text:
        raise ContentError(
            f"the {'token' if 'token' in option else 'password'} in {path} is not one to rely on",
            f"write one line of at least {_MIN_PASSWORD_CHARS} letters and digits; `openssl rand "
            f"-hex 16` gives one",
        )
    return password_digest(text)


def read_or_make_key(path: Path) -> bytes:
    """Return the key of a sandbox's stand-ins; the same after a restart, so that the stand-ins are too."""
    key = read_or_create_private(
        path, lambda: secrets.token_bytes(KEY_BYTES), KEY_BYTES + 1, "name another with --state-dir"
    )
    if len(key) != KEY_BYTES:
        raise ContentError(f"{path} is damaged", "remove it, and give the sandbox its new placeholders")
    return key


def _password(path: Path, option: str, *, is_mounted: bool) -> bytes:
    cure = f"name another with {option}"
    try:
        if is_mounted:
            return read_mounted(path, _MAX_PASSWORD_BYTES, cure)
        return read_private(path, _MAX_PASSWORD_BYTES, cure, is_named=True)
    except FileNotFoundError:
        raise UnreadableError(f"{path} cannot be read: there is no such file", cure) from None
