"""Private key files: created once for their owner, and refused when open to others."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from egress.audit.private_key_file import create_private, read_private
from egress.errors import UnreadableError

HINT = "name another file"


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new/key"
    create_private(path, b"secret", HINT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["key"]
    assert read_private(path, 100, HINT) == b"secret"
    assert read_private(path, 3, HINT) == b"sec"


def test_the_file_of_a_faster_process_stays(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_private(path, b"first", HINT)
    create_private(path, b"second", HINT)
    assert path.read_bytes() == b"first"
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_the_whole_key_is_on_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.exists()))
    create_private(path, b"secret", HINT)
    assert synced == [False]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"secret")
    path.chmod(mode)
    with pytest.raises(UnreadableError, match="others may read or change") as caught:
        read_private(path, 100, HINT)
    assert "secret" not in f"{caught.value}{caught.value.hint}"


def test_a_pipe_or_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UnreadableError, match="not a file"):
            read_private(path, 100, HINT)


def test_an_impossible_path_is_named_with_the_hint(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_private(tmp_path / "none", 100, HINT)
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableError, match="cannot read the key") as caught:
        read_private(tmp_path / "file/key", 100, HINT)
    assert caught.value.hint == HINT
    with pytest.raises(UnreadableError, match="cannot create the key"):
        create_private(tmp_path / "file/key", b"secret", HINT)
