"""Files in memory."""

from __future__ import annotations

import pytest

from egress.runtime.fake import Files


def test_a_file_brings_its_folders_along() -> None:
    files = Files()
    files.write("/a/b/../c", b"x")
    assert files.read("/a/c") == b"x"
    assert files.is_folder("/a")
    assert list(files) == ["/a/c"]
    assert "/a/c" in files
    assert "/nothing" not in files
    with pytest.raises(FileNotFoundError):
        files.read("/a")


def test_a_folder_knows_what_it_holds() -> None:
    files = Files()
    files.write("/a/b/c", b"")
    files.write("/ab", b"")
    assert list(files.below("/a")) == ["/a/b", "/a/b/c"]
