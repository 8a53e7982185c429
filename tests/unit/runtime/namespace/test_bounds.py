"""Control groups, in folders that stand for them."""

from __future__ import annotations

from pathlib import Path

from egress.runtime.descriptors import MOST
from egress.runtime.namespace import bounds
from egress.runtime.namespace.bounds import Hierarchy, hierarchies, of_each
from egress.runtime.spec import MIB, Limits

_FIRST = """\
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
_MINE = "5:memory:/a/b\n4:cpu,cpuacct:/\n3:freezer:/\n0::/\n"


def test_both_versions_are_found() -> None:
    found = hierarchies(_FIRST, _MINE)
    assert found == (
        Hierarchy(1, Path("/sys/fs/cgroup/memory/a/b"), frozenset({"memory"})),
        Hierarchy(1, Path("/sys/fs/cgroup/cpu,cpuacct"), frozenset({"cpu"})),
        Hierarchy(2, Path("/sys/fs/cgroup/unified"), frozenset()),
    )


def test_a_part_of_the_tree_is_found_where_it_is_mounted() -> None:
    mounts = "34 30 0:30 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    (found,) = hierarchies(mounts, "0::/box/mine\n")
    assert found.folder == Path("/sys/fs/cgroup/mine")
    assert hierarchies("", "") == ()


def test_what_can_be_set_is_set_and_told(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    for folder in (first, second):
        folder.mkdir()
    limits = Limits(memory_mib=64, cpus=0.5, processes=20)
    found = [Hierarchy(1, first, frozenset({"memory", "pids", "cpu"})), Hierarchy(2, second, frozenset())]
    groups = bounds.make("x", limits, found)
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
        assert bounds._bound(tmp_path / str(disk), 2, "memory", Limits(memory_mib=64, disk_mib=disk))
    plain, more = (int((tmp_path / name / "memory.max").read_text()) for name in ("None", "100"))
    assert more - plain >= 100 * MIB


def test_the_second_version_bounds_what_it_was_given(tmp_path: Path) -> None:
    folder = tmp_path / "egress-x"
    folder.mkdir()
    (folder / "cgroup.controllers").write_text("pids memory io\n")
    assert bounds._offered(folder) == {"pids", "memory"}
    assert bounds._offered(tmp_path) == frozenset()
    assert bounds._bound(folder, 2, "cpu", Limits(cpus=1.5))
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert bounds._bound(folder, 2, "memory", Limits())
    assert (folder / "memory.swap.max").read_text() == "0"


def test_where_nothing_can_be_made_nothing_is_bounded(tmp_path: Path) -> None:
    groups = bounds.make("x", Limits(), [Hierarchy(2, tmp_path / "missing", frozenset())])
    assert (groups.folders, groups.bounded, groups.freezer) == ([], frozenset(), None)
    groups.remove()


def test_each_process_is_bounded_where_no_group_does() -> None:
    limits = Limits(memory_mib=64, processes=20)
    assert of_each(limits, frozenset()) == {"data": 64 * MIB, "files": MOST, "processes": 20}
    assert of_each(limits, frozenset({"memory", "pids", "cpu"})) == {"files": MOST}


def test_groups_are_taken_away(tmp_path: Path) -> None:
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    bounds.remove([tmp_path / "outer", inner, tmp_path / "gone"])
    assert list(tmp_path.iterdir()) == []


def test_those_of_this_machine_can_be_asked_for() -> None:
    assert isinstance(bounds.of_machine(), tuple)
    assert bounds.probe(()) == frozenset()
