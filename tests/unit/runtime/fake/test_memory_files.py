"""Files in memory."""

from __future__ import annotations

import errno

import pytest

from egress.runtime.fake import MemoryFiles


def test_a_file_brings_its_folders_along() -> None:
    files = MemoryFiles()
    files.write("/a/b/../c", b"x")
    assert files.read("/a/c") == b"x"
    assert files.is_folder("/a")
    assert list(files) == ["/a/c"]
    assert "/a/c" in files
    assert "/nothing" not in files
    with pytest.raises(FileNotFoundError):
        files.read("/a")


def test_a_folder_knows_what_it_holds() -> None:
    files = MemoryFiles()
    files.write("/a/b/c", b"")
    files.write("/ab", b"")
    assert list(files.below("/a")) == ["/a/b", "/a/b/c"]


def test_a_bound_counts_what_is_written_from_then_on() -> None:
    files = MemoryFiles()
    files.write("/etc/there", bytes(100))
    files.bound(10)
    files.write("/a", bytes(6))
    with pytest.raises(OSError, match="No space left") as caught:
        files.write("/new/b", bytes(5))
    assert caught.value.errno == errno.ENOSPC
    assert "/new" not in files
    assert not files.is_folder("/new")
    # What is written over makes room, and that of /tmp is another.
    files.write("/a", bytes(10))
    files.write("/tmp/a", bytes(50))
    with pytest.raises(OSError, match="No space left"):
        files.write("/tmpa", bytes(1))
    assert files.read("/a") == bytes(10)
