"""Bundles of root certificates: public roots, named private roots, and the bundle for clients.

The public roots are those of certifi, which this package pins to a recent release. The bundle of the
operating system is never used: some still trust roots whose keys are published.

Reads files; verifies no certificate and knows no TLS.
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import certifi

from egress.errors import ContentError, UnreadableError, reason_of

REFUSED_ROOTS: Final = (b"emSign ECC Root CA - G3", b"AAA Certificate Services")
"""Roots with a published key below them: anybody can sign for any host."""

_CERTIFICATE_BLOCK = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)\s*-----END CERTIFICATE-----"
)
_MAX_FILE_BYTES: Final = 16 * 1024 * 1024


def public_roots() -> bytes:
    """Return the public roots as PEM; raises `ContentError` if a refused root is among them."""
    place = Path(certifi.where())
    return _checked(place, _read(place), lambda _: "upgrade certifi to a release without it")


def private_roots(paths: Iterable[Path]) -> bytes:
    """Return the roots in the named PEM files, joined.

    Raises `UnreadableError` for an unreadable file, `ContentError` for a file without a certificate, with a
    private key, or with a refused root.
    """
    return b"".join(_checked(path, _read(path), partial(_without_lines, path)) for path in paths)


def _without_lines(path: Path, lines: Iterable[tuple[int, int]]) -> str:
    """Return the cure for a file with refused roots at these lines; a system's bundle is such a file."""
    script = ";".join(f"{first},{last}d" for first, last in lines)
    copied = f"sed '{script}' {shlex.quote(str(path))} >roots.pem"
    return f"name the file of your own root alone instead of a whole bundle, or a copy without it: `{copied}`"


def certificates(pem: bytes) -> Iterator[bytes]:
    """Yield every certificate of a PEM text as DER; raises `ValueError` for invalid base64."""
    for block in _CERTIFICATE_BLOCK.findall(pem):
        try:
            yield base64.b64decode(b"".join(block.split()), validate=True)
        except binascii.Error:
            raise ValueError("a certificate is not base64") from None


def merged_bundle(certificate_pem: bytes, private: bytes = b"") -> bytes:
    """Return the bundle for clients in a sandbox: public roots, private roots, and the sandbox's authority.

    The public roots stay, because hosts with `intercept: never` show their own certificates.
    """
    return b"\n".join(part.strip() for part in (public_roots(), private, certificate_pem) if part) + b"\n"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # Bounded: a path that names a device must not fill the memory.
            return file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise UnreadableError(
            f"the certificates in {path} cannot be read: {reason_of(error)}", "check the path"
        ) from None


def _checked(path: Path, pem: bytes, cure: Callable[[Sequence[tuple[int, int]]], str]) -> bytes:
    """Return the roots of a file. `cure` makes the hint about refused ones from their lines."""
    # The bundle goes into every sandbox, so a key left in the file by mistake would leak.
    if b"PRIVATE KEY-----" in pem:
        raise ContentError(f"{path} contains a private key", "name a file that contains only certificates")
    try:
        found = list(certificates(pem))
    except ValueError:
        found = []
    # A block that is not a certificate would silently be dropped by clients, so it is refused here.
    if not found or len(found) != pem.count(b"-----BEGIN "):
        raise ContentError(f"{path} is not a list of PEM certificates", "convert it with `openssl x509`")
    refused = [
        (name.decode(), lines)
        for der, lines in zip(found, _lines_of_blocks(pem), strict=True)
        for name in REFUSED_ROOTS
        # Search the raw bytes: a certificate issued by a refused root is no better than the root.
        if name in der
    ]
    if refused:
        names = " and ".join(dict.fromkeys(name for name, _ in refused))
        # All of them at once: a cure that removes only the first would have to be read twice.
        raise ContentError(
            f"{path}:{refused[0][1][0]} trusts {names}, below which a published key signs for any host",
            cure([lines for _, lines in refused]),
        )
    return pem


def _lines_of_blocks(pem: bytes) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of every certificate."""
    for block in _CERTIFICATE_BLOCK.finditer(pem):
        first = pem.count(b"\n", 0, block.start()) + 1
        yield first, first + block[0].count(b"\n")
