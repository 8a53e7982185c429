"""Return the validity of a certificate, in UTC seconds.

Parsed by OpenSSL, which accepts what servers really send; stricter parsers reject some of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from OpenSSL import crypto

from egress.errors import ContentError

_FORM: Final = "%Y%m%d%H%M%SZ"


def load(der: bytes) -> crypto.X509:
    """Parse a certificate; raises `ContentError` for anything else."""
    try:
        return crypto.load_certificate(crypto.FILETYPE_ASN1, der)
    except (crypto.Error, ValueError):
        raise ContentError(
            "it contains something other than a certificate", "convert it with `openssl x509`"
        ) from None


def validity(certificate: crypto.X509) -> tuple[int, int]:
    """Return the first and the last second of a certificate."""
    return _seconds(certificate.get_notBefore()), _seconds(certificate.get_notAfter())


def _seconds(text: bytes | None) -> int:
    # pyOpenSSL returns the text form of ASN.1 GENERALIZEDTIME, always in UTC.
    return int(datetime.strptime((text or b"").decode("ascii"), _FORM).replace(tzinfo=UTC).timestamp())
