"""The file an authority is kept in: key and certificate together, readable by its owner alone.

One file, so that the two can never be of different authorities, and so that nothing in the folder is
fit for handing out: what clients get is an exported copy of the certificate.

Errors name the file and never quote what it holds.
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

    Raises `UnreadableError` when the file is missing, no plain file of this user, or open to others;
    `ContentError` when it does not hold one authority.
    """
    data = _content(path)
    try:
        key = load_pem_private_key(data, None)
        certificate = x509.load_pem_x509_certificate(data)
    except (ValueError, TypeError):
        raise ContentError(f"{path} holds no certificate authority", _new_one(path)) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ContentError(f"the key in {path} is not a P-256 key", _new_one(path))
    if certificate.public_key() != key.public_key():
        raise ContentError(f"key and certificate in {path} do not belong together", _new_one(path))
    if not _is_root(certificate):
        raise ContentError(f"the certificate in {path} is not that of an authority of ours", _new_one(path))
    return key, certificate


def write(
    path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, *, replace: bool
) -> bool:
    """Write both in one step, safely on the disk; false when something stands there and `replace` is not set.

    Raises `UnreadableError` when it cannot be written, or when the folder is open to others.
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
    """Make the folder for its owner alone; raises `UnreadableError` for one that others may enter."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    refuse_others(folder, folder.lstat(), "700")


def refuse_others(path: Path, status: os.stat_result, mode: str) -> None:
    """Raise `UnreadableError` when the file or folder is not this user's, or others have rights on it."""
    if status.st_uid != os.geteuid():
        raise UnreadableError(
            f"{path} belongs to another user", "run this as the user who owns it, or use another --state-dir"
        )
    if status.st_mode & _OTHERS_BITS:
        found = stat.S_IMODE(status.st_mode)
        raise UnreadableError(
            f"{path} is open to other users (mode {found:04o})",
            f"whoever could read the key can sign: make a new one, or `chmod {mode} {path}` if nobody did",
        )


def _content(path: Path) -> bytes:
    try:
        refuse_others(path.parent, path.parent.stat(), "700")
        with os.fdopen(os.open(path, _READ_FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError(f"{path} is not a plain file", _new_one(path))
            refuse_others(path, status, "600")
            return file.read(_MAX_FILE_BYTES)
    except FileNotFoundError:
        raise UnreadableError(f"there is no certificate authority at {path}", _new_one(path)) from None
    except OSError as error:
        raise _trouble(path, "read", error) from None


def _trouble(path: Path, what: str, error: OSError) -> UnreadableError:
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableError(
        f"{path} cannot be {what}: {reason}", "check its owner and its rights, or name another --state-dir"
    )


def _new_one(path: Path) -> str:
    return f"make a new one with `{rotate_command(path)}`"


def _is_root(certificate: x509.Certificate) -> bool:
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        certificate.verify_directly_issued_by(certificate)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not ours
        return False
    return basic.ca and basic.path_length == 0


def _as_pem(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret + certificate.public_bytes(Encoding.PEM)


def _scratch(folder: Path, data: bytes) -> Path:
    """The bytes in a new file beside their destination; it is 0600 from its first moment."""
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
            # Unlike a rename it fails when another process was first.
            path.hardlink_to(scratch)
        except FileExistsError:
            return False
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


# The command that replaces an authority, whole, for hints.
#
# A hint is copied. One that leaves out which authority is meant destroys the key of another one, so the state
# folder and the sandbox are always written out. Nothing is rotated here.
def rotate_command(
    path: Path, *, constrain: bool = False, rules: Sequence[Path] = (), profile: str | None = None
) -> str:
    """Return the command for the authority in the file `path`, which is `ca/NAME.pem` in a state folder.

    Args:
        path: the file of a `AuthorityStore`.
        constrain: whether the new one is to sign for the hosts of the rules alone.
        rules: the rules of the proxy; where they are not known, the command says FILE.
        profile: that of the sandbox.
    """
    folder = path.absolute().parent.parent
    words = ["egress", "ca", "rotate", "--state-dir", str(folder), "--sandbox", path.stem]
    if constrain:
        words.append("--constrain")
        for file in rules or (Path("FILE"),):
            words += ["--rules", str(file.absolute() if rules else file)]
        words += ["--profile", profile] if profile else []
    return shlex.join(words)
