"""What stands in certificates: exactly one name, the right uses, and an end."""

from __future__ import annotations

import ipaddress
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from egress.ca import Authority
from egress.ca.issue import DAY_SECONDS, leaf_certificate, new_key, root_certificate

NOW = 1_800_000_000
AUTHORITY = Authority.create("one", NOW)


def names(certificate: x509.Certificate) -> list[object]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [name.value for name in found]


def test_a_root_signs_leaves_and_no_authorities() -> None:
    root = AUTHORITY.certificate
    basic = root.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = root.extensions.get_extension_for_class(x509.KeyUsage)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, True, False)
    assert isinstance(root.public_key(), ec.EllipticCurvePublicKey)


@pytest.mark.parametrize(
    "host", ["api.example.com", "a_b.example.com", "xn--bcher-kva.example", "a." * 120 + "com"]
)
def test_a_leaf_names_one_host_and_nothing_else(host: str) -> None:
    leaf = AUTHORITY.leaf(host, NOW).certificate
    assert names(leaf) == [host]
    assert leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME) == []


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7"])
def test_a_leaf_for_an_address_names_an_address(host: str) -> None:
    assert names(AUTHORITY.leaf(host, NOW).certificate) == [ipaddress.ip_address(host)]


def test_a_leaf_is_for_servers_and_signs_nothing() -> None:
    extensions = AUTHORITY.leaf("api.example.com", NOW).certificate.extensions
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    basic = extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca) == (True, False)
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert not usage.key_cert_sign


def test_a_leaf_lasts_a_day_and_began_an_hour_ago() -> None:
    leaf = AUTHORITY.leaf("api.example.com", NOW).certificate
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == timedelta(hours=25)
    assert int(leaf.not_valid_before_utc.timestamp()) == NOW - 3600


def test_a_leaf_does_not_outlive_its_authority() -> None:
    key = new_key()
    root = root_certificate("one", key, NOW, 2 * 3600)
    leaf = leaf_certificate("api.example.com", new_key().public_key(), root, key, NOW)
    assert leaf.not_valid_after_utc == root.not_valid_after_utc


def test_serial_numbers_are_never_the_same() -> None:
    key = new_key()
    serials = {root_certificate("one", key, NOW, DAY_SECONDS).serial_number for _ in range(20)}
    assert len(serials) == 20


def test_authorities_of_one_name_can_be_told_apart() -> None:
    first, second = (Authority.create("one", NOW).subject for _ in range(2))
    assert first != second
    assert first.startswith("CN=Egress one ")


def test_a_long_name_still_makes_a_certificate() -> None:
    assert Authority.create("n" * 200, NOW).is_valid_at(NOW)


def test_the_repr_of_a_leaf_shows_no_key() -> None:
    leaf = AUTHORITY.leaf("api.example.com", NOW)
    assert "key" not in repr(leaf).lower().replace("public_key", "")


def test_the_chain_is_the_leaf_alone() -> None:
    leaf = AUTHORITY.leaf("api.example.com", NOW)
    assert x509.load_pem_x509_certificates(leaf.certificate_pem) == [leaf.certificate]
