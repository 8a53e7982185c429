"""Files that are mounted: laid down once, renewed in place."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from egress.runtime.errors import EngineUnavailableError, SpecError
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.protocol import Provisions

FILES = {"/etc/egress/ca.pem": b"one", "/etc/egress/certs/a.0": b"one"}
OUTFIT = Provisions(files=FILES, overmounts={"/etc/ssl/cert.pem": "/etc/egress/ca.pem"})


def test_each_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    seen = MountedFiles(tmp_path / "files", {"/etc/resolv.conf": b"names"}).write(OUTFIT)
    assert set(seen) == {"/etc/resolv.conf", "/etc/egress", "/etc/ssl/cert.pem"}
    assert seen["/etc/resolv.conf"].read_bytes() == b"names"
    assert (seen["/etc/egress"] / "certs/a.0").read_bytes() == b"one"
    assert seen["/etc/ssl/cert.pem"].read_bytes() == b"one"
    assert stat.S_IMODE(seen["/etc/ssl/cert.pem"].stat().st_mode) == 0o644


def test_what_is_renewed_stays_the_same_file(tmp_path: Path) -> None:
    laid = MountedFiles(tmp_path / "files", {})
    mounted = laid.write(OUTFIT)["/etc/ssl/cert.pem"]
    before = mounted.stat().st_ino
    with mounted.open("rb") as reader:
        laid.renew(Provisions(files={"/etc/egress/ca.pem": b"2", "/etc/egress/certs/b.0": b"2"}))
        assert reader.read() == b"2"
    assert mounted.stat().st_ino == before
    assert (tmp_path / "files/provisions/certs/b.0").read_bytes() == b"2"


def test_without_an_outfit_there_is_no_folder_for_it(tmp_path: Path) -> None:
    assert set(MountedFiles(tmp_path / "files", {"/a": b""}).write(Provisions())) == {"/a"}


@pytest.mark.parametrize(
    "outfit",
    [
        Provisions(files={"/etc/passwd": b""}), Provisions(files={"/etc/egress/../passwd": b""}),
        Provisions(files={"/etc/egress": b""}), Provisions(files={"/etc/egress-2/x": b""}),
        Provisions(files={"/etc/egress/a": b""}, overmounts={"/x": "/etc/egress/b"}),
    ],
)  # fmt: skip
def test_an_outfit_stays_in_its_folder(outfit: Provisions, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="provisions"):
        MountedFiles(tmp_path / "files", {}).write(outfit)


def test_what_cannot_be_written_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EngineUnavailableError, match="not a directory") as caught:
        MountedFiles(tmp_path / "file" / "below", {}).write(OUTFIT)
    assert str(tmp_path) in caught.value.message
    assert "--runtime-dir" in caught.value.hint
