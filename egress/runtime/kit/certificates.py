"""Certificates as the kit takes them in: PEM texts, of which nothing but certificates comes through.

Theory of operation. What enters a sandbox is written anew from the bytes of each certificate, so that
comments, keys and whatever else stood in a text cannot come along. A block is taken for a certificate by
its shape in DER (what is signed, how, and the signature), not by the line above it: no form of a private
key has that shape.

The authority is read as X.509 as well, for it must be able to sign. Public roots are not: some are older than
what strict readers ask of a certificate, and clients trust them nevertheless.

It reads no file, and verifies no signature and no date.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from cryptography import x509
from OpenSSL import crypto

from egress.ca.bundle import REFUSED_ROOTS, certificates
from egress.errors import ContentError

_SEQUENCE_TAG: Final = 0x30
_BIT_STRING_TAG: Final = 0x03


def read_authority(pem: bytes) -> bytes:
    """The one certificate of a sandbox's authority, as DER.

    Raises `ContentError` when the text holds anything else, or a certificate that cannot sign others.
    """
    found = _read(pem, "the certificate of the authority")
    if len(found) != 1:
        raise ContentError(
            f"the certificate of the authority is one certificate, and here are {len(found)}",
            "give the authority of this sandbox alone; other roots belong to the public ones",
        )
    if not _can_sign(found[0]):
        raise ContentError(
            "the certificate of the authority is none that may sign others",
            "give the certificate that the proxy answered with when the sandbox was added",
        )
    return found[0]


def read_roots(pem: bytes) -> tuple[bytes, ...]:
    """The roots that are trusted besides, as DER, each once.

    Raises `ContentError` when the text holds anything but certificates, or one that must not be trusted.
    """
    found = tuple(dict.fromkeys(_read(pem, "the text of public roots")))
    for der in found:
        for name in REFUSED_ROOTS:
            if name in der:
                raise ContentError(
                    f"the public roots hold {name.decode()}, below which a published key signs for any host",
                    "use the roots of `egress.ca.public_roots`, not those of an operating system",
                )
    return found


def write(ders: Iterable[bytes]) -> bytes:
    """Certificates as one PEM text."""
    return b"".join(map(_block, ders))


def file_name(der: bytes) -> str:
    """The name under which OpenSSL finds a certificate in a folder of certificates."""
    certificate = crypto.load_certificate(crypto.FILETYPE_ASN1, der)
    return f"{certificate.subject_name_hash():08x}.0"


def _block(der: bytes) -> bytes:
    lines = textwrap.wrap(base64.b64encode(der).decode("ascii"), 64)
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]).encode("ascii")


def _read(pem: bytes, what: str) -> list[bytes]:
    if b"PRIVATE KEY-----" in pem:
        raise ContentError(f"{what} holds a private key", "give certificates alone")
    try:
        found = list(certificates(pem))
    except ValueError:
        found = []
    if not found or len(found) != pem.count(b"-----BEGIN ") or not all(map(_is_certificate, found)):
        raise ContentError(f"{what} is not a list of certificates in PEM form", "give certificates alone")
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
    """The tags and contents that stand side by side; raises `ValueError` where they do not fill the bytes."""
    at = 0
    while at < len(der):
        tag, length, start = der[at], *_length(der, at + 1)
        if start + length > len(der):
            raise ValueError("an element is longer than what holds it")
        yield tag, der[start : start + length]
        at = start + length


def _length(der: bytes, at: int) -> tuple[int, int]:
    """The length that is written there, and where what it counts begins."""
    first = der[at : at + 1]
    if not first or first[0] == 0x80 or first[0] > 0x84:
        raise ValueError("a length is missing, open or too long")
    if first[0] < 0x80:
        return first[0], at + 1
    end = at + 1 + first[0] - 0x80
    return int.from_bytes(der[at + 1 : end], "big"), end
