"""The file of an authority: key and certificate together, readable only by its owner.

A single file, so that the two always belong together, and so that no file of the folder is fit for
distribution: clients get an exported copy of the certificate.

Errors name the file and never quote its content.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
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

from egress.errors import ContentError, UnreadableError, reason_of
from egress.private_file import FOLDER_MODE, read_mounted, read_private, refuse_others, write_atomically

MAX_AUTHORITIES: Final = 2
_MAX_BYTES: Final = 1 << 20
_KEY_BEGIN: Final = re.compile(rb"-----BEGIN PRIVATE KEY-----")
_ANOTHER_FOLDER: Final = "name another folder with --state-dir"
_FROM_CLUSTER: Final = "let `egress k8s ca` make it in a cluster, and mount the secret"


def read(path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return key and certificate.

    Raises `UnreadableError` if the file is missing, not a regular file of this user, or open to others;
    `ContentError` if it does not hold an authority.
    """
    return parse(_content(path), str(path), _new_one(path))


def read_from_cluster(path: Path) -> tuple[tuple[ec.EllipticCurvePrivateKey, x509.Certificate], ...]:
    """Return each key and certificate of a file that a cluster mounts, the oldest first.

    Raises what `read` raises.
    """
    try:
        data = read_mounted(path, _MAX_BYTES, _FROM_CLUSTER)
    except FileNotFoundError:
        raise UnreadableError(f"no certificate authority at {path}", _FROM_CLUSTER) from None
    return parse_all(data, str(path), _FROM_CLUSTER)


def parse_all(
    data: bytes, place: str, cure: str
) -> tuple[tuple[ec.EllipticCurvePrivateKey, x509.Certificate], ...]:
    """Return each key and certificate of a file with one authority, or two of which one takes over.

    Raises `ContentError`, which names the place.
    """
    # A release that knows of one authority reads the first, so the older one is first.
    starts = [found.start() for found in _KEY_BEGIN.finditer(data)]
    if len(starts) > MAX_AUTHORITIES:
        raise ContentError(f"{place} contains more than {MAX_AUTHORITIES} certificate authorities", cure)
    parts = [data[start:end] for start, end in pairwise([0, *starts[1:], len(data)])]
    return tuple(parse(part, place, cure) for part in parts)


def parse(data: bytes, place: str, cure: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return key and certificate of an authority. Raises `ContentError`, which names the place."""
    # Parse errors quote bytes of the file, so none is passed on.
    try:
        key = load_pem_private_key(data, None)
        certificate = x509.load_pem_x509_certificate(data)
        # A pair that does not match would fail only later, in the TLS handshake of every client.
        is_pair = certificate.public_key() == key.public_key()
    except Exception:  # noqa: BLE001 - the library has many, and a proxy that follows the file would end
        raise ContentError(f"{place} contains no certificate authority", cure) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ContentError(f"the key in {place} is not a P-256 key", cure)
    if not is_pair:
        raise ContentError(f"key and certificate in {place} do not belong together", cure)
    if not _is_root(certificate):
        raise ContentError(f"the certificate in {place} is not that of an Egress authority", cure)
    return key, certificate


def write(
    path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, *, replace: bool
) -> bool:
    """Write both atomically and durably; return False if the file exists and `replace` is not set.

    Raises `UnreadableError` if writing fails, or if the folder is open to others.
    """
    try:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        # Checked after mkdir: the folder may be older, and another user could exchange the key in it.
        refuse_others(path.parent, path.parent.lstat(), _ANOTHER_FOLDER, FOLDER_MODE)
        return write_atomically(path, as_pem(key, certificate), replace=replace)
    except OSError as error:
        raise UnreadableError(
            f"{path} cannot be written: {reason_of(error)}",
            f"check its owner and its mode, or {_ANOTHER_FOLDER}",
        ) from None


def _content(path: Path) -> bytes:
    try:
        refuse_others(path.parent, path.parent.stat(), _ANOTHER_FOLDER, FOLDER_MODE)
        return read_private(path, _MAX_BYTES, _new_one(path))
    except FileNotFoundError:
        raise UnreadableError(f"no certificate authority at {path}", _new_one(path)) from None
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {reason_of(error)}", _new_one(path)) from None


def _new_one(path: Path) -> str:
    return f"make a new one with `{rotate_command(path)}`"


def _is_root(certificate: x509.Certificate) -> bool:
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        certificate.verify_directly_issued_by(certificate)
    except Exception:  # noqa: BLE001 - any failure means that it is not ours
        return False
    return basic.ca and basic.path_length == 0


def as_pem(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    """Return the content of the file: the key, and then the certificate."""
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret + certificate.public_bytes(Encoding.PEM)


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
