"""The roots that upstream connections trust: the public ones and those of named PEM files, and no others.

The checked bytes are the loaded bytes: no path is read twice. No option of mitmproxy undoes the choice, since
`addons/withheld_options` withholds them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from OpenSSL import SSL, crypto

from egress.ca.bundle import certificates, private_roots, public_roots
from egress.errors import ContentError


def trusted_roots(private: Iterable[Path] = ()) -> tuple[bytes, ...]:
    """The roots that upstream certificates must lead to, as DER; raises what reading them raises."""
    return (*certificates(public_roots()), *certificates(private_roots(private)))


def load_roots(context: SSL.Context, roots: Iterable[bytes]) -> None:
    """Make these certificates, and no others, the trust of the context."""
    store = context.get_cert_store()
    if store is None:
        raise ContentError("this OpenSSL gives no store for trusted roots", "report this")
    for der in roots:
        try:
            store.add_cert(crypto.load_certificate(crypto.FILETYPE_ASN1, der))
        except (crypto.Error, ValueError):
            raise ContentError(
                "a trusted root is not a certificate", "check the files that name private roots"
            ) from None
