"""TLS contexts: what is shown to clients, what upstreams must prove, and what both agree on."""

from __future__ import annotations

import contextlib
import gc
import re
import ssl

import pytest
import trustme
from OpenSSL import SSL

from egress.ca import Authority
from egress.errors import ContentError
from egress.tls import contexts, verification
from egress.tls.contexts import ClientContexts, UpstreamContexts
from egress.tls.verification import NoProtocolError
from tests.addons.handshake import TLS_1_2, TLS_1_3, Issuer, Pair, asking, serving, today, upstream, visiting

HOST = "api.example.com"
H1, H2 = b"http/1.1", b"h2"


@pytest.fixture(scope="module")
def now() -> int:
    return today()


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture(scope="module")
def authority(now: int) -> Authority:
    return Authority.create("one", now)


@pytest.fixture
def kept() -> ClientContexts:
    return ClientContexts()


def proving(ca: trustme.CA) -> UpstreamContexts:
    return UpstreamContexts([ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())])


# Towards clients ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_client_that_trusts_the_authority_is_served(
    version: int, authority: Authority, kept: ClientContexts, now: int
) -> None:
    client = asking(visiting(authority.certificate_pem, oldest=version, newest=version), HOST)
    pair = Pair(client, kept.accepting(authority, HOST, (H1,), now)).run()
    assert pair.is_up, pair.errors
    assert pair.say(b"hello") == b"hello"
    shown = client.get_peer_certificate(as_cryptography=True)
    assert shown == authority.leaf(HOST, now).certificate


def test_python_itself_accepts_the_certificate(authority: Authority, kept: ClientContexts, now: int) -> None:
    """Python 3.13 verifies strictly: extensions that are missing or wrong do not pass there."""
    for host in (HOST, "192.0.2.7", "2001:db8::7"):
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        client = context.wrap_bio(back, there, server_hostname=host)
        server = kept.accepting(authority, host, (H1,), now)
        for _ in range(4):
            for step in (client.do_handshake, server.do_handshake):
                with contextlib.suppress(ssl.SSLWantReadError, SSL.WantReadError):
                    step()
                if there.pending:
                    server.bio_write(there.read())
                with contextlib.suppress(SSL.WantReadError):
                    back.write(server.bio_read(1 << 16))
        assert client.version() == "TLSv1.3"


def test_a_client_that_trusts_another_authority_refuses(
    authority: Authority, kept: ClientContexts, now: int
) -> None:
    other = Authority.create("two", now)
    pair = Pair(asking(visiting(other.certificate_pem), HOST), kept.accepting(authority, HOST, (), now)).run()
    assert "certificate verify failed" in str(pair.errors["client"])


def test_older_tls_is_not_spoken(authority: Authority, kept: ClientContexts, now: int) -> None:
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_cipher_list(b"ALL:@SECLEVEL=0")
    context.set_min_proto_version(SSL.TLS1_VERSION)
    context.set_max_proto_version(SSL.TLS1_1_VERSION)
    pair = Pair(asking(context, HOST), kept.accepting(authority, HOST, (), now)).run()
    assert "unsupported protocol" in str(pair.errors["server"])


@pytest.mark.parametrize(
    ("ours", "asked", "chosen"),
    [
        ((H1,), (H1,), H1),
        ((H1,), (H2, H1), H1),
        ((H2, H1), (H1, H2), H2),
        ((H1, H2), (H2, H1), H1),
        ((H2,), (H2,), H2),
        ((H1,), (), b""),
        ((), (), b""),
    ],
)
def test_our_order_decides_which_protocol_is_spoken(
    ours: tuple[bytes, ...],
    asked: tuple[bytes, ...],
    chosen: bytes,
    authority: Authority,
    kept: ClientContexts,
    now: int,
) -> None:
    client = asking(visiting(authority.certificate_pem, alpn=asked), HOST)
    pair = Pair(client, kept.accepting(authority, HOST, ours, now)).run()
    assert pair.is_up, pair.errors
    assert client.get_alpn_proto_negotiated() == chosen


@pytest.mark.parametrize("asked", [(H2,), (b"http/1.0",), (b"HTTP/1.1",)])
def test_a_client_that_offers_only_other_protocols_is_told_so_and_refused(
    asked: tuple[bytes, ...], authority: Authority, kept: ClientContexts, now: int
) -> None:
    client = asking(visiting(authority.certificate_pem, alpn=asked), HOST)
    pair = Pair(client, kept.accepting(authority, HOST, (H1,), now)).run()
    assert isinstance(pair.errors["server"], NoProtocolError)
    assert "no application protocol" in str(pair.errors["client"])


