"""The Ed25519 key that signs evidence bundles, in a file that is created on first use.

A bundle contains the public key. The recipient must compare its fingerprint with a copy received over another
channel: the key in the bundle alone proves nothing.
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
    """Return the private key in a file; create it if missing. Raises `UnreadableError`."""
    return _parsed(path, read_or_create_private(path, _new_key, MAX_KEY_BYTES, _CURE, is_named=True))


def read(path: Path) -> Ed25519PrivateKey:
    """Read a private key. Raises `FileNotFoundError`, and `UnreadableError` for an unusable file."""
    return _parsed(path, read_private(path, MAX_KEY_BYTES, _CURE, is_named=True))


def _parsed(path: Path, data: bytes) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(data, None)
    # Any error is reported alike: a message of the library could quote bytes of a private key.
    except (ValueError, TypeError):
        key = None
    # Only Ed25519: a verifier that accepted any type would let a bundle choose the weakest one.
    if not isinstance(key, Ed25519PrivateKey):
        raise UnreadableError(
            f"{path} is not an Ed25519 key in PEM", "leave out --signing-key to create a key"
        ) from None
    return key


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        # No passphrase: the rights of the file protect it, like every other key of Egress.
        serialization.NoEncryption(),
    )


def public(key: Ed25519PrivateKey) -> bytes:
    """Return the public key in PEM."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def read_public(data: bytes) -> Ed25519PublicKey | None:
    """Parse a public key in PEM; None if invalid."""
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, TypeError):
        return None
    # A public key comes out of a bundle that anybody could have made.
    return key if isinstance(key, Ed25519PublicKey) else None


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return `sha256:` and the SHA-256 of the key in DER."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def is_fingerprint(text: str) -> bool:
    """True if the text has the form of a fingerprint."""
    return _FINGERPRINT.fullmatch(text) is not None


def is_signed(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """True if the signature over the bytes is valid."""
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True
