"""Bundles that were exported once, and are not what they were."""

from __future__ import annotations

import os
from pathlib import Path

import certifi
import pytest

from egress.ca import Authority, AuthorityStore, merged_bundle
from egress.doctor import authority, trust_bundles
from egress.doctor.diagnosis import Diagnosis, Level
from egress.doctor.trust_bundles import is_of_a_proxy
from tests.unit.ca.test_bundle import refused
from tests.unit.doctor.proxy_setups import is_content, needs_care, only, patient

NOW = 1_795_000_000


@pytest.fixture
def own(tmp_path: Path) -> Authority:
    (tmp_path / "state").mkdir(mode=0o700)
    return AuthorityStore(tmp_path / "state/ca").open("default", NOW)


def looked(folder: Path, *, is_led_here: bool = False, now: int = NOW, **variables: Path | str) -> Diagnosis:
    found = patient(folder, environ={name: str(value) for name, value in variables.items()}, now=now)
    return only(trust_bundles.check(found, authority.usable_authority(found), is_led_here=is_led_here))


def put(path: Path, pem: bytes, age: int = 0) -> Path:
    path.write_bytes(pem)
    os.utime(path, (NOW - age, NOW - age))
    return path


def test_none_is_fine_where_nobody_needs_one(tmp_path: Path) -> None:
    assert looked(tmp_path).level is Level.OK


def test_none_is_doubtful_where_programs_go_through_the_proxy(tmp_path: Path, own: Authority) -> None:
    needs_care(
        looked(tmp_path, is_led_here=True), Level.WARNING, "but no variable makes them trust its authority"
    )


def test_a_bundle_with_the_authority_of_the_proxy_is_fine(tmp_path: Path, own: Authority) -> None:
    bundle = put(tmp_path / "bundle.pem", merged_bundle(own.certificate_pem))
    assert looked(tmp_path, is_led_here=True, SSL_CERT_FILE=bundle).level is Level.OK


def test_the_certificate_alone_is_fine_where_it_is_added(tmp_path: Path, own: Authority) -> None:
    alone = put(tmp_path / "ca.pem", own.certificate_pem)
    assert looked(tmp_path, NODE_EXTRA_CA_CERTS=alone).level is Level.OK
    needs_care(
        looked(tmp_path, CURL_CA_BUNDLE=alone),
        Level.WARNING,
        "contains only the authority of the proxy",
    )


def test_one_file_for_several_variables_is_told_once(tmp_path: Path, own: Authority) -> None:
    alone = put(tmp_path / "ca.pem", own.certificate_pem)
    found = looked(tmp_path, CURL_CA_BUNDLE=alone, NODE_EXTRA_CA_CERTS=alone)
    assert found.name == "CURL_CA_BUNDLE and 1 more"


def test_an_authority_that_was_replaced_since_is_found(tmp_path: Path, own: Authority) -> None:
    bundle = put(tmp_path / "the bundle.pem", merged_bundle(own.certificate_pem))
    AuthorityStore(tmp_path / "state/ca").rotate("default", NOW)
    found = looked(tmp_path, SSL_CERT_FILE=bundle)
    needs_care(found, Level.WARNING, "or an old one")
    assert f"--force --out '{bundle}'" in found.fix


def test_an_old_bundle_is_found(tmp_path: Path, own: Authority) -> None:
    bundle = put(tmp_path / "bundle.pem", merged_bundle(own.certificate_pem), age=400 * 86_400)
    needs_care(looked(tmp_path, SSL_CERT_FILE=bundle), Level.WARNING, "400 days")


def test_a_bundle_without_the_authority_matters_where_programs_need_it(
    tmp_path: Path, own: Authority
) -> None:
    bundle = put(tmp_path / "bundle.pem", Path(certifi.where()).read_bytes())
    assert looked(tmp_path, SSL_CERT_FILE=bundle).level is Level.NOTE
    found = looked(tmp_path, is_led_here=True, SSL_CERT_FILE=bundle)
    needs_care(found, Level.WARNING, "lacks the authority")


@pytest.mark.parametrize("kind", ["missing", "empty", "refused", "key"])
def test_a_bundle_that_is_none_is_found(kind: str, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    if kind != "missing":
        texts = {
            "empty": b"",
            "refused": refused("AAA Certificate Services"),
            "key": b"-----BEGIN PRIVATE KEY-----",
        }
        put(bundle, texts[kind])
    needs_care(looked(tmp_path, SSL_CERT_FILE=bundle), Level.WARNING, str(bundle))


def test_a_folder_is_not_looked_into(tmp_path: Path) -> None:
    assert is_content([looked(tmp_path, SSL_CERT_FILE=tmp_path)])


def test_only_authorities_of_ours_are_taken_for_such(own: Authority) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    assert is_of_a_proxy(own.certificate.public_bytes(Encoding.DER))
    assert not is_of_a_proxy(b"no certificate")
