"""A bounded disk, in namespaces: what is written has an end, and nothing of it is on the machine's disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.spec import MIB, SandboxLimits
from tests.runtime import disk_cases
from tests.runtime.disk_cases import CASES, Case, full, lists
from tests.runtime.namespace.namespace_lab import NamespaceLab, NamespaceLabSandbox


class Builder:
    """Makes sandboxes for one test."""

    def __init__(self, house: NamespaceLab) -> None:
        self._house = house
        self.runtime = house.runtime

    def box(self, name: str, **values: object) -> NamespaceLabSandbox:
        return self._house.box(name, **values)

    def taken(self) -> int:
        return sum(each.lstat().st_blocks * 512 for each in self._house.home.rglob("*"))


@pytest.fixture
def builder(house: NamespaceLab) -> Iterator[Builder]:
    yield Builder(house)
    for each in house.runtime.list():
        house.runtime.remove(each.name)


@pytest.mark.parametrize("promise", CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, builder: Builder) -> None:
    promise(builder)


def test_what_is_mounted_in_it_stays(builder: Builder, tmp_path: Path) -> None:
    disk_cases.what_is_mounted_in_it_stays(builder, tmp_path)


def test_what_stands_in_the_place_of_its_own_folders_stays(builder: Builder, tmp_path: Path) -> None:
    disk_cases.what_stands_in_the_place_of_its_own_folders_stays(builder, tmp_path)


def test_its_folders_have_one_size_together(builder: Builder) -> None:
    box = builder.box("one", limits=SandboxLimits(disk_mib=8))
    box.sh('head -c "$1" /dev/zero >/workspace/a', str(5 * MIB)).check()
    assert box.sh("stat -c '%a' . ~ /var/tmp").stdout_bytes == b"755\n700\n1777\n"
    box.sh("echo x >~/a && echo x >/var/tmp/a").check()
    assert b"No space left" in full(box, "/home/sandbox/b", 5)
    assert b"No space left" in full(box, "/var/tmp/b", 5)


def test_a_home_is_closed_where_that_is_asked_for(builder: Builder) -> None:
    box = builder.box("one", read_only=True, limits=SandboxLimits(disk_mib=8))
    assert (
        box.sh("echo x >/workspace/a && echo x >/tmp/a && cat /workspace/a /tmp/a").stdout_bytes == b"x\nx\n"
    )
    assert box.sh("echo x >/home/sandbox/a").exit_code


def test_a_working_folder_in_the_one_for_what_is_temporary_is_a_disk(builder: Builder) -> None:
    box = builder.box("one", workdir="/tmp/deep/work", limits=SandboxLimits(disk_mib=8, temporary_mib=2))
    for _ in range(2):
        assert b"No space left" in full(box, "/tmp/a", 4)
        box.sh('head -c "$1" /dev/zero >a && ls /tmp', str(5 * MIB)).check()
        builder.runtime.stop("one")
        builder.runtime.start("one")


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_nothing_is_tied_to_a_file_that_no_group_counts(builder: Builder, place: str) -> None:
    box = builder.box("one", limits=SandboxLimits(disk_mib=8))
    assert lists(box, place) == (0, "Operation not supported")
    # Whoever copies one with all it has goes on without.
    assert box.sh('cd "$1" && echo x >a && chmod 751 a && cp -a a b && stat -c %a b', place).text == "751\n"
