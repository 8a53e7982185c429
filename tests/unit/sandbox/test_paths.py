"""A path is data: words of a command, with a root of its own."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from egress.runtime.errors import PathNotFoundError, SandboxStateError, SpecError
from egress.sandbox.errors import PathOutsideError
from egress.sandbox.handle import Sandbox
from egress.sandbox.paths import FILES_SCRIPT, path_command, path_error, resolve, split_root


def test_a_path_is_a_word_and_never_part_of_the_text() -> None:
    path = "a'; rm -rf /"
    command = path_command("read", path)
    assert command[:3] == ("/bin/sh", "-c", FILES_SCRIPT)
    assert command[4:] == ("read", "", path)


def test_only_a_whole_path_may_be_anywhere() -> None:
    assert split_root("a/b") == ("", "a/b")
    assert split_root(PurePosixPath("/a/b")) == ("/", "/a/b")
    for wrong in ("", "a\0"):
        with pytest.raises(SpecError):
            split_root(wrong)


def test_every_status_means_something() -> None:
    assert isinstance(path_error(44, "x", "one"), PathNotFoundError)
    assert isinstance(path_error(42, "x", "one"), PathOutsideError)
    assert isinstance(path_error(137, "x", "one"), SandboxStateError)
    assert all(
        "'a\\nb' in the sandbox one" in str(path_error(n, "a\nb", "one")) for n in (41, 42, 43, 44, 45, 46)
    )


def test_a_path_is_resolved_to_where_it_leads(box: Sandbox) -> None:
    box.exec("mkdir real; ln -s real link")
    place = box._place
    assert resolve(place, "link/x").endswith("/workspace/real/x")
    assert resolve(place, "/") == "/"
    assert resolve(place, "new/deep", make="all").endswith("/new/deep")
    assert box.files.stat("new/deep").is_folder
