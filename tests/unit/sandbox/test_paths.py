"""A path is data: words of a command, with a root of its own."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from egress.runtime.errors import PathNotFoundError, SandboxStateError, SpecError
from egress.sandbox.errors import PathOutsideError
from egress.sandbox.handle import Sandbox
from egress.sandbox.paths import SCRIPT, refused, resolved, rooted, words


def test_a_path_is_a_word_and_never_part_of_the_text() -> None:
    path = "a'; rm -rf /"
    command = words("read", path)
    assert command[:3] == ("/bin/sh", "-c", SCRIPT)
    assert command[4:] == ("read", "", path)


def test_only_a_whole_path_may_be_anywhere() -> None:
    assert rooted("a/b") == ("", "a/b")
    assert rooted(PurePosixPath("/a/b")) == ("/", "/a/b")
    for wrong in ("", "a\0"):
        with pytest.raises(SpecError):
            rooted(wrong)


def test_every_status_means_something() -> None:
    assert isinstance(refused(44, "x", "one"), PathNotFoundError)
    assert isinstance(refused(42, "x", "one"), PathOutsideError)
    assert isinstance(refused(137, "x", "one"), SandboxStateError)
    assert all(
        "'a\\nb' in the sandbox one" in str(refused(n, "a\nb", "one")) for n in (41, 42, 43, 44, 45, 46)
    )


def test_a_path_is_resolved_to_where_it_leads(box: Sandbox) -> None:
    box.exec("mkdir real; ln -s real link")
    place = box._place
    assert resolved(place, "link/x").endswith("/workspace/real/x")
    assert resolved(place, "/") == "/"
    assert resolved(place, "new/deep", make="all").endswith("/new/deep")
    assert box.files.stat("new/deep").is_folder
