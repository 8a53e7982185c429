"""The key of evidence: made once, for its owner alone."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.review.evidence_key import (
    fingerprint,
    is_fingerprint,
    is_signed,
    public,
    read,
    read_or_create,
    read_public,
)


def test_it_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "new/evidence.key"
    key = read_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert public(read_or_create(path)) == public(key)
    assert [file.name for file in path.parent.iterdir()] == ["evidence.key"]


def test_what_it_signs_is_checked_by_the_public_half(tmp_path: Path) -> None:
    key = read_or_create(tmp_path / "key")
    other = read_public(public(key))
    assert other is not None
    assert is_signed(other, key.sign(b"text"), b"text")
    assert not is_signed(other, key.sign(b"text"), b"test")
    assert fingerprint(other) == fingerprint(key.public_key())
    assert is_fingerprint(fingerprint(other))
    assert not is_fingerprint("sha256:abc")


@pytest.mark.system("openssl", "openssl")
def test_the_fingerprint_is_one_that_others_can_work_out(tmp_path: Path) -> None:
    key = read_or_create(tmp_path / "key")
    (tmp_path / "public").write_bytes(public(key))
    words = ["openssl", "pkey", "-pubin", "-in", "public", "-outform", "DER", "-out", "der"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run(
        ["openssl", "sha256", "der"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == fingerprint(key.public_key()).removeprefix("sha256:")


def test_a_file_that_cannot_be_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
    path = tmp_path / "key"
    path.write_bytes(b"no key")
    path.chmod(0o600)
    with pytest.raises(UnreadableError, match="not an Ed25519 key"):
        read(path)
    path.chmod(0o640)
    with pytest.raises(UnreadableError, match="is open to other users"):
        read(path)
    with pytest.raises(UnreadableError, match="is not a regular file"):
        read(tmp_path)
    with pytest.raises(UnreadableError, match="cannot be made"):
        read_or_create(Path("/proc/none/key"))
    assert read_public(b"no key") is None
