"""Pins: one key of the verified chain must be among them, and nothing but that chain counts."""

from __future__ import annotations

import base64
import hashlib
import ssl
import subprocess

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from OpenSSL import SSL, crypto

from egress.errors import ContentError
from egress.tls.contexts import UpstreamContexts
from egress.tls.pins import Pins, pin_of
from tests.addons.handshake import TLS_1_2, TLS_1_3, Pair, serving, upstream

HOST = "api.example.com"


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture(scope="module")
def leaf(ca: trustme.CA) -> trustme.LeafCert:
    return ca.issue_cert(HOST, key_type=trustme.KeyType.ECDSA)


def pin(pem: bytes) -> str:
    key = x509.load_pem_x509_certificate(pem).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "sha256/" + base64.b64encode(hashlib.sha256(spki).digest()).decode()


def met(ca: trustme.CA, leaf: trustme.LeafCert, pins: Pins, newest: int = TLS_1_3) -> Pair:
    made = UpstreamContexts([ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())])
    return Pair(made.connecting(HOST, (), pins), serving(upstream(leaf, newest=newest))).run()


@pytest.mark.parametrize("newest", [TLS_1_2, TLS_1_3])
def test_the_key_of_the_host_or_of_its_root_may_be_pinned(
    newest: int, ca: trustme.CA, leaf: trustme.LeafCert
) -> None:
    other = pin(trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes())
    for wanted in (pin(leaf.cert_chain_pems[0].bytes()), pin(ca.cert_pem.bytes())):
        for texts in ([wanted], [other, wanted]):
            pins = Pins(texts)
            pair = met(ca, leaf, pins, newest)
            assert pair.is_up, pair.errors
            assert not pins.failed


@pytest.mark.parametrize("newest", [TLS_1_2, TLS_1_3])
def test_another_key_ends_the_handshake(newest: int, ca: trustme.CA, leaf: trustme.LeafCert) -> None:
    pins = Pins([pin(trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes())])
    pair = met(ca, leaf, pins, newest)
    assert "certificate verify failed" in str(pair.errors["client"])
    assert pins.failed
    assert not pair.server.get_finished() or "server" in pair.errors


def test_a_pinned_key_does_not_replace_verification(ca: trustme.CA, leaf: trustme.LeafCert) -> None:
    pins = Pins([pin(leaf.cert_chain_pems[0].bytes())])
    pair = met(trustme.CA(key_type=trustme.KeyType.ECDSA), leaf, pins)
    assert "certificate verify failed" in str(pair.errors["client"])
    assert not pins.failed


def test_a_certificate_that_is_only_sent_along_meets_no_pin(ca: trustme.CA, leaf: trustme.LeafCert) -> None:
    stranger = trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes()
    context = upstream(leaf)
    context.add_extra_chain_cert(x509.load_pem_x509_certificate(stranger))
    made = UpstreamContexts([ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())])
    pins = Pins([pin(stranger)])
    pair = Pair(made.connecting(HOST, (), pins), serving(context)).run()
    assert pins.failed
    assert not pair.is_up


def test_pins_of_one_connection_say_nothing_about_another(ca: trustme.CA, leaf: trustme.LeafCert) -> None:
    made = UpstreamContexts([ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())])
    wrong = Pins([pin(trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes())])
    first = made.connecting(HOST, (), wrong)
    second = made.connecting(HOST, ())
    assert Pair(second, serving(upstream(leaf))).run().is_up
    assert not Pair(first, serving(upstream(leaf))).run().is_up


@pytest.mark.parametrize(
    "text", ["", "sha256/", "sha256/AAAA", "sha1/" + "A" * 43 + "=", "A" * 43 + "=", "sha256/" + "!" * 44]
)
def test_what_is_no_pin_is_refused(text: str) -> None:
    with pytest.raises(ContentError, match="sha256/BASE64"):
        Pins([text])


def test_no_pins_at_all_are_a_mistake() -> None:
    with pytest.raises(ContentError, match="empty"):
        Pins([])


def test_a_certificate_that_was_not_verified_is_never_waved_through(leaf: trustme.LeafCert) -> None:
    pem = leaf.cert_chain_pems[0].bytes()
    certificate = crypto.load_certificate(crypto.FILETYPE_PEM, pem)
    connection = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD), None)
    assert not Pins([pin(pem)]).check(connection, certificate, 20, 0, 0)
    assert Pins([pin(pem)]).check(connection, certificate, 0, 0, 1)


@pytest.mark.system("openssl", "openssl")
def test_a_pin_is_what_the_documented_recipe_makes(leaf: trustme.LeafCert) -> None:
    pem = leaf.cert_chain_pems[0].bytes()
    recipe = "openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary"
    made = subprocess.run(["sh", "-c", recipe], input=pem, capture_output=True, check=True).stdout
    assert pin_of(crypto.load_certificate(crypto.FILETYPE_PEM, pem)) == made
