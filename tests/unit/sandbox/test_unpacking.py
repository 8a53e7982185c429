"""Archives between the host and a sandbox: what comes out is data, and leads nowhere else."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.runtime import disk_space
from egress.runtime.errors import ArchiveError, SandboxStateError
from egress.sandbox import unpacking


def archive(*entries: tarfile.TarInfo) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for entry in entries:
            tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    out.seek(0)
    return out


def entry(name: str, **values: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    for field, value in values.items():
        setattr(made, field, value)
    return made


@pytest.mark.parametrize(
    "bad",
    [
        entry("../out", size=1),
        entry("/out", size=1, type=tarfile.SYMTYPE, linkname="/etc"),
        entry("dev", type=tarfile.CHRTYPE),
        entry("out", type=tarfile.SYMTYPE, linkname="../../x"),
    ],
    ids=lambda bad: bad.name,
)
def test_nothing_is_unpacked_outside(bad: tarfile.TarInfo, tmp_path: Path) -> None:
    target = tmp_path / "a/target"
    with pytest.raises((ArchiveError, UnreadableError)):
        unpacking.unpack_folder(archive(bad), target)
    assert [path for path in tmp_path.rglob("*") if path not in (target, target.parent)] == []


def test_nothing_is_unpacked_through_a_link_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (target / "in").symlink_to("../elsewhere")
    with pytest.raises(ArchiveError):
        unpacking.unpack_folder(archive(entry("in/file", size=1)), target)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_is_unpacked_as_it_was_packed(tmp_path: Path) -> None:
    """The good twin."""
    target = tmp_path / "target"
    made = archive(
        entry("run", size=2, mode=0o755, mtime=5),
        entry("deep/er", type=tarfile.DIRTYPE),
        entry("deep/er/a", size=1),
        entry("deep/up", type=tarfile.SYMTYPE, linkname="../run"),
        entry("hard", type=tarfile.LNKTYPE, linkname="deep/er/a"),
    )
    for _ in range(2):
        made.seek(0)
        unpacking.unpack_folder(made, target)
    assert ((target / "run").stat().st_mode & 0o777, (target / "run").stat().st_mtime) == (0o755, 5)
    assert (target / "deep/up").readlink() == Path("../run")
    assert (target / "hard").samefile(target / "deep/er/a")
    assert sorted(path.name for path in target.rglob("*")) == ["a", "deep", "er", "hard", "run", "up"]


@pytest.mark.parametrize("name", ["in/file", "file"])
def test_a_link_that_comes_after_the_judgement_is_not_followed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox that can write the target as well waits for the moment between looking and opening."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("kept")
    target = tmp_path / "target"
    target.mkdir()
    judge = tarfile.data_filter

    def judge_and_lose(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        found = judge(member, path)
        (target / "in").symlink_to("../elsewhere")
        (target / "file").symlink_to("../elsewhere/file")
        return found

    monkeypatch.setattr(tarfile, "data_filter", judge_and_lose)
    with contextlib.suppress(ArchiveError):
        unpacking.unpack_folder(archive(entry(name, size=1)), target)
    assert [each.read_text() for each in (tmp_path / "elsewhere").iterdir()] == ["kept"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    unpacking.unpack_file(archive(entry("any", size=3, mode=0o4755)), tmp_path / "file")
    assert ((tmp_path / "file").read_text(), (tmp_path / "file").stat().st_mode & 0o7777) == ("xxx", 0o755)
    with pytest.raises(ArchiveError):
        unpacking.unpack_file(archive(entry("any", type=tarfile.DIRTYPE)), tmp_path / "folder")
    with pytest.raises(UnreadableError):
        unpacking.unpack_file(archive(entry("any", size=1)), tmp_path / "no/file")

    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError(5, "broken")

    with pytest.raises(UnreadableError):
        unpacking.write_file(Broken(), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "xxx"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_archive_is_named_or_open(tmp_path: Path) -> None:
    unpacking.write_archive(io.BytesIO(b"x"), str(tmp_path / "a.tar"))
    assert (tmp_path / "a.tar").read_bytes() == b"x"
    out = io.BytesIO()
    unpacking.write_archive(io.BytesIO(b"y"), out)
    assert out.getvalue() == b"y"
    with unpacking.open_archive(tmp_path / "a.tar") as file:
        assert file.read() == b"x"
    with unpacking.open_archive(out) as file:
        assert file is out
    with pytest.raises(UnreadableError), unpacking.open_archive(tmp_path / "none.tar"):
        pass
    with pytest.raises(ArchiveError), unpacking.filtered_archive(archive(entry("../x", size=1))):
        pass


def test_filtering_leaves_room_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_space, "_MIN_FREE_BYTES", 1 << 80)
    monkeypatch.setattr(disk_space, "_MIN_FREE_DIVISOR", 1)
    with (
        pytest.raises(SandboxStateError, match="more disk space"),
        unpacking.filtered_archive(archive(entry("x", size=1))),
    ):
        pass