def test_a_refused_protocol_leaves_nothing_behind_for_other_connections(
    authority: Authority, kept: ClientContexts, now: int
) -> None:
    """OpenSSL's queue of errors belongs to the thread: what is left in it hits the next connection."""
    good = Pair(
        asking(visiting(authority.certificate_pem, alpn=(H1,)), HOST),
        kept.accepting(authority, HOST, (H1,), now),
    ).run()
    bad = visiting(authority.certificate_pem, alpn=(H2,))
    server = kept.accepting(authority, HOST, (H1,), now)
    pair = Pair(asking(bad, HOST), server)
    pair.run()
    assert set(pair.errors) == {"client", "server"}
    with pytest.raises(SSL.WantReadError):
        good.server.recv(10)
    assert good.say(b"still here") == b"still here"


def test_a_context_is_made_once_for_host_and_offer(
    authority: Authority, kept: ClientContexts, now: int
) -> None:
    def made(host: str, alpn: tuple[bytes, ...], at: int) -> SSL.Context:
        return kept.accepting(authority, host, alpn, at).get_context()

    first = made(HOST, (H1,), now)
    assert made(HOST, (H1,), now + 60) is first
    assert made(HOST, (H2,), now) is not first
    assert made("b.example.com", (H1,), now) is not first
    assert made(HOST, (H1,), now + 23 * 3600) is not first, "the leaf was made anew"


def test_contexts_are_bounded_and_end_with_their_authority(
    now: int, kept: ClientContexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "MAX_CONTEXTS", 3)
    authority = Authority.create("short-lived", now)
    for number in range(5):
        kept.accepting(authority, f"h{number}.example.com", (), now)
    assert [len(found) for found in kept._kept.values()] == [3]
    del authority
    gc.collect()
    assert len(kept._kept) == 0


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_client_may_resume_its_session(
    version: int, authority: Authority, kept: ClientContexts, now: int
) -> None:
    visitor = visiting(authority.certificate_pem, oldest=version, newest=version)
    first = Pair(asking(visitor, HOST), kept.accepting(authority, HOST, (H1,), now)).run()
    first.say(b"hello")
    session = first.client.get_session()
    second = Pair(asking(visitor, HOST, session), kept.accepting(authority, HOST, (H1,), now)).run()
    assert second.is_up, second.errors
    assert verification.is_resumed(second.server)
    assert second.say(b"again") == b"again"


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_session_resumes_nothing_of_another_host_or_sandbox(
    version: int, authority: Authority, kept: ClientContexts, now: int
) -> None:
    visitor = visiting(authority.certificate_pem, oldest=version, newest=version)
    first = Pair(asking(visitor, HOST), kept.accepting(authority, HOST, (H1,), now)).run()
    first.say(b"hello")
    session = first.client.get_session()
    other = Authority.create("two", now)
    for owner, host in ((authority, "b.example.com"), (other, HOST)):
        pair = Pair(asking(visitor, host, session), kept.accepting(owner, host, (H1,), now)).run()
        assert not verification.is_resumed(pair.server)


# Towards upstreams ----------------------------------------------------------------------------


def test_a_common_name_alone_proves_nothing(ca: trustme.CA) -> None:
    certificate = ca.issue_cert("other.example.com", common_name=HOST)
    pair = Pair(proving(ca).connecting(HOST, ()), serving(upstream(certificate))).run()
    assert "certificate verify failed" in str(pair.errors["client"])


@pytest.mark.parametrize(
    ("pattern", "host", "good"),
    [
        ("*.example.com", HOST, True),
        ("*.example.com", "a.b.example.com", False),
        ("*.example.com", "example.com", False),
    ],
)
def test_a_wildcard_stands_for_one_whole_label(pattern: str, host: str, good: bool, ca: trustme.CA) -> None:
    pair = Pair(proving(ca).connecting(host, ()), serving(upstream(ca.issue_cert(pattern)))).run()
    assert pair.is_up is good, pair.errors


