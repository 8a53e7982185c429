"""A new file is written whole, readable, and never over something unasked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from egress.cli import atomic_write
from egress.errors import ContentError, UnreadableError
from egress.private_file import write_atomically


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writes_a_file_that_others_may_read(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        atomic_write.write(tmp_path / "hosts.yaml", "version: 1\n", replace=False)
    finally:
        os.umask(before)
    path = tmp_path / "hosts.yaml"
    assert path.read_text("utf-8") == "version: 1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.stat().st_nlink == 1
    assert names(tmp_path) == ["hosts.yaml"]


def test_leaves_what_is_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("mine", "utf-8")
    with pytest.raises(ContentError, match="exists and was not changed") as caught:
        atomic_write.write(path, "new", replace=False)
    assert "--force" in caught.value.hint
    assert path.read_text("utf-8") == "mine"
    assert names(tmp_path) == ["hosts.yaml"]


def test_replaces_it_when_told_to(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("mine", "utf-8")
    atomic_write.write(path, "new", replace=True)
    assert path.read_text("utf-8") == "new"
    assert names(tmp_path) == ["hosts.yaml"]


def test_a_file_that_appears_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hosts.yaml"
    really = write_atomically

    def slow(path: Path, data: bytes, mode: int, *, replace: bool) -> bool:
        path.write_text("theirs", "utf-8")
        return really(path, data, mode, replace=replace)

    monkeypatch.setattr(atomic_write, "write_atomically", slow)
    with pytest.raises(ContentError):
        atomic_write.write(path, "new", replace=False)
    assert path.read_text("utf-8") == "theirs"
    assert names(tmp_path) == ["hosts.yaml"]


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    atomic_write.write(tmp_path / "hosts.yaml", "new", replace=False)
    assert (tmp_path / "hosts.yaml").read_text("utf-8") == "new"


def test_a_file_that_appears_meanwhile_is_left_alone_without_links_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hosts.yaml"

    def refuse(*_: object) -> None:
        path.write_text("theirs", "utf-8")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(ContentError, match="was not changed"):
        atomic_write.write(path, "new", replace=False)
    assert path.read_text("utf-8") == "theirs"


@pytest.mark.parametrize("force", [False, True])
def test_a_symbolic_link_is_never_followed(force: bool, tmp_path: Path) -> None:
    """A hostile repository may plant one that points at a file of the user's."""
    victim = tmp_path / "victim"
    victim.write_text("precious", "utf-8")
    link = tmp_path / "hosts.yaml"
    link.symlink_to(victim)
    if force:
        atomic_write.write(link, "new", replace=True)
        assert link.read_text("utf-8") == "new"
        assert not link.is_symlink()
    else:
        with pytest.raises(ContentError):
            atomic_write.write(link, "new", replace=False)
    assert victim.read_text("utf-8") == "precious"


def test_a_dangling_link_is_something_that_is_there(tmp_path: Path) -> None:
    link = tmp_path / "hosts.yaml"
    link.symlink_to("nowhere")
    with pytest.raises(ContentError):
        atomic_write.write(link, "new", replace=False)
    assert not (tmp_path / "nowhere").exists()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "says"), [(Path.mkdir, "is a directory"), (make_pipe, "is not a regular file")]
)
def test_refuses_to_replace_what_is_no_file(make: object, says: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    make(path)  # type: ignore[operator]
    with pytest.raises(UnreadableError, match=says):
        atomic_write.write(path, "new", replace=True)


def test_says_that_the_directory_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="does not exist"):
        atomic_write.write(tmp_path / "no/hosts.yaml", "new", replace=False)


def test_says_that_a_part_of_the_path_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableError, match="cannot be written: not a directory"):
        atomic_write.write(tmp_path / "file/hosts.yaml", "new", replace=False)


def test_says_that_a_name_has_a_nul_in_it() -> None:
    with pytest.raises(UnreadableError, match="is not a path"):
        atomic_write.write(Path("a\0b"), "new", replace=False)


def test_a_failure_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnreadableError, match="no space left on device"):
        atomic_write.write(tmp_path / "hosts.yaml", "new", replace=False)
    assert names(tmp_path) == []


@pytest.mark.parametrize("option", ["--output", "--out"])
def test_a_hint_names_the_option_of_the_command(option: str, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    for path in (taken, tmp_path, tmp_path / "taken/below"):
        with pytest.raises((ContentError, UnreadableError)) as caught:
            atomic_write.write(path, "new", replace=False, option=option)
        assert f"{option} " in f"{caught.value.hint} "
