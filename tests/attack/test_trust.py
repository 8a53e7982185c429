"""Who is believed, and who can sign: upstreams that lie, authorities where they do not belong.

S-21, S-22: an upstream with a certificate that is expired, of an unknown authority, of another name or
its own. S-41: the key of the authority where a sandbox could see it. S-42: the authority of one sandbox
in another. S-43: a leaf for a foreign name under a constrained authority. Also: a public root below
which a published key signs, options that turn verification off, the authority's key in leaves, names
copied from upstreams, and files that others can read.
"""

from __future__ import annotations

import ssl
import stat
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import certifi
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from OpenSSL import SSL

from egress.ca import Authority, AuthorityStore, Constraints, merged_bundle
from egress.ca.issue import DAY_SECONDS, leaf_certificate, new_key
from egress.errors import ContentError, EgressError, UnreadableError
from egress.tls.contexts import ClientContexts, UpstreamContexts
from egress.tls.roots import trusted_roots
from egress.tls.verification import is_verified
from tests.addons.handshake import (
    TLS_1_2,
    TLS_1_3,
    Issuer,
    Pair,
    asking,
    serving,
    today,
    upstream,
    visiting,
)

HOST, FOREIGN = "api.example.com", "bank.example.org"
SECRET = b"GET / HTTP/1.1\r\nauthorization: Bearer secret\r\n\r\n"
NOW = today()


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


# Upstreams that lie ---------------------------------------------------------------------------

GOOD = Issuer(NOW)
CA = trustme.CA(key_type=trustme.KeyType.ECDSA)


