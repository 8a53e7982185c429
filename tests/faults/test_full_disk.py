"""A disk that is full under the audit log of a proxy as a process, and has room again.

S-67 with everything real: the disk, the process, and the traffic. The story is in `tiny_disk`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import small_mount


def story(request: pytest.FixtureRequest, folder: Path, mode: str) -> dict[str, object]:
    return small_mount.story(request, "tests.faults.tiny_disk", str(folder), mode)


def log(facts: dict[str, object]) -> dict[str, object]:
    found = facts["log"]
    assert isinstance(found, dict)
    return found


@pytest.mark.system("mount", "mount")
@pytest.mark.system("unshare", "util-linux")
def test_by_default_nothing_passes_until_there_is_room(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    facts = story(request, tmp_path, "stop")
    assert facts["while_full"] == {"audit.stopped": 50}
    assert facts["seen_while_full"] == 0
    assert facts["ready"] == 503
    assert facts["answered"] == facts["seen"]
    assert log(facts)["untold"] == log(facts)["twice"] == log(facts)["dropped"] == 0
    assert log(facts)["resumed"] == ["ENOSPC"]
    assert facts["verify"] == 0


@pytest.mark.system("mount", "mount")
@pytest.mark.system("unshare", "util-linux")
def test_by_setting_everything_passes_and_what_is_not_told_is_counted(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    facts = story(request, tmp_path, "drop")
    assert facts["while_full"] == {"200": 50}
    assert facts["seen_while_full"] == 50
    assert facts["ready"] == 200
    assert log(facts)["twice"] == 0
    assert log(facts)["untold"] == log(facts)["dropped"] == facts["dropped"] != 0
    assert log(facts)["resumed"] == ["ENOSPC"]
    assert facts["verify"] == 0
