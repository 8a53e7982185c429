"""The root folder, built in a namespace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.runtime.namespace.inside.root_mounts import _mounted_below
from tests.unit.runtime.namespace.inside_code import needs_namespaces, run_inside

_BUILD = """
import json
sources, steps = json.loads(sys.argv[1])
user_namespaces.enter(0x20000, ())
root_mounts.build(root_mounts.HostTrees(sources), steps)
"""


def source(path: Path, attributes: int = 7) -> dict[str, object]:
    return {"path": str(path), "attributes": attributes, "alone": True}


def test_what_was_planned_is_there_and_nothing_else(tmp_path: Path) -> None:
    needs_namespaces()
    tmp_path.chmod(0o755)
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen/a").write_text("a")
    (tmp_path / "file").write_text("f")
    steps = [
        ["folder", "/one"],
        ["tree", "/one", 0],
        ["file", "/two"],
        ["tree", "/two", 1],
        ["link", "/three", "one/a"],
        ["folder", "/four"],
        ["memory", "/four", "mode=0755,size=64k"],
        ["still", "/four"],
    ]
    code = (
        _BUILD
        + """
print(sorted(os.listdir("/")), open("/two").read(), open("/three").read())
for place in ("/one/x", "/four/x"):
    try:
        os.mkdir(place)
        print("made")
    except OSError as error:
        print(error.errno)
"""
    )
    plan = json.dumps([[source(tmp_path / "seen"), source(tmp_path / "file")], steps])
    assert run_inside(code, plan).splitlines() == [
        "['.egress', 'four', 'one', 'three', 'two'] f a",
        "30",
        "30",
    ]


def test_a_step_that_nobody_knows_is_an_error() -> None:
    needs_namespaces()
    code = _BUILD.replace(
        "root_mounts.build(root_mounts.HostTrees(sources), steps)",
        "try:\n    root_mounts.build(root_mounts.HostTrees(sources), steps)\n"
        "except ValueError as error:\n    print(error)",
    )
    assert run_inside(code, json.dumps([[], [["destroy", "/x"]]])) == "destroy\n"


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    needs_namespaces()
    code = """
user_namespaces.enter(0x20000, ())
try:
    root_mounts.HostTrees([{"path": sys.argv[1], "attributes": 1, "alone": False}])
except OSError as error:
    print(error.filename)
"""
    assert run_inside(code, str(tmp_path / "gone")) == f"{tmp_path / 'gone'}\n"


def test_what_is_mounted_below_a_folder_is_found_and_can_be_covered() -> None:
    assert "/" not in _mounted_below("/")
    assert any(each.startswith("/proc") for each in _mounted_below("/"))
    needs_namespaces()
    code = """
user_namespaces.enter(0x20000, ())
system_calls.keep_mounts_private()
system_calls.mount("tmpfs", "/proc", "mode=0755")
os.mkdir("/proc/in")
open("/proc/in/x", "w").close()
root_mounts._cover("/proc/in")
root_mounts._cover("/proc/not/there")
print(os.listdir("/proc/in"))
"""
    assert run_inside(code) == "[]\n"


def test_a_disk_has_one_size_for_all_its_folders_and_keeps_what_is_mounted_there(tmp_path: Path) -> None:
    needs_namespaces()
    tmp_path.chmod(0o755)
    (tmp_path / "seen").write_text("seen")
    steps = [
        *(["folder", "/one"], ["memory", "/one", "mode=0755,size=64k"]),
        *(["folder", "/one/deep"], ["file", "/one/deep/seen"], ["tree", "/one/deep/seen", 0]),
        *(["folder", "/two"], ["memory", "/two", "mode=0755,size=64k"]),
    ]
    code = (
        _BUILD
        + """
places = [["/one", 0o755, ["/one/deep/seen"]], ["/two", 0o1777, []]]
root_mounts.add_disks([{"options": "size=1m,nr_inodes=64", "places": places}], 0)
print(open("/one/deep/seen").read())
for place in ("/one", "/two", "/one/deep"):
    found = os.stat(place)
    print(place, oct(found.st_mode & 0o7777), found.st_uid)
open("/one/a", "wb").write(bytes(900_000))
try:
    open("/two/a", "wb").write(bytes(900_000))
except OSError as error:
    print(error.errno, os.stat("/two/a").st_size < 200_000)
"""
    )
    plan = json.dumps([[source(tmp_path / "seen")], steps])
    assert run_inside(code, plan).splitlines() == [
        "seen",
        *("/one 0o755 0", "/two 0o1777 0", "/one/deep 0o755 0"),
        "28 True",
    ]


@pytest.mark.parametrize("name", ["plain", "gr\u00fc\u00df dich", "back\\slash", "line\nend", "one#two"])
def test_what_is_mounted_below_is_found_whatever_its_folder_is_called(tmp_path: Path, name: str) -> None:
    needs_namespaces()
    (tmp_path / name / "in").mkdir(parents=True)
    code = """
user_namespaces.enter(0x20000, ())
system_calls.keep_mounts_private()
system_calls.mount("tmpfs", sys.argv[1] + "/in")
print(root_mounts._mounted_below(sys.argv[1]))
"""
    assert run_inside(code, str(tmp_path / name)) == "['/in']\n"


@pytest.mark.parametrize("way", ["data", "link/data"])
def test_what_is_lent_is_not_followed_to_where_it_was_not_judged(tmp_path: Path, way: str) -> None:
    """Another sandbox that can write above it may have put a link there meanwhile."""
    needs_namespaces()
    (tmp_path / "real/data").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "data").symlink_to("real/data")
    code = """
user_namespaces.enter(0x20000, ())
for path in sys.argv[1:]:
    try:
        root_mounts.HostTrees([{"path": path, "attributes": 1, "alone": True}])
        print("opened")
    except OSError as error:
        print(os.path.basename(error.filename), error.errno in (20, 40))
"""
    assert run_inside(code, str(tmp_path / "real/data"), str(tmp_path / way)) == "opened\ndata True\n"
