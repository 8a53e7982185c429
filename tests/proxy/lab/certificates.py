"""A certificate authority for one lab, with one leaf for each way in which a certificate can be wrong.

Keys are made for each lab anew, so nothing here is worth stealing and nothing expires in the tree.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HTTP1 = ("http/1.1",)
HTTP2 = ("h2",)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Certificates:
    """One CA, and server contexts whose leaf is signed by it, or is wrong in one way."""

    def __init__(self) -> None:
        self._ca = trustme.CA()

    @property
    def ca_pem(self) -> bytes:
        return self._ca.cert_pem.bytes()

    def write_ca(self, path: Path) -> Path:
        path.write_bytes(self.ca_pem)
        return path

    def write_leaf(self, folder: Path, *names: str) -> tuple[Path, Path]:
        """The chain and the key of a good leaf as two files, for servers that read files."""
        leaf = self.leaf(*names)
        chain, key = folder / "leaf.pem", folder / "leaf.key"
        chain.write_bytes(b"".join(part.bytes() for part in leaf.cert_chain_pems))
        key.touch(mode=0o600)
        key.write_bytes(leaf.private_key_pem.bytes())
        return chain, key

    def leaf(self, *names: str) -> trustme.LeafCert:
        """A good leaf, for servers that are no `ssl.SSLContext`."""
        return self._ca.issue_cert(*names)

    def trust(self, alpn: Sequence[str] = ()) -> ssl.SSLContext:
        """A client that believes this CA and nobody else."""
        return trusting(self.ca_pem, alpn)

    # Servers --------------------------------------------------------------------------------------

    def good(self, *names: str, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """A leaf for exactly these names; `*.example.test` makes a wildcard."""
        return _server(self.leaf(*names), alpn)

    def expired(self, *names: str, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        return _server(self._ca.issue_cert(*names, not_after=LONG_AGO, not_before=_before(LONG_AGO)), alpn)

    def not_yet_valid(self, *names: str, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        far = datetime(2090, 1, 1, tzinfo=UTC)
        return _server(self._ca.issue_cert(*names, not_before=far, not_after=far + timedelta(days=9)), alpn)

    def wrong_name(self, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        return self.good("somebody-else.test", alpn=alpn)

    def unknown_ca(self, *names: str, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """Signed, and by somebody: but not by the CA of this lab."""
        return _server(self._stranger.issue_cert(*names), alpn)

    def self_signed(self, *names: str, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        certificate, key = _self_signed(names)
        context = _bare(alpn)
        with trustme.Blob(key + certificate).tempfile() as path:
            context.load_cert_chain(path)
        return context

    @cached_property
    def _stranger(self) -> trustme.CA:
        return trustme.CA()


def trusting(ca_pem: bytes, alpn: Sequence[str] = ()) -> ssl.SSLContext:
    """A client context that believes one CA, given as PEM."""
    context = ssl.create_default_context(cadata=ca_pem.decode("ascii"))
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def _server(leaf: trustme.LeafCert, alpn: Sequence[str]) -> ssl.SSLContext:
    context = _bare(alpn)
    leaf.configure_cert(context)
    return context


def _bare(alpn: Sequence[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def _before(moment: datetime) -> datetime:
    return moment - timedelta(days=30)


def _self_signed(names: Sequence[str]) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(LONG_AGO)
        .not_valid_after(datetime(2090, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return signed.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
