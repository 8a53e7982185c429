"""Control groups, in folders that stand for them."""

from __future__ import annotations

from pathlib import Path

from egress.runtime.namespace import cgroups
from egress.runtime.namespace.cgroups import CgroupHierarchy, parse_hierarchies, process_limits
from egress.runtime.open_file_limit import MAX_OPEN_FILES
from egress.runtime.spec import MIB, SandboxLimits

_FIRST = """\
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
_MINE = "5:memory:/a/b\n4:cpu,cpuacct:/\n3:freezer:/\n0::/\n"


def test_both_versions_are_found() -> None:
    found = parse_hierarchies(_FIRST, _MINE)
    assert found == (
        CgroupHierarchy(1, Path("/sys/fs/cgroup/memory/a/b"), frozenset({"memory"})),
        CgroupHierarchy(1, Path("/sys/fs/cgroup/cpu,cpuacct"), frozenset({"cpu"})),
        CgroupHierarchy(2, Path("/sys/fs/cgroup/unified"), frozenset()),
    )


def test_a_part_of_the_tree_is_found_where_it_is_mounted() -> None:
    mounts = "34 30 0:30 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    (found,) = parse_hierarchies(mounts, "0::/box/mine\n")
    assert found.folder == Path("/sys/fs/cgroup/mine")
    assert parse_hierarchies("", "") == ()


def test_what_can_be_set_is_set_and_told(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    for folder in (first, second):
        folder.mkdir()
    limits = SandboxLimits(memory_mib=64, cpus=0.5, processes=20)
    found = [
        CgroupHierarchy(1, first, frozenset({"memory", "pids", "cpu"})),
        CgroupHierarchy(2, second, frozenset()),
    ]
    groups = cgroups.make("x", limits, found)
    assert groups.bounded == {"memory", "pids", "cpu"}
    assert groups.joined == [first / "egress-x/cgroup.procs"]
    assert (first / "egress-x/cpu.cfs_quota_us").read_text() == "50000"
    assert (first / "egress-x/pids.max").read_text() == "23"
    assert int((first / "egress-x/memory.limit_in_bytes").read_text()) >= 64 * MIB
    # No such file, no freezing.
    assert groups.freezer is None
    assert groups.joining is None
    groups.freeze(is_frozen=True)


def test_a_bounded_disk_is_memory_besides(tmp_path: Path) -> None:
    for disk in (None, 100):
        (tmp_path / str(disk)).mkdir()
        assert cgroups._set_limit(
            tmp_path / str(disk), 2, "memory", SandboxLimits(memory_mib=64, disk_mib=disk)
        )
    plain, more = (int((tmp_path / name / "memory.max").read_text()) for name in ("None", "100"))
    assert more - plain >= 100 * MIB


def test_the_second_version_bounds_what_it_was_given(tmp_path: Path) -> None:
    folder = tmp_path / "egress-x"
    folder.mkdir()
    (folder / "cgroup.controllers").write_text("pids memory io\n")
    assert cgroups._offered_controllers(folder) == {"pids", "memory"}
    assert cgroups._offered_controllers(tmp_path) == frozenset()
    assert cgroups._set_limit(folder, 2, "cpu", SandboxLimits(cpus=1.5))
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert cgroups._set_limit(folder, 2, "memory", SandboxLimits())
    assert (folder / "memory.swap.max").read_text() == "0"


def test_where_nothing_can_be_made_nothing_is_bounded(tmp_path: Path) -> None:
    groups = cgroups.make("x", SandboxLimits(), [CgroupHierarchy(2, tmp_path / "missing", frozenset())])
    assert (groups.folders, groups.bounded, groups.freezer) == ([], frozenset(), None)
    groups.remove()


def test_each_process_is_bounded_where_no_group_does() -> None:
    limits = SandboxLimits(memory_mib=64, processes=20)
    assert process_limits(limits, frozenset()) == {"data": 64 * MIB, "files": MAX_OPEN_FILES, "processes": 20}
    assert process_limits(limits, frozenset({"memory", "pids", "cpu"})) == {"files": MAX_OPEN_FILES}


def test_groups_are_taken_away(tmp_path: Path) -> None:
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    cgroups.remove([tmp_path / "outer", inner, tmp_path / "gone"])
    assert list(tmp_path.iterdir()) == []


def test_those_of_this_machine_can_be_asked_for() -> None:
    assert isinstance(cgroups.find_hierarchies(), tuple)
    assert cgroups.probe(()) == frozenset()
