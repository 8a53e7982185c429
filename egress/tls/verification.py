"""The terms of a TLS connection, and the outcome of its handshake: proven, or refused and why.

This module must not decide whom to trust: `contexts` does, and OpenSSL verifies.
"""

from __future__ import annotations

from dataclasses import dataclass

from OpenSSL import SSL

from egress.ca.authority import Authority

_lib = SSL._lib  # type: ignore[attr-defined]  # noqa: SLF001 - pyOpenSSL shows no way to read these


class NoProtocolError(SSL.Error):
    """The client offered only protocols that are not spoken here; it was sent `no_application_protocol`."""


@dataclass(frozen=True, slots=True)
class TlsTerms:
    """The terms on which a client connection is served; fixed before its first byte is read here."""

    sandbox: str
    authority: Authority
    host: str
    """The canonical destination: the name that is shown to the client and proven by the upstream."""
    port: int
    client_alpn: tuple[bytes, ...]
    upstream_alpn: tuple[bytes, ...]
    pins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HandshakeRefusal:
    """A failed handshake. `code` is the reason for the sandbox, `reason` for the operator."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class UpstreamProof:
    """An upstream has proven to be the destination."""

    version: str
    cipher: str
    alpn: bytes
    resumed: bool
    fingerprint: str
    """SHA-256 of its certificate."""


def is_verified(connection: SSL.Connection) -> bool:
    """Tell whether a handshake is complete and its peer certificate verified."""
    # OpenSSL also reports success where the peer sent no certificate, so both are checked.
    is_good: bool = _lib.SSL_get_verify_result(connection._ssl) == _lib.X509_V_OK  # noqa: SLF001
    return is_good and connection.get_peer_certificate() is not None


def is_resumed(connection: SSL.Connection) -> bool:
    """Tell whether the handshake resumed an earlier session."""
    return bool(_lib.SSL_session_reused(connection._ssl))  # noqa: SLF001


def verification_failure(connection: SSL.Connection) -> str:
    """Return the fault of the peer certificate, in words of OpenSSL; empty without a fault."""
    result = _lib.SSL_get_verify_result(connection._ssl)  # noqa: SLF001
    if result == _lib.X509_V_OK:
        return ""
    text: bytes = SSL._ffi.string(_lib.X509_verify_cert_error_string(result))  # type: ignore[attr-defined]  # noqa: SLF001
    return text.decode("ascii", "replace")


def proof_of(tls: SSL.Connection) -> UpstreamProof:
    """Return the proof of a verified connection."""
    certificate = tls.get_peer_certificate()
    return UpstreamProof(
        version=tls.get_protocol_version_name(),
        cipher=tls.get_cipher_name() or "",
        alpn=tls.get_alpn_proto_negotiated(),
        resumed=is_resumed(tls),
        fingerprint=certificate.digest("sha256").decode() if certificate is not None else "",
    )
