"""The key that signs bundles of evidence: Ed25519, in a file of its own, made when it is first needed.

Whoever gets a bundle finds the public key in it. That it is the key of the one they trust, they see by its
fingerprint, which they were told on another way.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from egress.errors import UnreadableError

NAME = "evidence.key"
MAX_KEY_BYTES = 16 * 1024
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")


def read_or_create(path: Path) -> Ed25519PrivateKey:
    """The private key in a file. Raises `UnreadableError`."""
    try:
        return read(path)
    except FileNotFoundError:
        return _create(path)


def read(path: Path) -> Ed25519PrivateKey:
    """Raises `FileNotFoundError`, and `UnreadableError` for a file that cannot be used."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(f"the key {path} cannot be read: {_reason(error)}", "name another") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
            raise UnreadableError(
                f"the key {path} must be a file that only its owner can read",
                "`chmod 600` it, or name another",
            )
        data = os.read(descriptor, MAX_KEY_BYTES)
    finally:
        os.close(descriptor)
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UnreadableError(
            f"{path} is no Ed25519 key in PEM", "leave --signing-key out, and one is made"
        ) from None
    return key


def _create(path: Path) -> Ed25519PrivateKey:
    data = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    fresh = path.with_name(f"{path.name}.{token_hex(4)}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        # Where another was quicker, its key is the key.
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        fresh.unlink()
    except OSError as error:
        raise UnreadableError(f"the key {path} cannot be made: {_reason(error)}", "name another") from None
    return read(path)


def public(key: Ed25519PrivateKey) -> bytes:
    """The public half, in PEM."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def read_public(data: bytes) -> Ed25519PublicKey | None:
    """A public key in PEM; None for anything else."""
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, TypeError):
        return None
    return key if isinstance(key, Ed25519PublicKey) else None


def fingerprint(key: Ed25519PublicKey) -> str:
    """`sha256:` and the digest of the key in DER."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def is_fingerprint(text: str) -> bool:
    """Whether a text has the form of one."""
    return _FINGERPRINT.fullmatch(text) is not None


def is_signed(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """Whether the key's owner signed these bytes."""
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
