"""The trust store of Java: PKCS #12 with certificates only (RFC 7292).

Theory of operation. Java trusts a certificate whose bag carries a certain attribute. Certificates are stored
unencrypted, as in the stores of newer JDKs: they are public. The password protects nothing either, and is the
usual one; the checksum exists because some readers reject a password without one. Its salt is derived from
the certificates instead of random, and it uses the one function that JDK 8 supports: equal certificates give
an equal store. The `cryptography` package writes such stores with a random salt, so two of its stores differ.

`serialize_java_truststore` of `cryptography` is not used: it draws a new salt for each store, so that equal
kits would differ, and what it writes without encryption cannot be opened with the usual password.

The module must not be used for keys.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Final

STORE_PASSWORD: Final = "changeit"
"""The password that JDKs and their users expect."""

_INTEGER, _OCTETS, _NULL, _OID, _BMP = b"\x02", b"\x04", b"\x05", b"\x06", b"\x1e"
_SEQUENCE, _SET, _EXPLICIT = b"\x30", b"\x31", b"\xa0"

_DATA_OID: Final = "1.2.840.113549.1.7.1"
_CERTIFICATE_BAG_OID: Final = "1.2.840.113549.1.12.10.1.3"
_X509_OID: Final = "1.2.840.113549.1.9.22.1"
_NAME_OID: Final = "1.2.840.113549.1.9.20"
_TRUSTED_FOR_OID: Final = "2.16.840.1.113894.746875.1.1"
_ANY_USAGE_OID: Final = "2.5.29.37.0"
_SHA1_OID: Final = "1.3.14.3.2.26"


def trust_store(certificates: Mapping[str, bytes]) -> bytes:
    """A store that trusts these certificates, DER by alias."""
    bags = [_bag(name, der) for name, der in certificates.items()]
    content = _encode(_SEQUENCE, _info(_encode(_SEQUENCE, *bags)))
    return _encode(_SEQUENCE, _encode(_INTEGER, b"\x03"), _info(content), _checksum(content))


def name_certificates(own: bytes, roots: Iterable[bytes]) -> dict[str, bytes]:
    """Aliases for certificates: `egress` for the sandbox's authority, part of the digest for roots."""
    others = {f"root-{hashlib.sha256(der).hexdigest()[:16]}": der for der in roots if der != own}
    return {"egress": own, **others}


def _bag(name: str, der: bytes) -> bytes:
    certificate = _encode(_SEQUENCE, _oid(_X509_OID), _encode(_EXPLICIT, _encode(_OCTETS, der)))
    attributes = sorted(
        (
            _attribute(_NAME_OID, _encode(_BMP, name.encode("utf-16-be"))),
            _attribute(_TRUSTED_FOR_OID, _oid(_ANY_USAGE_OID)),
        )
    )
    return _encode(
        _SEQUENCE, _oid(_CERTIFICATE_BAG_OID), _encode(_EXPLICIT, certificate), _encode(_SET, *attributes)
    )


def _attribute(kind: str, content: bytes) -> bytes:
    return _encode(_SEQUENCE, _oid(kind), _encode(_SET, content))


def _info(content: bytes) -> bytes:
    return _encode(_SEQUENCE, _oid(_DATA_OID), _encode(_EXPLICIT, _encode(_OCTETS, content)))


def _checksum(content: bytes) -> bytes:
    salt = hashlib.sha256(content).digest()[:20]
    digest = hmac.digest(_derived(STORE_PASSWORD, salt), content, "sha1")
    algorithm = _encode(_SEQUENCE, _oid(_SHA1_OID), _encode(_NULL))
    return _encode(_SEQUENCE, _encode(_SEQUENCE, algorithm, _encode(_OCTETS, digest)), _encode(_OCTETS, salt))


def _derived(password: str, salt: bytes) -> bytes:
    """The key for the checksum: RFC 7292, appendix B, with one round and one block."""
    block = 64
    text = password.encode("utf-16-be") + b"\0\0"
    filled = b"".join((part * block)[: -(-len(part) // block) * block] for part in (salt, text))
    return hashlib.sha1(b"\x03" * block + filled, usedforsecurity=False).digest()


# DER --------------------------------------------------------------------------------------------


def _encode(tag: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    if length < 0x80:
        return tag + bytes([length]) + content
    size = (length.bit_length() + 7) // 8
    return tag + bytes([0x80 | size]) + length.to_bytes(size, "big") + content


def _oid(dotted: str) -> bytes:
    first, second, *others = map(int, dotted.split("."))
    return _encode(_OID, *map(_base128, (first * 40 + second, *others)))


def _base128(number: int) -> bytes:
    octets = [number & 0x7F]
    while number := number >> 7:
        octets.append(0x80 | number & 0x7F)
    return bytes(reversed(octets))
