"""Check the folders of a proxy and the small keys in them: present or creatable, owned, closed to others.

Conditions of the start are checked by the code of the start. Nothing is created and no mode is changed.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from egress.control_client import CONTROL_SOCKET
from egress.doctor.diagnosis import Diagnosis, fault, from_error, note, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.errors import EgressError, reason_of
from egress.policy.state_dir_ownership import check_state_dir
from egress.policy.trust import TrustedFiles
from egress.proxy.process.password_and_placeholder_key import read_or_make_key, read_password
from egress.unix.stream_socket import is_path_too_long

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def check(setup: ProxyUnderCheck) -> Iterator[Diagnosis]:
    """Check both folders, and the files in them except authorities and logs."""
    values = setup.values
    yield _state(values.state_dir)
    yield _runtime(values.runtime_dir)
    yield from _trusted(values.state_dir)
    yield from _keys(values.state_dir / "placeholders" / f"{values.sandbox}.key", values.password_file)


def _state(folder: Path) -> Diagnosis:
    try:
        check_state_dir(folder)
    except EgressError as error:
        return from_error("state", error)
    if not folder.exists():
        return _missing("state", folder, "--state-dir")
    if not os.access(folder, os.W_OK | os.X_OK):
        return fault("state", f"{folder} cannot be written", "check its owner, or name another --state-dir")
    return ok("state", f"{folder}, writable only by you (mode {_mode(folder):04o})")


def _runtime(folder: Path) -> Diagnosis:
    # The kernel limits the path of a unix socket to about 100 bytes.
    if is_path_too_long(folder / CONTROL_SOCKET):
        return fault(
            "runtime",
            f"the path of the control socket is too long: {folder / CONTROL_SOCKET}",
            "name a shorter folder with --runtime-dir",
        )
    try:
        # A link could lead to a folder that another user controls, so it is not followed.
        status = folder.lstat()
    except FileNotFoundError:
        return _missing("runtime", folder, "--runtime-dir")
    except OSError as error:
        return _unusable("runtime", folder, error)
    # lstat and owner together: a link of another user must not pass.
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return fault("runtime", f"{folder} is not your own folder", "name another with --runtime-dir")
    # Only a warning: the next start closes the folder.
    if status.st_mode & _OTHERS:
        return warning(
            "runtime",
            f"{folder} is open to other users (mode {_mode(folder):04o}) until a proxy starts",
            f"`chmod 700 {shlex.quote(str(folder))}`",
        )
    return ok("runtime", f"{folder}, only yours (mode {_mode(folder):04o})")


def _missing(name: str, folder: Path, option: str) -> Diagnosis:
    """Report a missing folder: a note if the first start can create it."""
    # The nearest existing parent decides whether the first start can create it.
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return note(name, f"{folder} does not exist yet: the first start creates it")
    return fault(
        name, f"{folder} does not exist, and cannot be created in {above}", f"name another with {option}"
    )


def _trusted(folder: Path) -> Iterator[Diagnosis]:
    try:
        known = TrustedFiles(folder).all()
    except EgressError as error:
        yield from_error("trusted files", error)
        return
    # An empty list is usual: only rules found in a working folder need trust.
    if known:
        yield ok("trusted files", f"{len(known)} in a list that only you can write")


def _keys(key: Path, password: Path | None) -> Iterator[Diagnosis]:
    try:
        if key.exists():
            # Only called for an existing key: the doctor creates nothing.
            read_or_make_key(key)
            yield ok("stand-ins", f"their key is readable only by you: {key}")
    except (EgressError, OSError) as error:
        yield _unusable("stand-ins", key, error)
    if password is None:
        return
    try:
        read_password(password)
        yield ok("password", f"{password} is strong enough, and readable only by you")
    except EgressError as error:
        yield from_error("password", error)


def _unusable(name: str, path: Path, error: EgressError | OSError) -> Diagnosis:
    if isinstance(error, EgressError):
        return from_error(name, error)
    return fault(
        name, f"{path} cannot be inspected: {reason_of(error)}", "check the permissions of its folders"
    )


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
