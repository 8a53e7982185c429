"""Certificates come through, and nothing else: S-41."""

from __future__ import annotations

import base64
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from egress.ca import Authority, public_roots
from egress.ca.bundle import REFUSED_ROOTS
from egress.errors import ContentError
from egress.runtime.kit import certificates

NOW = 1_800_000_000
AUTHORITY = Authority.create("box", NOW)
OWN = AUTHORITY.certificate_pem
OTHER = Authority.create("other", NOW).certificate_pem
LEAF = AUTHORITY.leaf("api.example.test", NOW).certificate_pem


def armoured(der: bytes, label: str = "CERTIFICATE") -> bytes:
    """Any bytes as PEM under any label."""
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()


def der_of(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


# What comes through -----------------------------------------------------------------------------


def test_the_authority_comes_through_as_it_is() -> None:
    assert certificates.read_authority(OWN) == der_of(OWN)


def test_every_public_root_comes_through_as_it_is() -> None:
    """Also those that strict readers complain about."""
    found = certificates.read_roots(public_roots())
    assert len(found) == public_roots().count(b"BEGIN CERTIFICATE")
    assert certificates.read_roots(certificates.write(found)) == found


def test_a_root_comes_through_once() -> None:
    assert certificates.read_roots(OWN + OTHER + OWN) == (der_of(OWN), der_of(OTHER))


def test_what_stands_around_a_certificate_stays_behind() -> None:
    """Comments of any kind, a secret in one of them too."""
    text = b"# Issuer: nobody\ntoken=sesame-open-please\r\n" + OWN.replace(b"\n", b"\r\n") + b"\n# end\n"
    assert certificates.write([certificates.read_authority(text)]) == OWN


def test_what_is_written_is_plain_pem() -> None:
    lines = certificates.write([der_of(OWN), der_of(OTHER)]).decode("ascii").splitlines()
    assert {line for line in lines if line.startswith("-")} == {
        "-----BEGIN CERTIFICATE-----",
        "-----END CERTIFICATE-----",
    }
    assert max(map(len, lines)) == 64


@pytest.mark.system("openssl", "openssl")
def test_openssl_looks_for_it_under_this_name(tmp_path: Path) -> None:
    openssl = shutil.which("openssl") or ""
    command = (openssl, "x509", "-noout", "-subject_hash")
    ran = subprocess.run(command, input=OWN, capture_output=True, timeout=60, check=True)
    assert certificates.file_name(der_of(OWN)) == f"{ran.stdout.decode().strip()}.0"


# What does not ----------------------------------------------------------------------------------

EC = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ED = ed25519.Ed25519PrivateKey.generate()
LOCKED = BestAvailableEncryption(b"password")
KEYS = {
    "EC": EC.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    "EC, PKCS 8": EC.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
    "EC, locked": EC.private_bytes(Encoding.DER, PrivateFormat.PKCS8, LOCKED),
    "RSA": RSA.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    "RSA, PKCS 8": RSA.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
    "RSA, locked": RSA.private_bytes(Encoding.DER, PrivateFormat.PKCS8, LOCKED),
    "Ed25519": ED.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
    "its own": AUTHORITY._key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
}
LABELS = ("CERTIFICATE", "PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "ANY OTHER THING")
type Reader = Callable[[bytes], object]
READERS: tuple[Reader, ...] = (certificates.read_authority, certificates.read_roots)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_is_refused_whatever_stands_above_it(read: Reader, label: str, key: bytes) -> None:
    for text in (armoured(key, label), OWN + armoured(key, label), armoured(key, label) + OWN):
        with pytest.raises(ContentError) as caught:
            read(text)
        assert base64.b64encode(key).decode()[:20] not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("read", READERS)
def test_a_key_behind_a_certificate_in_one_block_is_refused(read: Reader) -> None:
    with pytest.raises(ContentError):
        read(armoured(der_of(OWN) + KEYS["its own"]))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0",
        b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
        OWN[:-30],
        armoured(b""),
        armoured(b"0"),
        armoured(b"\x30\x80\x00\x00"),
        armoured(b"\x30\x85\x00\x00\x00\x00\x01\x00"),
        armoured(b"\x30\x03\x30\x82\x01"),
        armoured(b"\x30\x06\x30\x00\x30\x00\x04\x00"),
        armoured(b"\x30\x08\x30\x00\x30\x00\x03\x00\x05\x00"),
        armoured(b"\x31\x06\x30\x00\x30\x00\x03\x00"),
        armoured(b"\x30\x06\x30\x80\x30\x00\x03\x00"),
        armoured(b"\x30\x85\x00\x00\x00\x00\x06\x30\x00\x30\x00\x03\x00"),
        armoured(der_of(OWN)[:-1]),
        armoured(der_of(OWN) + b"\0"),
        armoured(der_of(OWN) * 2),
        armoured(EC.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
        b"\xff\xfe" * 100,
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_what_is_no_certificate_is_refused(read: Reader, text: bytes) -> None:
    with pytest.raises(ContentError, match="not a list of certificates"):
        read(text)


@given(st.binary(max_size=300) | st.binary(max_size=300).map(armoured))
def test_whatever_is_given_is_refused_in_our_words(text: bytes) -> None:
    """No input makes the reader fail in another way."""
    for read in READERS:
        with pytest.raises(ContentError):
            read(text)


@given(st.integers(0, len(der_of(OWN)) - 1), st.integers(0, 255))
def test_a_changed_certificate_is_refused_or_still_has_the_shape_of_one(at: int, byte: int) -> None:
    der = bytearray(der_of(OWN))
    der[at] = byte
    try:
        found = certificates.read_roots(armoured(bytes(der)))
    except ContentError:
        return
    assert found == (bytes(der),)


# The authority is one, and roots are those that may be trusted ------------------------------------


@pytest.mark.parametrize("text", [OWN + OTHER, OWN + OWN])
def test_the_authority_is_one_certificate(text: bytes) -> None:
    """Another sandbox's authority must not slip in: S-42."""
    with pytest.raises(ContentError, match="expected one certificate of the authority, found 2"):
        certificates.read_authority(text)


def test_a_certificate_that_may_not_sign_is_no_authority() -> None:
    with pytest.raises(ContentError, match="may not sign"):
        certificates.read_authority(LEAF)
    assert certificates.read_roots(LEAF)


def test_a_certificate_that_only_looks_like_one_is_no_authority() -> None:
    """It has the shape, and nobody can read it."""
    shaped = b"\x30\x0a\x30\x02\x05\x00\x30\x00\x03\x02\x00\x00"
    assert certificates.read_roots(armoured(shaped)) == (shaped,)
    with pytest.raises(ContentError, match="may not sign"):
        certificates.read_authority(armoured(shaped))


@pytest.mark.parametrize("name", REFUSED_ROOTS)
def test_a_root_below_which_a_published_key_signs_is_refused(name: bytes) -> None:
    """Bundles of operating systems still hold it."""
    signed = b"\x0c" + bytes([len(name)]) + name
    inside = b"\x30" + bytes([len(signed)]) + signed + b"\x30\x00\x03\x00"
    shaped = b"\x30" + bytes([len(inside)]) + inside
    with pytest.raises(ContentError, match="private key is public"):
        certificates.read_roots(OTHER + armoured(shaped))
