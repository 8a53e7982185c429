"""The file of an authority: key and certificate together, readable only by its owner.

A single file, so that the two always belong together, and so that no file of the folder is fit for
distribution: clients get an exported copy of the certificate.

Errors name the file and never quote its content.
"""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from egress.errors import ContentError, UnreadableError

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_MAX_FILE_BYTES: Final = 1 << 20
_OTHERS_BITS: Final = stat.S_IRWXG | stat.S_IRWXO
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read(path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return key and certificate.

    Raises `UnreadableError` if the file is missing, not a regular file of this user, or open to others;
    `ContentError` if it does not hold an authority.
    """
    data = _content(path)
    # Parse errors quote bytes of the file, so none is passed on.
    try:
        key = load_pem_private_key(data, None)
        certificate = x509.load_pem_x509_certificate(data)
    except (ValueError, TypeError):
        raise ContentError(f"{path} contains no certificate authority", _new_one(path)) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ContentError(f"the key in {path} is not a P-256 key", _new_one(path))
    if certificate.public_key() != key.public_key():
        raise ContentError(f"key and certificate in {path} do not belong together", _new_one(path))
    if not _is_root(certificate):
        raise ContentError(f"the certificate in {path} is not that of an Egress authority", _new_one(path))
    return key, certificate


def write(
    path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, *, replace: bool
) -> bool:
    """Write both atomically and durably; return False if the file exists and `replace` is not set.

    Raises `UnreadableError` if writing fails, or if the folder is open to others.
    """
    try:
        make_folder(path.parent)
        scratch = _scratch(path.parent, _as_pem(key, certificate))
        try:
            return _put(scratch, path, replace=replace)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise _trouble(path, "written", error) from None


def make_folder(folder: Path) -> None:
    """Create the folder for its owner alone; raises `UnreadableError` if others may enter it."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    refuse_others(folder, folder.lstat(), "700")


def refuse_others(path: Path, status: os.stat_result, mode: str) -> None:
    """Raise `UnreadableError` if the path belongs to another user, or other users have rights on it."""
    if status.st_uid != os.geteuid():
        raise UnreadableError(
            f"{path} belongs to another user", "run this as its owner, or use another --state-dir"
        )
    if status.st_mode & _OTHERS_BITS:
        found = stat.S_IMODE(status.st_mode)
        raise UnreadableError(
            f"{path} is open to other users (mode {found:04o})",
            f"a user who has read the key can sign: make a new one, or `chmod {mode} {path}` if"
            " no other user read it",
        )


def _content(path: Path) -> bytes:
    try:
        refuse_others(path.parent, path.parent.stat(), "700")
        with os.fdopen(os.open(path, _READ_FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError(f"{path} is not a regular file", _new_one(path))
            refuse_others(path, status, "600")
            return file.read(_MAX_FILE_BYTES)
    except FileNotFoundError:
        raise UnreadableError(f"no certificate authority at {path}", _new_one(path)) from None
    except OSError as error:
        raise _trouble(path, "read", error) from None


def _trouble(path: Path, verb: str, error: OSError) -> UnreadableError:
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableError(
        f"{path} cannot be {verb}: {reason}", "check its owner and permissions, or name another --state-dir"
    )


def _new_one(path: Path) -> str:
    return f"make a new one with `{rotate_command(path)}`"


def _is_root(certificate: x509.Certificate) -> bool:
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        certificate.verify_directly_issued_by(certificate)
    except Exception:  # noqa: BLE001 - any failure means that it is not ours
        return False
    return basic.ca and basic.path_length == 0


def _as_pem(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret + certificate.public_bytes(Encoding.PEM)


def _scratch(folder: Path, data: bytes) -> Path:
    """Write the bytes to a new file beside their destination; its mode is 0600 from the start."""
    handle, name = tempfile.mkstemp(prefix=".new-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), FILE_MODE)
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _put(scratch: Path, path: Path, *, replace: bool) -> bool:
    if replace:
        scratch.replace(path)
    else:
        try:
            # Unlike a rename, this fails if another process was first.
            path.hardlink_to(scratch)
        except FileExistsError:
            return False
    # The new name itself must survive a crash, too.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


# A hint gets copied. A hint that does not name the authority could destroy the key of another one, so the
# state folder and the sandbox are always written out. This module rotates nothing.
def rotate_command(
    path: Path, *, constrain: bool = False, rules: Sequence[Path] = (), profile: str | None = None
) -> str:
    """Return the command for the authority in the file `path`, which is `ca/NAME.pem` in a state folder.

    Args:
        path: the file of a `AuthorityStore`.
        constrain: whether the new authority signs only for the hosts of the rules.
        rules: the rules of the proxy; if unknown, the command says FILE.
        profile: the profile of the sandbox.
    """
    folder = path.absolute().parent.parent
    words = ["egress", "ca", "rotate", "--state-dir", str(folder), "--sandbox", path.stem]
    if constrain:
        words.append("--constrain")
        for file in rules or (Path("FILE"),):
            words += ["--rules", str(file.absolute() if rules else file)]
        words += ["--profile", profile] if profile else []
    return shlex.join(words)
