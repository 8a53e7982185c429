"""The store of Java is read by others than the one who wrote it, and equal certificates make an equal store.

That JVMs take it is shown with a laid kit.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from egress.ca import Authority
from egress.runtime.kit.java_trust_store import STORE_PASSWORD, name_certificates, trust_store

NOW = 1_800_000_000


def authority(name: str) -> bytes:
    return Authority.create(name, NOW).certificate.public_bytes(Encoding.DER)


OWN, OTHER = authority("own"), authority("other")
STORE = trust_store(name_certificates(OWN, [OTHER]))


def test_another_reader_finds_the_certificates_under_their_names_and_no_key() -> None:
    found = pkcs12.load_pkcs12(STORE, STORE_PASSWORD.encode())
    assert found.key is None
    assert found.cert is None
    kept = {
        each.friendly_name: each.certificate.public_bytes(Encoding.DER) for each in found.additional_certs
    }
    name = f"root-{hashlib.sha256(OTHER).hexdigest()[:16]}"
    assert kept == {b"egress": OWN, name.encode(): OTHER}


@pytest.mark.parametrize("password", [b"", b"another"])
def test_the_checksum_belongs_to_the_password(password: bytes) -> None:
    with pytest.raises(ValueError, match="password"):
        pkcs12.load_pkcs12(STORE, password)


def test_the_checksum_belongs_to_the_certificates() -> None:
    at = STORE.index(OWN) + len(OWN) // 2
    changed = STORE[:at] + bytes([STORE[at] ^ 1]) + STORE[at + 1 :]
    with pytest.raises(ValueError, match="password"):
        pkcs12.load_pkcs12(changed, STORE_PASSWORD.encode())


@pytest.mark.system("openssl", "openssl")
def test_openssl_finds_them_too(tmp_path: Path) -> None:
    path = tmp_path / "store.p12"
    path.write_bytes(STORE)
    command = ("openssl", "pkcs12", "-in", path, "-passin", f"pass:{STORE_PASSWORD}", "-info")
    ran = subprocess.run(command, capture_output=True, timeout=60, check=True)
    found = [each.public_bytes(Encoding.DER) for each in x509.load_pem_x509_certificates(ran.stdout)]
    assert sorted(found) == sorted([OWN, OTHER])
    assert b"KEY" not in ran.stdout


@pytest.mark.system("keytool", "default-jdk-headless")
def test_java_trusts_each_of_them(tmp_path: Path) -> None:
    path = tmp_path / "store.p12"
    path.write_bytes(STORE)
    command = (
        "keytool",
        "-J-XX:TieredStopAtLevel=1",
        "-list",
        "-keystore",
        path,
        "-storepass",
        STORE_PASSWORD,
    )
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Keystore type: PKCS12" in ran.stdout
    assert ran.stdout.count("trustedCertEntry") == 2


def test_equal_certificates_make_an_equal_store() -> None:
    """On another machine and another day as well: nothing of it is chance. The readers do not look inside."""
    store = trust_store({"egress": b"0" * 100, "root": b"1" * 70_000})
    assert trust_store({"egress": b"0" * 100, "root": b"1" * 70_000}) == store
    assert hashlib.sha256(store).hexdigest() == (
        "cd896e80b2dbc3794f70cfc29faba3979d49d6e10060d61ef0dcb7e741efe953"
    )


@pytest.mark.parametrize("size", [1, 20, 63, 64, 127, 128, 200, 32_767, 32_768])
def test_a_part_of_any_length_is_read(size: int) -> None:
    """Lengths are written in one byte up to 127, and in as few as they need from there on."""
    found = pkcs12.load_pkcs12(trust_store({"n" * size: OWN}), STORE_PASSWORD.encode())
    (kept,) = found.additional_certs
    assert kept.friendly_name == b"n" * size


def test_the_certificate_of_the_sandbox_is_there_once_when_it_is_among_the_roots() -> None:
    assert name_certificates(OWN, [OTHER, OWN]) == name_certificates(OWN, [OTHER])
