"""The folders of a fleet: the folder of its sockets, and a private folder for an embedded proxy.

They lie where `egress serve` puts its own. Folders of a killed process are removed by the next process.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from egress.control_client import HANDOVER_SOCKET
from egress.errors import UnreadableError, reason_of
from egress.fleet.errors import FleetUnavailableError
from egress.unix.socket_folder import make_own_folder
from egress.unix.stream_socket import is_path_too_long

SOCKET_NAME: Final = "sandboxes.sock"
SANDBOXES_FOLDER: Final = "sandboxes"
"""The folder for files of sandboxes."""
EMBEDDED_FOLDER: Final = "embedded"
"""The folder for sockets of runs with a proxy of their own."""
_ANOTHER: Final = "name another one as the runtime folder"
_LOCK_NAME: Final = "owner.lock"
# The longest path of a socket below the runtime folder; see `private_folder`.
_MAX_PATH_BELOW: Final = Path(EMBEDDED_FOLDER, "01234567", HANDOVER_SOCKET)


def own_folder(folder: Path) -> Path:
    """Make a folder for this user alone. Raises `FleetUnavailableError` if that is impossible."""
    try:
        return make_own_folder(folder, _ANOTHER)
    except UnreadableError as error:
        raise FleetUnavailableError(error.message, error.hint) from None
    except OSError as error:
        raise FleetUnavailableError(f"cannot use the folder {folder}: {reason_of(error)}", _ANOTHER) from None


def sandbox_home(runtime_dir: Path, kind: str) -> Path:
    """The folder in which runtimes of this kind keep files of their sandboxes, also of earlier processes."""
    return own_folder(own_folder(own_folder(runtime_dir) / SANDBOXES_FOLDER) / kind)


@contextmanager
def private_folder(runtime_dir: Path) -> Iterator[Path]:
    """A folder below the runtime folder that exists as long as the context.

    If the path of a socket in it would be too long for the kernel, the folder lies in the temporary folder.
    """
    if is_path_too_long(runtime_dir / _MAX_PATH_BELOW):
        with tempfile.TemporaryDirectory(prefix="egress-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    above = own_folder(own_folder(runtime_dir) / EMBEDDED_FOLDER)
    remove_stale(above)
    folder, lock = _make_private(above)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_stale(above: Path) -> None:
    """Remove the private folders of processes that were killed: nobody holds their locks."""
    for folder in above.iterdir():
        with suppress(OSError):
            lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _make_private(above: Path) -> tuple[Path, int]:
    """Make a new folder and lock it; the lock shows that its process lives."""
    while True:
        # Created hidden and locked before the rename: `remove_stale` would remove a visible, unlocked folder.
        hidden = Path(tempfile.mkdtemp(dir=above.parent, prefix=".embedded-"))
        lock = os.open(hidden / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = above / secrets.token_hex(4)
        try:
            return hidden.rename(folder), lock
        except OSError:
            os.close(lock)
            shutil.rmtree(hidden, ignore_errors=True)
