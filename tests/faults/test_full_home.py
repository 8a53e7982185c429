"""The folder for files of sandboxes is full while one is made: a clear error, and nothing of it is left.

With everything real: the disk, the proxy, and the namespaces. The story is in `tiny_home`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import LEFT_OUT
from tests.faults import small_mount
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]


@pytest.mark.system("mount", "mount")
@pytest.mark.system("unshare", "util-linux")
def test_one_that_finds_no_room_is_refused_and_leaves_nothing(
    namespaces: None, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        request.node.user_properties.append((LEFT_OUT, "root, to mount a disk below sandboxes"))
        pytest.skip("a disk below sandboxes is mounted by root alone")
    facts = small_mount.story(request, "tests.faults.tiny_home", str(tmp_path))
    told = facts["told"]
    assert isinstance(told, list)
    # However far it gets.
    assert [each["left"] for each in told] == [0, 4, 16, 64, 256]
    for each in told:
        assert each["code"] == "engine.unavailable"
        assert "cannot write the files of a sandbox in " in each["message"]
        assert each["message"].endswith("no space left on device")
        assert "free space" in each["hint"]
        assert (each["behind"], each["listed"]) == ([], 0)
    assert facts["then"] == "hello from outside\n"
