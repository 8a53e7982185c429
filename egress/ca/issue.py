"""Create certificates: the root of an authority, and the leaves it signs.

Keeps no state and reads no clock: times are UTC seconds passed by callers.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from egress.ca.constraints import Constraints
from egress.rules.language.hosts import is_address

CLOCK_SKEW: Final = 3600
"""Certificates are backdated by this much: clocks of sandboxes are not exact."""

LEAF_LIFETIME: Final = 24 * 3600
DAY_SECONDS: Final = 24 * 3600

_ORGANISATION = "Egress"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate for one host, and its key, which stays in memory."""

    host: str
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    not_before: int
    not_after: int

    @property
    def certificate_pem(self) -> bytes:
        """Return the chain for a client: the leaf alone, since the client has its issuer."""
        return self.certificate.public_bytes(Encoding.PEM)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new P-256 key: the curve that every client supports."""
    return ec.generate_private_key(ec.SECP256R1())


def root_certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    now: int,
    life: int,
    constraints: Constraints | None = None,
) -> x509.Certificate:
    """Return a self-signed root that can sign leaves but no further authority.

    The subject carries a part of the key's identifier, so that an old and a new authority of one name can be
    in the same trust store.
    """
    public = key.public_key()
    # Two roots with equal names are told apart by this identifier when a client builds a chain.
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    title = f"Egress {name[:40]} {identifier.digest.hex()[:8]}"
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, title),
        ]
    )
    builder = (
        _begin(subject, subject, public, now - CLOCK_SKEW, now + life)
        # Path length zero: a leaf can never become an authority.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    )
    if constraints is not None:
        # Critical: a client that cannot read constraints must refuse the root, not ignore them.
        builder = builder.add_extension(constraints.extension(), critical=True)
    return builder.sign(key, hashes.SHA256())


def leaf_certificate(
    host: str,
    public: ec.EllipticCurvePublicKey,
    issuer: x509.Certificate,
    signing_key: ec.EllipticCurvePrivateKey,
    now: int,
) -> x509.Certificate:
    """Return a certificate for exactly this canonical host; it never outlives its issuer."""
    ends = min(now + LEAF_LIFETIME, int(issuer.not_valid_after_utc.timestamp()))
    # The host is only in the subject alternative name: a second copy could only differ.
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANISATION)])
    return (
        _begin(subject, issuer.subject, public, now - CLOCK_SKEW, ends)
        .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(_issuer_identifier(issuer), critical=False)
        .sign(signing_key, hashes.SHA256())
    )


def _begin(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, begins: int, ends: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        # Random serials: leaves of a restarted proxy must not repeat one.
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(begins, UTC))
        .not_valid_after(datetime.fromtimestamp(ends, UTC))
    )


def _general_name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if is_address(host) else x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    # Each certificate gets only the use that it needs: a leaf can sign no further certificate.
    return x509.KeyUsage(
        # Roots sign certificates only, leaves sign handshakes only.
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _issuer_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
