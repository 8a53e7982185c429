"""The key file is its owner's alone, whole or not there, and refused when it is anything else."""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from egress.ca import keyfile
from egress.ca.authority import Authority
from egress.ca.issue import leaf_certificate, new_key, root_certificate
from egress.ca.keyfile import rotate_command
from egress.errors import ContentError, UnreadableError

NOW = 1_800_000_000
KEY = new_key()
ROOT = root_certificate("one", KEY, NOW, 3600)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "state" / "ca" / "one.pem"
    assert keyfile.write(place, KEY, ROOT, replace=False)
    return place


def test_what_is_written_is_read_back(path: Path) -> None:
    key, certificate = keyfile.read(path)
    assert key.private_numbers() == KEY.private_numbers()
    assert certificate == ROOT


def test_file_and_folder_are_their_owners_alone(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_nothing_is_left_beside_it(path: Path) -> None:
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_stands_there_is_only_replaced_when_asked(path: Path) -> None:
    other = new_key()
    root = root_certificate("two", other, NOW, 3600)
    assert not keyfile.write(path, other, root, replace=False)
    assert keyfile.read(path)[1] == ROOT
    assert keyfile.write(path, other, root, replace=True)
    assert keyfile.read(path)[1] == root


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601])
def test_a_key_file_that_others_have_rights_on_is_refused(mode: int, path: Path) -> None:
    path.chmod(mode)
    with pytest.raises(UnreadableError, match=f"open to other users .mode {mode:04o}") as raised:
        keyfile.read(path)
    assert str(path) in raised.value.message
    assert f"chmod 600 {path}" in raised.value.hint


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o770])
def test_a_folder_that_others_may_enter_is_refused(mode: int, path: Path) -> None:
    path.parent.chmod(mode)
    for act in (lambda: keyfile.read(path), lambda: keyfile.write(path, KEY, ROOT, replace=True)):
        with pytest.raises(UnreadableError, match="open to other users") as raised:
            act()
        assert f"chmod 700 {path.parent}" in raised.value.hint


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root can make a file somebody else's: here we become somebody else."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UnreadableError, match="belongs to another user"):
        keyfile.read(path)


def test_a_link_is_not_followed(path: Path) -> None:
    link = path.with_name("link.pem")
    link.symlink_to(path)
    with pytest.raises(UnreadableError, match="cannot be read"):
        keyfile.read(link)


def test_a_pipe_is_refused_without_waiting(path: Path) -> None:
    pipe = path.with_name("pipe.pem")
    os.mkfifo(pipe, 0o600)
    with pytest.raises(UnreadableError, match="is not a regular file"):
        keyfile.read(pipe)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(UnreadableError, match="no certificate authority at") as raised:
        keyfile.read(tmp_path / "none.pem")
    assert f"`{rotate_command(tmp_path / 'none.pem')}`" in raised.value.hint


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnreadableError, match="cannot be written"):
        keyfile.write(tmp_path / "file" / "one.pem", KEY, ROOT, replace=False)


OTHER = new_key()
LEAF = leaf_certificate("a.example.com", KEY.public_key(), ROOT, KEY, NOW)
UNBOUNDED = (
    x509.CertificateBuilder(ROOT.subject, ROOT.subject, KEY.public_key(), 7)
    .not_valid_before(ROOT.not_valid_before_utc)
    .not_valid_after(ROOT.not_valid_after_utc)
    .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    .sign(KEY, hashes.SHA256())
)
RSA = rsa.generate_private_key(65537, 2048)
P384 = ec.generate_private_key(ec.SECP384R1())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no certificate authority"),
        (b"\xff\x00 secret-looking", "contains no certificate authority"),
        (pem(KEY), "contains no certificate authority"),
        (ROOT.public_bytes(Encoding.PEM), "contains no certificate authority"),
        (pem(RSA) + ROOT.public_bytes(Encoding.PEM), "is not a P-256 key"),
        (pem(P384) + ROOT.public_bytes(Encoding.PEM), "is not a P-256 key"),
        (pem(OTHER) + ROOT.public_bytes(Encoding.PEM), "do not belong together"),
        (pem(KEY) + LEAF.public_bytes(Encoding.PEM), "is not that of an Egress authority"),
        (pem(KEY) + UNBOUNDED.public_bytes(Encoding.PEM), "is not that of an Egress authority"),
    ],
)
def test_what_is_no_authority_of_ours_is_refused(content: bytes, message: str, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(ContentError, match=message) as raised:
        keyfile.read(path)
    assert str(path) in raised.value.message
    assert "secret-looking" not in raised.value.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("2a8648ce3d030107", "2a8648ce3d030177", id="curve"),
        pytest.param("a003020102", "a003020161", id="version"),
    ],
)
def test_a_kind_that_the_library_does_not_know_is_refused(before: str, after: str) -> None:
    whole = broken = keyfile.as_pem(KEY, ROOT)
    for text in re.findall(rb"-----BEGIN [A-Z ]+-----\n(.*?)-----END", whole, re.DOTALL):
        data = base64.b64decode(text).replace(bytes.fromhex(before), bytes.fromhex(after))
        broken = broken.replace(text, base64.encodebytes(data))
    assert len(keyfile.parse_all(whole, "the file", "")) == 1
    with pytest.raises(ContentError, match="the file contains no certificate authority"):
        keyfile.parse_all(broken, "the file", "")


def test_an_authority_is_loaded_by_its_file(path: Path) -> None:
    authority = Authority.load(path)
    assert authority.name == "one"
    assert authority.leaf("a.example.com", NOW).host == "a.example.com"


def test_the_file_that_a_cluster_mounts_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    file.write_bytes(keyfile.as_pem(KEY, ROOT))
    file.chmod(0o440)
    ((key, certificate),) = keyfile.read_from_cluster(file)
    assert (key.private_numbers(), certificate) == (KEY.private_numbers(), ROOT)
    file.chmod(0o444)
    with pytest.raises(UnreadableError, match="open to other users"):
        keyfile.read_from_cluster(file)
    with pytest.raises(UnreadableError, match="no certificate authority at"):
        keyfile.read_from_cluster(tmp_path / "missing")
