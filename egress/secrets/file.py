"""Secrets in files: a docker or Kubernetes secret, or a file of the user.

Theory of operation. A file of some hundred bytes is read anew at every fetch. Comparing its status first
would save microseconds, and miss a second write within one tick of the file system's clock. Rotation by
rename or by swapping a symbolic link is always seen as a whole. A file written in place changes under the
reader: it is read again, and a half-written or empty file is refused, so that the value before stays in use
for its lifetime.

Must not block on anything but a regular file, and must not read more than the limit. Runs in its own thread,
so a hanging file system delays nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from egress.errors import UnreadableError, reason_of
from egress.secrets.source_value import SourceValue, ValueLifetime

MAX_FILE_BYTES = 64 * 1024
POLL_INTERVAL = 1.0
"""Seconds between two fetches while the secret is in use."""
DEFAULT_TTL = 3.0
"""Seconds for which the last value is used if the file cannot be read and the rules give no `ttl`."""

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MAX_TRIES = 3


class FileSecretSource:
    """The file at one path."""

    __slots__ = ("_path",)

    def __init__(self, path: str, environ: Mapping[str, str]) -> None:
        self._path = _full(path, environ.get("HOME", ""))

    @property
    def mints(self) -> bool:
        return False

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        end = DEFAULT_TTL if ttl is None else float(ttl)
        return ValueLifetime(due=min(POLL_INTERVAL, 0.8 * end), end=end)

    def fetch(self) -> SourceValue:
        if not self._path.startswith("/"):
            raise UnreadableError(
                f"HOME is not set, so {self._path} is unknown", "write the absolute path of the file"
            )
        try:
            return _content(self._path)
        except OSError as error:
            raise _unreadable(self._path, error) from None

    def stop(self) -> None:
        """Do nothing: a read cannot be interrupted, and its result is not awaited."""


def _full(path: str, home: str) -> str:
    return f"{home.rstrip('/')}/{path[2:]}" if path.startswith("~/") and home.startswith("/") else path


def _content(path: str) -> SourceValue:
    # Checked before opening: to open a device can already have an effect.
    _refuse_other_kinds(path, os.stat(path))  # noqa: PTH116 - follows the links of the path, on purpose
    for _ in range(_MAX_TRIES):
        with open(os.open(path, _OPEN_FLAGS), "rb") as file:  # noqa: PTH123 - a descriptor
            # Checked again, because the path may lead to another file by now.
            before = os.fstat(file.fileno())
            _refuse_other_kinds(path, before)
            value = SourceValue(file.read(MAX_FILE_BYTES + 1))
            after = os.fstat(file.fileno())
        # Unchanged status before and after: the content is not a mix of two writes.
        if _state(before) == _state(after):
            return value
    raise UnreadableError(
        f"{path} changed while it was read", "write the new value to another file and rename it into place"
    )


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _refuse_other_kinds(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError(f"{path} is not a regular file", "name the file that holds the secret")
    if status.st_size > MAX_FILE_BYTES:
        raise UnreadableError(
            f"{path} is larger than 64 KiB", "check that `from:` names a credential and not another file"
        )
    # A user who may write the file chooses the credential of the sandbox. Read permissions are the owner's
    # choice.
    if status.st_mode & stat.S_IWOTH:
        raise UnreadableError(f"{path} is writable by every user", f"chmod o-w {path}")


def _unreadable(path: str, error: OSError) -> UnreadableError:
    if isinstance(error, FileNotFoundError):
        return UnreadableError(f"file not found: {path}", "put the secret there, or correct `from:`")
    if isinstance(error, PermissionError):
        return UnreadableError(f"permission denied: {path}", "let the user of the proxy read it")
    return UnreadableError(f"{path} cannot be read: {reason_of(error)}", "check the path")
