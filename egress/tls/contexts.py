"""OpenSSL contexts: how TLS is spoken with clients, and with upstreams.

Towards clients there is one context for a host and an offer, made once and kept: loading a certificate
costs more than a handshake. Its session tickets are its own, so a session of one sandbox or host opens
nothing elsewhere. Towards upstreams there is one context; what differs is set on each connection.

Verification of upstreams has no switch. The name that is verified is the one the caller gives, which
must be the destination, and never a name that the client or the upstream sent.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final
from weakref import WeakKeyDictionary

from OpenSSL import SSL

from egress.ca.authority import Authority
from egress.ca.issue import Leaf
from egress.errors import ContentError
from egress.rules.language.hosts import is_address, is_canonical
from egress.tls.pins import Pins
from egress.tls.roots import load_roots
from egress.tls.verification import NoProtocolError

MAX_CONTEXTS: Final = 128
"""Kept for each authority, at about 25 KB each: a sandbox can have them made for any host of a wildcard."""

Alpn = tuple[bytes, ...]

# For TLS 1.2 only ciphers with forward secrecy that authenticate what they encrypt, with keys of ECDSA or
# RSA: Mozilla's "intermediate". Each is written out, so that no openssl.cnf of the machine and no group of
# a newer OpenSSL decides. TLS 1.3 has no others.
_CIPHERS: Final = b":".join(
    (
        b"@SECLEVEL=2",
        b"ECDHE-ECDSA-AES128-GCM-SHA256",
        b"ECDHE-RSA-AES128-GCM-SHA256",
        b"ECDHE-ECDSA-AES256-GCM-SHA384",
        b"ECDHE-RSA-AES256-GCM-SHA384",
        b"ECDHE-ECDSA-CHACHA20-POLY1305",
        b"ECDHE-RSA-CHACHA20-POLY1305",
        b"DHE-RSA-AES128-GCM-SHA256",
        b"DHE-RSA-AES256-GCM-SHA384",
        b"DHE-RSA-CHACHA20-POLY1305",
    )
)
# A client is on the same machine or one network away: no need to pay for keys that resist recording.
_CLIENT_GROUPS: Final = b"X25519:P-256:P-384"
_OPTIONS: Final = SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE
# No wildcard inside a label such as `a*.example.com`, and never the common name.
_lib = SSL._lib  # type: ignore[attr-defined]  # noqa: SLF001 - pyOpenSSL shows no way to set these
_HOST_FLAGS: Final[int] = _lib.X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | _lib.X509_CHECK_FLAG_NEVER_CHECK_SUBJECT


class ClientContexts:
    """The contexts for clients, kept for as long as their authority lives."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Authority, OrderedDict[tuple[str, Alpn], tuple[Leaf, SSL.Context]]]
        self._kept = WeakKeyDictionary()

    def accepting(self, authority: Authority, host: str, alpn: Alpn, now: int) -> SSL.Connection:
        """Return the server side of a handshake as this host, with `alpn` in our order of preference.

        Raises `ContentError` when the authority cannot sign for the host.
        """
        connection = SSL.Connection(self._context(authority, host, alpn, now), None)
        connection.set_accept_state()
        return connection

    def _context(self, authority: Authority, host: str, alpn: Alpn, now: int) -> SSL.Context:
        leaf = authority.leaf(host, now)
        kept = self._kept.setdefault(authority, OrderedDict())
        found = kept.get((host, alpn))
        if found is None or found[0] is not leaf:
            found = kept[host, alpn] = (leaf, _client_facing(leaf, alpn))
            if len(kept) > MAX_CONTEXTS:
                kept.popitem(last=False)
        kept.move_to_end((host, alpn))
        return found[1]


class UpstreamContexts:
    """Connections to upstreams, which must prove their identity."""

    def __init__(self, roots: Iterable[bytes]) -> None:
        """Trust these roots (DER) and no others; raises `ContentError` for one that is no certificate."""
        self._context = _new_context(SSL.TLS_CLIENT_METHOD)
        load_roots(self._context, roots)
        self._context.set_verify(SSL.VERIFY_PEER)

    def connecting(
        self,
        host: str,
        alpn: Alpn,
        pins: Pins | None = None,
        session: SSL.Session | None = None,
    ) -> SSL.Connection:
        """Return the client side of a handshake that succeeds only with a proven `host`.

        `session` must come from a connection to the same host with the same pins: a resumed session
        is not verified again. Raises `ContentError` for a host that has no canonical spelling.
        """
        if not is_canonical(host):
            raise ContentError("an upstream is to be verified by a name that is not canonical", "report this")
        connection = SSL.Connection(self._context, None)
        _expect(connection, host)
        if alpn:
            connection.set_alpn_protos(list(alpn))
        if pins is not None:
            connection.set_verify(SSL.VERIFY_PEER, pins.check)
        if session is not None:
            connection.set_session(session)
        connection.set_connect_state()
        return connection

    def can_prove(self, host: str) -> bool:
        """Tell whether OpenSSL can verify this host: it takes no label that begins or ends in a hyphen."""
        if not any(edge in f".{host}." for edge in (".-", "-.")):
            return True
        try:
            self.connecting(host, ())
        except ContentError:
            return False
        return True


def _new_context(method: int) -> SSL.Context:
    context = SSL.Context(method)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_cipher_list(_CIPHERS)
    context.set_options(_OPTIONS)
    # Most connections are idle most of the time; this gives their 32 KB back.
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    # Sessions towards clients live in tickets; those towards upstreams are kept by sandbox, elsewhere.
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    return context


def _client_facing(leaf: Leaf, alpn: Alpn) -> SSL.Context:
    context = _new_context(SSL.TLS_SERVER_METHOD)
    _must(_lib.SSL_CTX_set1_curves_list(context._context, _CLIENT_GROUPS))  # noqa: SLF001
    context.use_certificate(leaf.certificate)
    context.use_privatekey(leaf.key)
    context.set_alpn_select_callback(_selecting(alpn))
    return context


def _selecting(offer: Alpn) -> Callable[[SSL.Connection, list[bytes]], bytes]:
    def select(_connection: SSL.Connection, asked: list[bytes]) -> bytes:
        for protocol in offer:
            if protocol in asked:
                return protocol
        # Only an exception becomes a fatal alert; being an SSL.Error it ends this handshake and no more.
        raise NoProtocolError

    return select


def _expect(connection: SSL.Connection, host: str) -> None:
    """Verify the peer as `host`, and name it in the hello where it is a name (RFC 6066: no addresses)."""
    parameters = _lib.SSL_get0_param(connection._ssl)  # noqa: SLF001
    _lib.X509_VERIFY_PARAM_set_hostflags(parameters, _HOST_FLAGS)
    if is_address(host):
        packed = ipaddress.ip_address(host).packed
        _must(_lib.X509_VERIFY_PARAM_set1_ip(parameters, packed, len(packed)))
    else:
        name = host.encode("ascii")
        _must(_lib.X509_VERIFY_PARAM_set1_host(parameters, name, len(name)))
        connection.set_tlsext_host_name(name)


def _must(result: int) -> None:
    if result != 1:
        raise ContentError("OpenSSL did not take a setting that TLS is not safe without", "report this")
