"""The key file: made once, readable for one user, never beside the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.audit import key
from egress.errors import UnreadableError


def test_a_key_is_made_once_and_then_read(tmp_path: Path) -> None:
    path = tmp_path / "state" / "audit.key"
    made = key.read_or_create(path, tmp_path / "log")
    assert len(made) == 32
    assert key.read_or_create(path, tmp_path / "log") == made == key.read(path)
    assert [other.name for other in path.parent.iterdir()] == ["audit.key"]


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key.read_or_create(tmp_path / "k", tmp_path / "log")
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600


def test_two_keys_differ(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert key.read_or_create(tmp_path / "a", log) != key.read_or_create(tmp_path / "b", log)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_can_reach_is_refused(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "k"
    key.read_or_create(path, tmp_path / "log")
    path.chmod(mode)
    with pytest.raises(UnreadableError, match="is open to other users"):
        key.read(path)


@pytest.mark.parametrize("size", [0, 31, 33, 5000])
def test_a_file_of_another_size_is_no_key(size: int, tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.touch(0o600)
    path.write_bytes(b"x" * size)
    with pytest.raises(UnreadableError, match="not the key of an audit log") as error:
        key.read_or_create(path, tmp_path / "log")
    assert "xxx" not in str(error.value)


def test_a_key_in_the_folder_of_the_log_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "log/k", tmp_path / "log/deep/k", tmp_path / "other/../log/k"):
        with pytest.raises(UnreadableError, match="lies in the folder of the log"):
            key.read_or_create(path, tmp_path / "log")


def test_a_folder_and_a_missing_file_are_no_keys(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="is not a regular file"):
        key.read(tmp_path)
    with pytest.raises(FileNotFoundError):
        key.read(tmp_path / "none")


def test_a_link_to_a_key_is_a_key(tmp_path: Path) -> None:
    """Mounted files are often links; what they lead to is held to the same."""
    made = key.read_or_create(tmp_path / "k", tmp_path / "log")
    (tmp_path / "link").symlink_to(tmp_path / "k")
    assert key.read(tmp_path / "link") == made
    (tmp_path / "k").chmod(0o644)
    with pytest.raises(UnreadableError, match="is open to other users"):
        key.read(tmp_path / "link")


def test_a_key_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableError, match="cannot be read: not a directory"):
        key.read_or_create(tmp_path / "file/k", tmp_path / "log")
