"""Bundles of roots: the public ones, private ones that were named, and what clients are given.

The public roots are those of certifi, which this package's requirements hold to a recent release. The
bundle of the operating system is never used: some still trust roots below which a published key signs.

It reads files; it verifies nothing and knows no TLS.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import certifi

from egress.errors import ContentError, UnreadableError, reason_of

REFUSED_ROOTS: Final = (b"emSign ECC Root CA - G3", b"AAA Certificate Services")
"""Below these a key that anybody can download signs for any host."""

_CERTIFICATE_BLOCK = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)\s*-----END CERTIFICATE-----"
)
_MAX_FILE_BYTES: Final = 16 * 1024 * 1024


def public_roots() -> bytes:
    """The public roots as PEM; raises `ContentError` when they hold one that must not be trusted."""
    place = Path(certifi.where())
    return _checked(place, _read(place), "upgrade certifi to a release without it")


def private_roots(paths: Iterable[Path]) -> bytes:
    """The roots in the named PEM files, joined.

    Raises `UnreadableError` for a file that cannot be read, `ContentError` for one that holds no
    certificate, holds a key, or holds a root that must not be trusted.
    """
    return b"".join(_checked(path, _read(path), "take that root out of it") for path in paths)


def certificates(pem: bytes) -> Iterator[bytes]:
    """Every certificate of a PEM text, as DER; raises `ValueError` for one that is not base64."""
    for block in _CERTIFICATE_BLOCK.findall(pem):
        try:
            yield base64.b64decode(b"".join(block.split()), validate=True)
        except binascii.Error:
            raise ValueError("a certificate is not base64") from None


def merged_bundle(certificate_pem: bytes, private: bytes = b"") -> bytes:
    """What clients in a sandbox trust: the public roots, private ones, and the sandbox's own authority.

    The public roots stay, because hosts with `intercept: never` show their own certificates.
    """
    return b"\n".join(part.strip() for part in (public_roots(), private, certificate_pem) if part) + b"\n"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise UnreadableError(
            f"the certificates in {path} cannot be read: {reason_of(error)}", "check the path"
        ) from None


def _checked(path: Path, pem: bytes, cure: str) -> bytes:
    if b"PRIVATE KEY-----" in pem:
        raise ContentError(f"{path} holds a private key", "name a file with certificates alone")
    try:
        found = list(certificates(pem))
    except ValueError:
        found = []
    if not found or len(found) != pem.count(b"-----BEGIN "):
        raise ContentError(
            f"{path} is not a list of certificates in PEM form", "convert it with `openssl x509`"
        )
    for der in found:
        for name in REFUSED_ROOTS:
            # As bytes, wherever it stands: a certificate that one of them has issued is no better.
            if name in der:
                raise ContentError(
                    f"{path} trusts {name.decode()}, below which a published key signs for any host", cure
                )
    return pem
