"""Secrets in real files: rotated, swapped, missing, and things that are no files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.secrets.file import MAX_FILE_BYTES, FileSecretSource
from tests.unit.secrets.secret_samples import OTHER, TOKEN, put


def look(path: Path | str, home: str = "") -> bytes:
    return FileSecretSource(str(path), {"HOME": home}).fetch().secret_named("x").reveal()


def test_reads_the_value(tmp_path: Path) -> None:
    assert look(put(tmp_path / "token", TOKEN + b"\n")) == TOKEN


def test_a_tilde_is_the_home_of_the_user(tmp_path: Path) -> None:
    put(tmp_path / "token", TOKEN)
    assert look("~/token", str(tmp_path)) == TOKEN
    with pytest.raises(UnreadableError, match="HOME is not set"):
        look("~/token", "")


def test_every_look_sees_the_file_as_it_is_now(tmp_path: Path) -> None:
    """Two writes of equal length within one tick of the file system's clock included."""
    source = FileSecretSource(str(tmp_path / "token"), {})
    for number in range(50):
        value = b"token-%08d" % number
        (tmp_path / "token").write_bytes(value)
        assert source.fetch().secret_named("x").reveal() == value


def test_follows_the_swap_of_a_kubernetes_volume(tmp_path: Path) -> None:
    """There `token` links to `..data/token`, and `..data` is a link that is replaced."""
    for version, value in (("..1", TOKEN), ("..2", OTHER)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_bytes(value)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "token").symlink_to("..data/token")
    source = FileSecretSource(str(tmp_path / "token"), {})
    assert source.fetch().secret_named("x").reveal() == TOKEN
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert source.fetch().secret_named("x").reveal() == OTHER


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=f"file not found: {tmp_path}/token"):
        look(tmp_path / "token")


def test_refuses_what_is_no_file_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(UnreadableError, match="is not a regular file"):
            look(path)


def test_refuses_a_pipe_put_there_between_two_looks_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened is looked at again."""
    os.mkfifo(tmp_path / "pipe")
    put(tmp_path / "token", TOKEN)
    real = os.stat

    def stat(path: str | Path, *, follow_symlinks: bool = True) -> os.stat_result:
        asked = tmp_path / "token" if str(path).endswith("/pipe") else path
        return real(asked, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(UnreadableError, match="is not a regular file"):
        look(tmp_path / "pipe")


def test_refuses_a_file_that_is_too_large(tmp_path: Path) -> None:
    assert len(look(put(tmp_path / "token", b"x" * MAX_FILE_BYTES))) == MAX_FILE_BYTES
    with pytest.raises(UnreadableError, match="larger than 64 KiB"):
        look(put(tmp_path / "token", b"x" * (MAX_FILE_BYTES + 1)))


def test_refuses_a_file_that_every_user_can_write(tmp_path: Path) -> None:
    path = put(tmp_path / "token", TOKEN)
    path.chmod(0o664)
    assert look(path) == TOKEN
    path.chmod(0o646)
    with pytest.raises(UnreadableError, match="is writable by every user") as caught:
        look(path)
    assert caught.value.hint == f"chmod o-w {path}"


def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "token", TOKEN)
    writes = iter([TOKEN + b"-half", OTHER])
    real = os.fstat
    calls: list[int] = []

    def fstat(descriptor: int) -> os.stat_result:
        """Write between the first status and the read, in place."""
        status = real(descriptor)
        calls.append(descriptor)
        if len(calls) % 2 and (data := next(writes, None)) is not None:
            path.write_bytes(data)
        return status

    monkeypatch.setattr(os, "fstat", fstat)
    assert look(path) == OTHER
    assert len(calls) == 6


def test_gives_up_on_a_file_that_never_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "token", TOKEN)
    real = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        with path.open("ab") as growing:
            growing.write(b"x")
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", fstat)
    with pytest.raises(UnreadableError, match="changed while it was read") as caught:
        look(path)
    assert "rename" in caught.value.hint


@pytest.mark.parametrize(("ttl", "due", "end"), [(None, 1.0, 3.0), (1, 0.8, 1.0), (900, 1.0, 900.0)])
def test_is_looked_at_every_second_whatever_the_ttl(ttl: int | None, due: float, end: float) -> None:
    assert FileSecretSource("/x", {}).lifetime(ttl) == (due, end)


def test_a_path_that_is_none_is_said(tmp_path: Path) -> None:
    put(tmp_path / "token", TOKEN)
    with pytest.raises(UnreadableError, match="cannot be read: not a directory"):
        look(tmp_path / "token/token")
