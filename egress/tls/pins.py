"""Pins: public keys of which at least one must stand in the chain that an upstream is verified by.

Checked inside the handshake, after OpenSSL's own verification and never instead of it. Only the chain
that leads to a trusted root counts: a certificate that a peer merely sends along proves nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable

from OpenSSL import SSL, crypto

from egress.errors import ContentError

_PREFIX = "sha256/"


class Pins:
    """The check of one connection. `failed` tells a wrong key from other reasons afterwards."""

    __slots__ = ("_found", "_wanted", "failed")

    def __init__(self, texts: Iterable[str]) -> None:
        """Take pins such as `sha256/BASE64`; raises `ContentError` for none, or for one that is none."""
        self._wanted = frozenset(_digest(text) for text in texts)
        self._found = False
        self.failed = False
        if not self._wanted:
            raise ContentError("a list of pins is empty, which no upstream could meet", "leave it out")

    def check(
        self, _connection: SSL.Connection, certificate: crypto.X509, _error: int, depth: int, verified: int
    ) -> bool:
        """Take part in a verification: called for each certificate of the chain, that of the host last."""
        # A pin only narrows: it never turns a failed verification into a success.
        if not verified:
            return False
        self._found = self._found or pin_of(certificate) in self._wanted
        # The certificate of the host comes last, at depth 0: a missing pin is known only then.
        self.failed = depth == 0 and not self._found
        return not self.failed


def pin_of(certificate: crypto.X509) -> bytes:
    """SHA-256 of the public key of a certificate, as it stands there."""
    return hashlib.sha256(crypto.dump_publickey(crypto.FILETYPE_ASN1, certificate.get_pubkey())).digest()


def _digest(text: str) -> bytes:
    try:
        digest = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if not text.startswith(_PREFIX) or len(digest) != hashlib.sha256().digest_size:
        raise ContentError(
            "a pin is not written as sha256/BASE64", "docs/guides/certificates.md shows how to make one"
        )
    return digest