def self_signed() -> SSL.Context:
    """A host that signed for itself: its certificate is its own root."""
    alone = Issuer(NOW)
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    made = (
        x509.CertificateBuilder(alone.root.subject, alone.root.subject, alone.key.public_key(), 7)
        .not_valid_before(alone.root.not_valid_before_utc)
        .not_valid_after(alone.root.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(alone.key, hashes.SHA256())
    )
    context.use_certificate(made)
    context.use_privatekey(alone.key)
    return context


def in_chain_of(root: trustme.CA) -> SSL.Context:
    """The leaf of another authority, with our good root sent along as if it had signed it."""
    context = upstream(root.issue_cert(HOST))
    context.add_extra_chain_cert(GOOD.root)
    return context


def leaf_as_authority() -> SSL.Context:
    """A leaf that an honest authority gave to an attacker, who signs further with its key."""
    key, below = new_key(), new_key()
    given = leaf_certificate("attacker.example", key.public_key(), GOOD.root, GOOD.key, NOW)
    forged = leaf_certificate(HOST, below.public_key(), given, key, NOW)
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate(forged)
    context.use_privatekey(below)
    context.add_extra_chain_cert(given)
    return context


LIARS: dict[str, Callable[[], SSL.Context]] = {
    "S-21 expired": lambda: GOOD.context(HOST, at=NOW - 2 * DAY_SECONDS),
    "S-21 not valid yet": lambda: GOOD.context(HOST, at=NOW + DAY_SECONDS),
    "S-22 unknown authority": lambda: Issuer(NOW).context(HOST),
    "S-22 our root sent along by a stranger": lambda: in_chain_of(CA),
    "S-22 another name": lambda: GOOD.context("api.example.net"),
    "S-22 a name that begins like it": lambda: GOOD.context("api.example.com.evil.example"),
    "S-22 a name that ends like it": lambda: GOOD.context("evil-api.example.com"),
    "S-22 the domain above": lambda: GOOD.context("example.com"),
    "S-22 a wildcard of one label less": lambda: GOOD.context("*.com"),
    "S-22 an address": lambda: GOOD.context("192.0.2.7"),
    "S-22 self-signed": self_signed,
    "S-22 signed with the key of a leaf": leaf_as_authority,
}


@pytest.mark.parametrize("newest", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("case", LIARS)
def test_an_upstream_that_lies_is_sent_nothing(case: str, newest: int) -> None:
    context = LIARS[case]()
    context.set_max_proto_version(newest)
    client = UpstreamContexts([GOOD.der]).connecting(HOST, (b"http/1.1",))
    pair = Pair(client, serving(context)).run()
    assert "certificate verify failed" in str(pair.errors["client"])
    assert not is_verified(client)
    with pytest.raises(SSL.Error):
        client.sendall(SECRET)
    with pytest.raises(SSL.Error):
        pair.server.recv(1 << 16)


@pytest.mark.parametrize("newest", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("name", [HOST, "*.example.com"])
def test_the_honest_twin_is_sent_the_request(name: str, newest: int) -> None:
    context = GOOD.context(name)
    context.set_max_proto_version(newest)
    client = UpstreamContexts([GOOD.der]).connecting(HOST, (b"http/1.1",))
    pair = Pair(client, serving(context)).run()
    assert pair.is_up, pair.errors
    assert pair.say(SECRET) == SECRET


def test_a_session_of_an_honest_host_does_not_vouch_for_a_liar() -> None:
    """The liar does not know the key of the ticket: it has to show its certificate, which is refused."""
    ours = UpstreamContexts([GOOD.der])
    first = Pair(ours.connecting(HOST, ()), serving(GOOD.context(HOST))).run()
    first.say(b"hello")
    client = ours.connecting(HOST, (), session=first.client.get_session())
    assert not Pair(client, serving(Issuer(NOW).context(HOST))).run().is_up


# Roots ----------------------------------------------------------------------------------------


def test_a_bundle_with_a_root_below_which_anybody_signs_stops_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundles of current distributions still hold both."""
    key = new_key()
    roots = {}
    for name in ("emSign ECC Root CA - G3", "AAA Certificate Services", "An Honest Root"):
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        made = (
            x509.CertificateBuilder(subject, subject, key.public_key(), 7)
            .not_valid_before(GOOD.root.not_valid_before_utc)
            .not_valid_after(GOOD.root.not_valid_after_utc)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        roots[name] = made.public_bytes(Encoding.PEM)
    place = tmp_path / "cacert.pem"
    monkeypatch.setattr(certifi, "where", lambda: str(place))
    place.write_bytes(GOOD.pem + roots["An Honest Root"])
    assert len(trusted_roots()) == 2
    for name in ("emSign ECC Root CA - G3", "AAA Certificate Services"):
        place.write_bytes(GOOD.pem + roots[name])
        for act in (trusted_roots, lambda: merged_bundle(GOOD.pem)):
            with pytest.raises(ContentError, match=name):
                act()
    place.write_bytes(GOOD.pem)
    private = tmp_path / "private.pem"
    private.write_bytes(roots["AAA Certificate Services"])
    with pytest.raises(ContentError, match="AAA Certificate Services"):
        trusted_roots([private])


def test_the_bundle_of_this_installation_is_without_them() -> None:
    assert len(trusted_roots()) > 80


def test_the_bundle_of_the_system_is_never_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variables that redirect OpenSSL to another bundle change nothing here."""
    place = tmp_path / "system.pem"
    place.write_bytes(GOOD.pem)
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(variable, str(place))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    ours = UpstreamContexts(trusted_roots())
    assert not Pair(ours.connecting(HOST, ()), serving(GOOD.context(HOST))).run().is_up


# The key of an authority ----------------------------------------------------------------------


def private_parts(authority: Authority) -> list[bytes]:
    """What must not be seen: the number, and the key in both of its usual forms."""
    number = authority._key.private_numbers().private_value.to_bytes(32)
    forms = [(Encoding.PEM, PrivateFormat.PKCS8), (Encoding.PEM, PrivateFormat.TraditionalOpenSSL)]
    texts = [authority._key.private_bytes(*form, NoEncryption()) for form in forms]
    return [number, number.hex().encode(), *(text.splitlines()[1] for text in texts)]


def test_nothing_a_sandbox_is_given_holds_the_key() -> None:
    """S-41, as far as it can be seen without a container."""
    authority = Authority.create("one", NOW)
    leaf = authority.leaf(HOST, NOW)
    given = (
        authority.certificate_pem,
        merged_bundle(authority.certificate_pem),
        leaf.certificate_pem,
        leaf.certificate.public_bytes(Encoding.DER),
        repr(authority).encode(),
        repr(leaf).encode(),
        str(leaf.key).encode(),
    )
    for part in private_parts(authority):
        assert all(part not in text for text in given)
    for text in given:
        assert b"PRIVATE KEY" not in text


def test_an_authority_of_a_sandbox_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-41: what is not on a disk cannot be mounted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    authority = Authority.create("one", NOW)
    Pair(
        asking(visiting(authority.certificate_pem), HOST),
        ClientContexts().accepting(authority, HOST, (), NOW),
    ).run()
    assert list(tmp_path.rglob("*")) == []


def test_a_kept_key_is_its_owners_alone_and_refused_when_it_is_not(tmp_path: Path) -> None:
    """S-41; nothing beside it is made for handing out."""
    store = AuthorityStore(tmp_path / "ca")
    store.open("laptop", NOW)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (store.directory, store.path("laptop"))]
    assert modes == [0o700, 0o600]
    assert list(store.directory.iterdir()) == [store.path("laptop")]
    store.load("laptop")
    store.path("laptop").chmod(0o644)
    with pytest.raises(UnreadableError):
        store.load("laptop")


def test_a_leaf_does_not_carry_the_key_of_its_authority() -> None:
    """Stock mitmproxy gives every leaf the authority's own key."""
    authority = Authority.create("one", NOW)
    spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    leaf = authority.leaf(HOST, NOW).certificate
    assert leaf.public_key().public_bytes(*spki) != authority.certificate.public_key().public_bytes(*spki)
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc < timedelta(days=2)
    assert authority.certificate.not_valid_after_utc - leaf.not_valid_before_utc < timedelta(days=8)


def test_the_key_of_a_leaf_signs_nothing() -> None:
    authority = Authority.create("one", NOW)
    leaf, below = authority.leaf("attacker.example.com", NOW), new_key()
    forged = leaf_certificate(HOST, below.public_key(), leaf.certificate, leaf.key, NOW)
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate(forged)
    context.use_privatekey(below)
    context.add_extra_chain_cert(leaf.certificate)
    client = asking(visiting(authority.certificate_pem), HOST)
    assert "verify failed" in str(Pair(client, serving(context)).run().errors["client"])


# One sandbox in another -----------------------------------------------------------------------


@pytest.mark.parametrize("kept", [False, True])
def test_the_authority_of_one_sandbox_is_nothing_in_another(kept: bool, tmp_path: Path) -> None:
    """S-42, for authorities in memory and for kept ones; the good twin trusts its own."""
    store = AuthorityStore(tmp_path / "ca")
    first, second = (store.open(name, NOW) if kept else Authority.create(name, NOW) for name in "ab")
    for trusting, good in ((first, True), (second, False)):
        client = asking(visiting(trusting.certificate_pem), HOST)
        pair = Pair(client, ClientContexts().accepting(first, HOST, (), NOW)).run()
        assert pair.is_up is good


# Constrained authorities ----------------------------------------------------------------------

NARROW = Issuer(NOW, Constraints.of([HOST]))


@pytest.mark.parametrize(
    ("name", "good"),
    [
        (HOST, True),
        (FOREIGN, False),
        ("example.com", False),
        ("xapi.example.com", False),
        ("*.com", False),
        ("192.0.2.7", False),
        ("2001:db8::7", False),
    ],
)
def test_a_stolen_constrained_key_is_worth_nothing_elsewhere(name: str, good: bool) -> None:
    """S-43: signed with the real key of the authority, refused by OpenSSL in the client."""
    asked = name.replace("*", "x")
    client = UpstreamContexts([NARROW.der]).connecting(asked, ())
    pair = Pair(client, serving(NARROW.context(name))).run()
    assert pair.is_up is good
    if not good:
        assert "certificate verify failed" in str(pair.errors["client"])


def test_the_same_without_constraints_would_be_believed() -> None:
    """The twin of the test above: it is the constraint that refuses."""
    for name in (FOREIGN, "192.0.2.7"):
        client = UpstreamContexts([GOOD.der]).connecting(name, ())
        assert Pair(client, serving(GOOD.context(name))).run().is_up


@pytest.mark.system("openssl", "openssl")
@pytest.mark.parametrize("name", [FOREIGN, "192.0.2.7"])
def test_the_program_refuses_a_forged_leaf_too(name: str, tmp_path: Path) -> None:
    """S-43 with another build of OpenSSL than ours."""
    statuses = {}
    for issuer in (NARROW, GOOD):
        (tmp_path / "root.pem").write_bytes(issuer.pem)
        forged = leaf_certificate(name, new_key().public_key(), issuer.root, issuer.key, NOW)
        (tmp_path / "leaf.pem").write_bytes(forged.public_bytes(Encoding.PEM))
        command = ["openssl", "verify", "-CAfile", str(tmp_path / "root.pem"), str(tmp_path / "leaf.pem")]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        statuses[issuer] = run.returncode
    assert statuses[GOOD] == 0
    assert statuses[NARROW] != 0


def test_our_own_code_does_not_sign_for_a_foreign_name_either() -> None:
    authority = Authority.create("one", NOW, Constraints.of([HOST]))
    with pytest.raises(EgressError):
        ClientContexts().accepting(authority, FOREIGN, (), NOW)
    client = asking(visiting(authority.certificate_pem), HOST)
    assert Pair(client, ClientContexts().accepting(authority, HOST, (), NOW)).run().is_up


def test_names_of_an_upstream_are_never_copied_into_a_leaf() -> None:
    """With copied names every handshake below a constrained authority fails; here there is one name."""
    authority = Authority.create("one", NOW, Constraints.of([HOST]))
    ours = UpstreamContexts([der(CA.cert_pem.bytes())])
    server = serving(upstream(CA.issue_cert(HOST, FOREIGN, "*.example.net")))
    assert Pair(ours.connecting(HOST, ()), server).run().is_up
    client = asking(visiting(authority.certificate_pem), HOST)
    assert Pair(client, ClientContexts().accepting(authority, HOST, (), NOW)).run().is_up
    shown = client.get_peer_certificate(as_cryptography=True)
    assert shown is not None
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in names] == [HOST]


def test_no_leaf_is_ever_a_wildcard() -> None:
    authority = Authority.create("one", NOW)
    for name in ("*.example.com", "**.example.com", "*"):
        with pytest.raises(ContentError):
            authority.leaf(name, NOW)
    assert authority.leaf(HOST, NOW).host == HOST
