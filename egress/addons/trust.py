"""Whom upstream connections trust, and the ways to weaken that which stop the start.

The roots are the public ones and those of named PEM files. What is checked is what is loaded: bytes, not
paths. There is no way to turn verification off, so an option that would is an error and not ignored:
whoever sets it believes something that is not so.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mitmproxy.net import tls as stock
from mitmproxy.optmanager import OptManager
from OpenSSL import SSL, crypto

from egress.ca.bundle import certificates, private_roots, public_roots
from egress.errors import ContentError, UsageError

FORBIDDEN_OPTIONS = {
    "ssl_insecure": "it stops verifying upstream certificates",
    "emudhra": "it signs with a key that was published",
    "emudhra_old": "it signs with a key that was published",
}


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


def refuse_weakened(options: OptManager) -> None:
    """Raise `UsageError` when an option of mitmproxy, or a key log, would undo what TLS is for."""
    for name, effect in FORBIDDEN_OPTIONS.items():
        # Not every release has every one of them.
        if name in options and getattr(options, name):
            raise UsageError(f"the option {name} is set: {effect}", "start without it")
    if stock.log_master_secret is not None:
        raise UsageError(
            "SSLKEYLOGFILE is set: the keys of connections would be written to a file",
            "start without SSLKEYLOGFILE and MITMPROXY_SSLKEYLOGFILE in the environment",
        )
