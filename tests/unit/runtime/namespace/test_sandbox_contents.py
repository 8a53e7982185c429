"""What a sandbox is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.runtime.namespace import sandbox_contents
from egress.runtime.protocol import Provisions
from egress.runtime.spec import Mount, SandboxLimits, Spec


def spec(**values: object) -> Spec:
    return Spec(name="one", image="host", **values)  # type: ignore[arg-type]


@pytest.fixture
def folders(tmp_path: Path) -> sandbox_contents.OwnFolders:
    made = sandbox_contents.OwnFolders.below(tmp_path)
    made.make(-1)
    return made


def places(spec: Spec, folders: sandbox_contents.OwnFolders, *mounts: Mount) -> dict[str, str]:
    layout = sandbox_contents.plan_mounts(spec, None, folders, {}, mounts)
    return {str(s[1]): layout.sources[int(s[2])].path for s in layout.steps if s[0] == "tree"}


def test_its_own_folders_are_made_for_their_owner(folders: sandbox_contents.OwnFolders) -> None:
    modes = [oct(each.stat().st_mode & 0o7777) for each in folders.all()]
    assert modes == ["0o755", "0o700", "0o1777", "0o1777"]


def test_a_sandbox_sees_programs_and_nobodys_home(folders: sandbox_contents.OwnFolders) -> None:
    found = places(spec(), folders)
    assert found["/usr"] == "/usr"
    assert found["/workspace"] == str(folders.workspace)
    assert found["/home/sandbox"] == str(folders.home)
    own = {str(each) for each in folders.all()}
    for target, source in found.items():
        assert (
            source in own or Path(source).is_relative_to("/usr") or source.startswith(("/etc/", "/dev/"))
        ), target


def test_one_that_is_read_only_has_its_folder_and_memory(folders: sandbox_contents.OwnFolders) -> None:
    wanted = spec(read_only=True, limits=SandboxLimits(temporary_mib=7))
    layout = sandbox_contents.plan_mounts(wanted, None, folders, {}, ())
    assert ("memory", "/tmp", "size=7m,nr_inodes=1792,mode=1777") in layout.steps
    found = places(wanted, folders)
    assert "/home/sandbox" not in found
    assert found["/workspace"] == str(folders.workspace)


def fresh(spec: Spec, folders: sandbox_contents.OwnFolders, *mounts: Mount) -> dict[str, str]:
    """What is empty at each start: which disk it is on, by path."""
    return {
        each.path: each.disk for each in sandbox_contents.plan_mounts(spec, None, folders, {}, mounts).fresh
    }


def test_a_bounded_one_has_nothing_on_the_machines_disk(
    folders: sandbox_contents.OwnFolders, tmp_path: Path
) -> None:
    wanted = spec(limits=SandboxLimits(disk_mib=9, temporary_mib=7))
    own = {str(each) for each in folders.all()}
    assert not own & set(places(wanted, folders).values())
    assert own & set(places(spec(), folders).values())
    assert fresh(wanted, folders) == {
        "/tmp": "temporary",
        "/var/tmp": "disk",
        "/home/sandbox": "disk",
        "/workspace": "disk",
    }
    assert fresh(spec(), folders) == {}
    assert "/home/sandbox" not in fresh(spec(read_only=True, limits=wanted.limits), folders)


def test_what_is_mounted_stays_in_its_place_at_each_start(
    folders: sandbox_contents.OwnFolders, tmp_path: Path
) -> None:
    wanted = spec(limits=SandboxLimits(disk_mib=9))
    for target in ("/tmp", "/var/tmp", "/var"):
        found = fresh(wanted, folders, Mount(source=tmp_path, target=target))
        assert not [each for each in found if each.startswith(target)]
        assert "/workspace" in found


def test_disks_have_the_sizes_that_were_asked_for() -> None:
    assert sandbox_contents.tmpfs_options(spec()) == {}
    found = sandbox_contents.tmpfs_options(spec(limits=SandboxLimits(disk_mib=9, temporary_mib=7)))
    assert found == {
        "disk": "size=9m,nr_inodes=2304,mode=0755",
        "temporary": "size=7m,nr_inodes=1792,mode=0755",
    }


def test_a_mount_at_the_working_folder_stands_in_its_place(
    folders: sandbox_contents.OwnFolders, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    mount = Mount(source=tmp_path / "project", target="/workspace")
    assert not sandbox_contents.has_own_workspace(spec(mounts=(mount,)))
    assert places(spec(mounts=(mount,)), folders, mount)["/workspace"] == str(tmp_path / "project")
    for workdir in ("/tmp", "/home/sandbox"):
        assert not sandbox_contents.has_own_workspace(spec(workdir=workdir))


def test_what_lies_below_something_else_comes_after_it(
    folders: sandbox_contents.OwnFolders, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    mount = Mount(source=tmp_path / "a", target="/workspace/deep/er")
    layout = sandbox_contents.plan_mounts(spec(), None, folders, {}, (mount,))
    order = [str(step[1]) for step in layout.steps if step[0] == "tree"]
    assert order.index("/workspace") < order.index("/workspace/deep/er")


def test_an_image_keeps_its_users_and_not_its_devices(
    folders: sandbox_contents.OwnFolders, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for name in ("bin", "etc", "dev", "proc", "tmp", "root", "srv"):
        (root / name).mkdir(parents=True)
    layout = sandbox_contents.plan_mounts(spec(), root, folders, {}, ())
    sources = {each.path for each in layout.sources}
    assert {str(root / name) for name in ("bin", "etc", "srv")} <= sources
    assert not {str(root / name) for name in ("dev", "proc", "tmp", "root")} & sources
    assert "/etc/passwd" not in sandbox_contents.own_files(spec(), root, "one")
    assert "/etc/passwd" in sandbox_contents.own_files(spec(), None, "one")


def test_the_way_to_the_proxy_is_not_the_users_to_change() -> None:
    outfit = Provisions(variables={"HTTPS_PROXY": "http://door"})
    found = sandbox_contents.variables(
        spec(env={"HTTPS_PROXY": "http://else", "PATH": "/mine", "A": "b"}), outfit
    )
    assert (found["HTTPS_PROXY"], found["PATH"], found["A"]) == ("http://door", "/mine", "b")
    assert found["HOME"] == "/home/sandbox"


def test_a_name_is_made_one_of_a_host() -> None:
    assert sandbox_contents.hostname("a_b.c") == "a-b-c"
