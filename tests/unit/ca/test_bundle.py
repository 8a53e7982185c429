"""Bundles hold what was named, and never a root below which anybody can sign."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from egress.ca import Authority, bundle, merged_bundle, public_roots
from egress.ca.issue import new_key, root_certificate
from egress.errors import ContentError, UnreadableError

NOW = 1_800_000_000
KEY = new_key()
PRIVATE = root_certificate("private", KEY, NOW, 3600).public_bytes(Encoding.PEM)


def refused(name: str) -> bytes:
    """A root under the name of one that is not to be trusted."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    like = root_certificate("x", KEY, NOW, 3600)
    made = (
        x509.CertificateBuilder(subject, subject, KEY.public_key(), 7)
        .not_valid_before(like.not_valid_before_utc)
        .not_valid_after(like.not_valid_after_utc)
        .sign(KEY, like.signature_hash_algorithm)  # type: ignore[arg-type]
    )
    return made.public_bytes(Encoding.PEM)


def test_the_public_roots_are_those_of_certifi() -> None:
    assert public_roots() == Path(certifi.where()).read_bytes()
    assert len(list(bundle.certificates(public_roots()))) > 80


@pytest.mark.parametrize("name", ["emSign ECC Root CA - G3", "AAA Certificate Services"])
def test_public_roots_with_one_that_must_not_be_trusted_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "cacert.pem"
    monkeypatch.setattr(certifi, "where", lambda: str(place))
    place.write_bytes(Path(bundle.__file__).read_bytes()[:0] + PRIVATE)
    assert public_roots() == PRIVATE
    place.write_bytes(PRIVATE + refused(name))
    with pytest.raises(ContentError, match=name) as raised:
        public_roots()
    assert str(place) in raised.value.message
    assert "upgrade certifi" in raised.value.hint


def test_named_files_are_joined(tmp_path: Path) -> None:
    first, second = tmp_path / "one.pem", tmp_path / "two.pem"
    first.write_bytes(b"# a comment\n" + PRIVATE)
    second.write_bytes(PRIVATE + PRIVATE)
    assert len(list(bundle.certificates(bundle.private_roots([first, second])))) == 3
    assert bundle.private_roots([]) == b""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a list of PEM certificates"),
        (b"\x30\x82", "is not a list of PEM certificates"),
        (b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n", "is not a list of PEM certificates"),
        (PRIVATE + b"-----BEGIN CERTIFICATE-----\ncut off", "is not a list of PEM certificates"),
        (
            PRIVATE + b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "contains a private key",
        ),
        (PRIVATE + refused("AAA Certificate Services"), "a published key signs"),
    ],
)
def test_a_file_that_is_not_roots_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    place = tmp_path / "private.pem"
    place.write_bytes(content)
    with pytest.raises(ContentError, match=message) as raised:
        bundle.private_roots([place])
    assert str(place) in raised.value.message


def test_refused_roots_of_a_bundle_are_named_with_a_command_that_leaves_them_out(tmp_path: Path) -> None:
    """As in the bundles of some systems; the command of the hint is run."""
    place = tmp_path / "the system's roots.pem"
    bad = [refused("AAA Certificate Services"), refused("emSign ECC Root CA - G3")]
    place.write_bytes(PRIVATE + b"# a comment\n" + bad[0] + PRIVATE + bad[1] + certifi.contents().encode())
    with pytest.raises(ContentError) as raised:
        bundle.private_roots([place])
    line = (PRIVATE + b"# a comment\n").count(b"\n") + 1
    assert raised.value.message == (
        f"{place}:{line} trusts AAA Certificate Services and emSign ECC Root CA - G3,"
        " below which a published key signs for any host"
    )
    assert "name the file of your own root alone" in raised.value.hint
    command = raised.value.hint.partition("`")[2].removesuffix("`")
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    copy = bundle.private_roots([tmp_path / "roots.pem"])
    wanted = list(bundle.certificates(PRIVATE + PRIVATE + public_roots()))
    assert list(bundle.certificates(copy)) == wanted


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no such file"):
        bundle.private_roots([tmp_path / "none.pem"])


def test_clients_get_public_roots_private_ones_and_the_authority() -> None:
    authority = Authority.create("one", NOW)
    merged = merged_bundle(authority.certificate_pem, PRIVATE)
    assert b"PRIVATE" not in merged
    found = list(bundle.certificates(merged))
    assert found[-2:] == list(bundle.certificates(PRIVATE + authority.certificate_pem))
    assert len(found) == len(list(bundle.certificates(public_roots()))) + 2
    ssl.create_default_context(cadata=merged.decode())
