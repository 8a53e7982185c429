"""The key that signs bundles of evidence: Ed25519, in a file of its own, made when it is first needed.

Whoever gets a bundle finds the public key in it. That it is the key of the one they trust, they see by its
fingerprint, which they were told on another way.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from egress.errors import UnreadableError
from egress.private_file import read_or_create_private, read_private

NAME = "evidence.key"
MAX_KEY_BYTES = 16 * 1024
_CURE = "name another with --signing-key"
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")


def read_or_create(path: Path) -> Ed25519PrivateKey:
    """The private key in a file. Raises `UnreadableError`."""
    return _parsed(path, read_or_create_private(path, _new_key, MAX_KEY_BYTES, _CURE, is_named=True))


def read(path: Path) -> Ed25519PrivateKey:
    """Raises `FileNotFoundError`, and `UnreadableError` for a file that cannot be used."""
    return _parsed(path, read_private(path, MAX_KEY_BYTES, _CURE, is_named=True))


def _parsed(path: Path, data: bytes) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UnreadableError(
            f"{path} is no Ed25519 key in PEM", "leave --signing-key out, and one is made"
        ) from None
    return key


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


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
