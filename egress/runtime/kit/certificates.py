"""Reads the kit's certificates: PEM texts, out of which only certificates pass.

Theory of operation. A certificate that enters a sandbox is encoded anew from its bytes, so that comments,
keys and other content of the text cannot come along. A block counts as a certificate by its DER shape
(content, algorithm, signature), not by the line above it: no private key format has that shape.

The authority is parsed as X.509 as well, because it must be able to sign. Public roots are not: some are
older than strict parsers accept, and clients trust them nevertheless.

The module reads no file, and verifies no signature or date.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Final

from cryptography import x509
from OpenSSL import crypto

from egress.ca.bundle import REFUSED_ROOTS, certificates
from egress.errors import ContentError

_SEQUENCE_TAG: Final = 0x30
_BIT_STRING_TAG: Final = 0x03
_LINE_LENGTH: Final = 64
"""Of base64 in PEM (RFC 7468)."""


def read_authority(pem: bytes) -> bytes:
    """The one certificate of a sandbox's authority, as DER.

    Raises `ContentError` for any other content, or a certificate that cannot sign.
    """
    found = _read(pem, "the certificate of the authority")
    if len(found) != 1:
        raise ContentError(
            f"expected one certificate of the authority, found {len(found)}",
            "give only the authority of this sandbox; other roots belong to the public roots",
        )
    if not _can_sign(found[0]):
        raise ContentError(
            "the certificate of the authority may not sign other certificates",
            "give the certificate from the proxy's admission of the sandbox",
        )
    return found[0]


def read_roots(pem: bytes) -> tuple[bytes, ...]:
    """The additional trusted roots, as DER, each once.

    Raises `ContentError` for other content, and for a root that must not be trusted.
    """
    found = tuple(dict.fromkeys(_read(pem, "the text of public roots")))
    # A root whose private key is public would let anybody forge any host inside of the sandbox.
    for der in found:
        for name in REFUSED_ROOTS:
            if name in der:
                raise ContentError(
                    f"the public roots hold {name.decode()}, whose private key is public",
                    "use the roots of `egress.ca.public_roots`, not those of an operating system",
                )
    return found


def write(ders: Iterable[bytes]) -> bytes:
    """Write certificates as one PEM text."""
    return b"".join(map(_block, ders))


def file_name(der: bytes) -> str:
    """The file name under which OpenSSL searches a folder for a certificate."""
    certificate = crypto.load_certificate(crypto.FILETYPE_ASN1, der)
    return f"{certificate.subject_name_hash():08x}.0"


def _block(der: bytes) -> bytes:
    text = base64.b64encode(der)
    # Cut by hand: a module that wraps prose takes half as long as all the rest of a kit.
    lines = (text[at : at + _LINE_LENGTH] for at in range(0, len(text), _LINE_LENGTH))
    return b"\n".join([b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""])


def _read(pem: bytes, what: str) -> list[bytes]:
    # Refused with its own message: the owner of a leaked key has to know about the mistake.
    if b"PRIVATE KEY-----" in pem:
        raise ContentError(f"{what} holds a private key", "give certificates only")
    try:
        found = list(certificates(pem))
    except ValueError:
        found = []
    # Every block has to be a certificate: a text with anything else is refused, not filtered.
    if not found or len(found) != pem.count(b"-----BEGIN ") or not all(map(_is_certificate, found)):
        raise ContentError(f"{what} is not a list of certificates in PEM form", "give certificates only")
    return found


def _can_sign(der: bytes) -> bool:
    try:
        certificate = x509.load_der_x509_certificate(der)
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound):
        return False


def _is_certificate(der: bytes) -> bool:
    try:
        ((tag, body),) = _elements(der)
        inside = [tag for tag, _ in _elements(body)]
    except ValueError:
        return False
    return tag == _SEQUENCE_TAG and inside == [_SEQUENCE_TAG, _SEQUENCE_TAG, _BIT_STRING_TAG]


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and contents of adjacent DER elements. Raises `ValueError` unless they fill the bytes."""
    at = 0
    while at < len(der):
        tag, length, start = der[at], *_length(der, at + 1)
        if start + length > len(der):
            raise ValueError("an element is longer than what holds it")
        yield tag, der[start : start + length]
        at = start + length


def _length(der: bytes, at: int) -> tuple[int, int]:
    """The length encoded at a position, and the position after it."""
    first = der[at : at + 1]
    # DER knows no open lengths, and no certificate needs a length of more than four bytes.
    if not first or first[0] == 0x80 or first[0] > 0x84:
        raise ValueError("a length is missing, open or too long")
    if first[0] < 0x80:
        return first[0], at + 1
    end = at + 1 + first[0] - 0x80
    return int.from_bytes(der[at + 1 : end], "big"), end
