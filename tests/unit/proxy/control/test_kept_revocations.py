"""The file of the revocations that outlast a process: strict to read, whole to write, shared by proxies."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.errors import UnreadableError
from egress.proxy.control.kept_revocations import FILE_NAME, MAX_FILE_BYTES, KeptRevocations
from egress.proxy.control.revocation import RevocationKind

NONE: dict[RevocationKind, list[str]] = {"host": [], "secret": []}


def put(folder: Path, data: bytes, mode: int = 0o600) -> KeptRevocations:
    path = folder / FILE_NAME
    path.write_bytes(data)
    path.chmod(mode)
    return KeptRevocations(folder)


def test_what_is_added_is_there_until_it_is_removed(tmp_path: Path) -> None:
    kept = KeptRevocations(tmp_path / "state")
    assert kept.read() == NONE
    kept.remove("secret", "never")
    assert not (tmp_path / "state").exists(), "nothing is written for nothing"
    for kind, name in (("secret", "b"), ("secret", "a"), ("host", "*.example.com"), ("secret", "a")):
        kept.add("secret" if kind == "secret" else "host", name)
    assert kept.read() == {"host": ["*.example.com"], "secret": ["a", "b"]}
    kept.remove("secret", "a")
    assert kept.read() == {"host": ["*.example.com"], "secret": ["b"]}


def test_the_file_is_private(tmp_path: Path) -> None:
    KeptRevocations(tmp_path).add("secret", "a")
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_two_proxies_lose_nothing_of_each_other(tmp_path: Path) -> None:
    one, other = KeptRevocations(tmp_path), KeptRevocations(tmp_path)
    one.add("secret", "a")
    other.add("secret", "b")
    one.remove("secret", "a")
    assert other.read()["secret"] == ["b"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"version":1,"host":[]}',
        b'{"version":2,"host":[],"secret":[]}',
        b'{"version":1,"host":[],"secret":[],"sandbox":[]}',
        b'{"version":1,"host":["API.example.com"],"secret":[]}',
        b'{"version":1,"host":["https://api.example.com"],"secret":[]}',
        b'{"version":1,"host":[""],"secret":[]}',
        b'{"version":1,"host":[],"secret":"tracker"}',
        b'{"version":1,"host":[],"secret":[1]}',
        b'{"version":1,"host":[],"secret":[]} x',
        b'{"version":1,"host":[],"secret":["\xff"]}',
        b'{"version":1,"host":[],"secret":[]}' + b" " * MAX_FILE_BYTES,
    ],
)
def test_a_file_that_says_anything_else_is_refused(tmp_path: Path, data: bytes) -> None:
    """Not one of its lines may be skipped: each took something back."""
    kept = put(tmp_path, data)
    with pytest.raises(UnreadableError, match="not a list of revocations") as caught:
        kept.read()
    assert "without the file" in caught.value.hint
    for change in (kept.add, kept.remove):
        with pytest.raises(UnreadableError):
            change("secret", "a")
    assert (tmp_path / FILE_NAME).read_bytes() == data


@given(st.binary(max_size=200))
def test_no_bytes_are_read_as_something_they_are_not(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        kept = put(Path(name), data)
        try:
            found = kept.read()
        except UnreadableError:
            return
        assert set(found) == {"host", "secret"}


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    kept = put(tmp_path, b'{"version":1,"host":[],"secret":[]}', 0o666)
    with pytest.raises(UnreadableError, match="open to other users"):
        kept.read()


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b'{"version":1,"host":[],"secret":[]}')
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableError):
        KeptRevocations(tmp_path).read()
