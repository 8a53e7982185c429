"""The small secrets of a listener and a sandbox: the password of the proxy, the key of the stand-ins.

Both are files of the owner alone. They are not credentials of an upstream: those come from the rules.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from egress.errors import ContentError, UnreadableError
from egress.proxy.ingress.listener import password_digest

KEY_BYTES: Final = 32
_MIN_PASSWORD_CHARS: Final = 16
_MAX_FILE_BYTES: Final = 1024
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_OTHERS_MODE_BITS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_password(path: Path) -> bytes:
    """Return the digest of the password in a file, whose final line end is not part of it.

    Raises `UnreadableError` for a file that cannot be used, `ContentError` for a password that is too short.
    """
    try:
        text = _content(path).decode("ascii").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        text = ""
    if len(text) < _MIN_PASSWORD_CHARS or not text.isprintable() or " " in text:
        raise ContentError(
            f"the password in {path} is not one to rely on",
            f"write one line of at least {_MIN_PASSWORD_CHARS} letters and digits; `openssl rand "
            f"-hex 16` gives one",
        )
    return password_digest(text)


def read_or_make_key(path: Path) -> bytes:
    """Return the key of a sandbox's stand-ins; the same after a restart, so that the stand-ins are too."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Refuses a name that is taken, so that a key is never written over.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        key = _content(path)
        if len(key) != KEY_BYTES:
            raise ContentError(
                f"{path} is damaged", "remove it, and give the sandbox its new placeholders"
            ) from None
        return key
    except OSError as error:
        raise _unusable(path, error) from None
    with os.fdopen(handle, "wb") as file:
        file.write(key := secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    return key


def _content(path: Path) -> bytes:
    try:
        with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError(f"{path} is not a plain file", "name another one")
            if status.st_mode & _OTHERS_MODE_BITS:
                raise UnreadableError(f"{path} can be reached by other users", f"chmod 600 {path}")
            return file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: OSError) -> UnreadableError:
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableError(f"{path} cannot be used: {reason}", "check the path and its permissions")