@pytest.mark.parametrize(
    ("name", "good"), [(HOST, True), ("a*.example.com", False), ("*i.example.com", False)]
)
def test_a_wildcard_inside_a_label_stands_for_nothing(name: str, good: bool, now: int) -> None:
    issuer = Issuer(now)
    client = UpstreamContexts([issuer.der]).connecting(HOST, ())
    pair = Pair(client, serving(issuer.context(name))).run()
    assert pair.is_up is good, pair.errors


@pytest.mark.parametrize(
    ("named", "host", "good"),
    [
        ("192.0.2.7", "192.0.2.7", True),
        ("192.0.2.8", "192.0.2.7", False),
        ("2001:db8::7", "2001:db8::7", True),
        ("2001:db8::8", "2001:db8::7", False),
        (HOST, "192.0.2.7", False),
    ],
)
def test_an_address_is_proven_by_an_address(named: str, host: str, good: bool, ca: trustme.CA) -> None:
    pair = Pair(proving(ca).connecting(host, ()), serving(upstream(ca.issue_cert(named)))).run()
    assert pair.is_up is good, pair.errors
    assert pair.server.get_servername() is None, "an address is never sent as a name"


def test_an_upstream_of_old_tls_is_refused(ca: trustme.CA) -> None:
    context = upstream(ca.issue_cert(HOST), newest=SSL.TLS1_1_VERSION)
    pair = Pair(proving(ca).connecting(HOST, ()), serving(context)).run()
    assert not pair.is_up


def test_verification_is_always_on(ca: trustme.CA) -> None:
    made = proving(ca)
    for connection in (made.connecting(HOST, ()), made.connecting("192.0.2.7", (H1,))):
        assert connection.get_verify_mode() & SSL.VERIFY_PEER


@pytest.mark.parametrize(
    "host", ["", "API.example.com", "api.example.com.", "*.example.com", "a\0b.example.com"]
)
def test_an_upstream_without_a_canonical_name_is_never_tried(host: str, ca: trustme.CA) -> None:
    with pytest.raises(ContentError, match="canonical"):
        proving(ca).connecting(host, ())


def test_trust_is_what_was_given_and_no_more(ca: trustme.CA) -> None:
    other = trustme.CA(key_type=trustme.KeyType.ECDSA)
    pair = Pair(proving(other).connecting(HOST, ()), serving(upstream(ca.issue_cert(HOST)))).run()
    assert "certificate verify failed" in str(pair.errors["client"])
    nobody = UpstreamContexts([])
    pair = Pair(nobody.connecting(HOST, ()), serving(upstream(ca.issue_cert(HOST)))).run()
    assert "certificate verify failed" in str(pair.errors["client"])


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_an_upstream_session_is_taken_up(version: int, ca: trustme.CA) -> None:
    made = proving(ca)
    context = upstream(ca.issue_cert(HOST), newest=version)
    first = Pair(made.connecting(HOST, ()), serving(context)).run()
    first.say(b"hello")
    session = first.client.get_session()
    assert isinstance(session, SSL.Session)
    client = made.connecting(HOST, (), session=session)
    second = Pair(client, serving(context)).run()
    assert second.is_up, second.errors
    assert verification.is_resumed(client)
    assert verification.is_verified(client)


def test_the_root_store_takes_certificates_alone() -> None:
    with pytest.raises(ContentError, match="not a certificate"):
        UpstreamContexts([b"no certificate"])


def test_our_ciphers_keep_what_was_recorded_secret_and_whole(
    authority: Authority, kept: ClientContexts, now: int
) -> None:
    """Forward secrecy, authenticated encryption, keys of ECDSA and RSA: on both sides."""
    for connection in (UpstreamContexts([]).connecting(HOST, ()), kept.accepting(authority, HOST, (), now)):
        names = connection.get_cipher_list()
        older = [name for name in names if not name.startswith("TLS_")]
        assert len(older) == 9
        assert all(re.fullmatch(r"(ECDHE-(ECDSA|RSA)|DHE-RSA)-.*", name) for name in older)
        assert all("-GCM-" in name or name.endswith("-CHACHA20-POLY1305") for name in older)


def test_a_key_log_is_never_written(
    authority: Authority, kept: ClientContexts, ca: trustme.CA, now: int
) -> None:
    for connection in (kept.accepting(authority, HOST, (), now), proving(ca).connecting(HOST, ())):
        assert connection.get_context()._keylog_callback is None
