"""What no sandbox gets to see of the host (S-49, S-51), by whatever path it is named."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from egress.runtime.errors import MountError
from egress.runtime.mount_check import check_mounts, refuse_moved
from egress.runtime.spec import Mount


def judged(source: Path | str, *guarded: Path, target: str = "/inside") -> Mount:
    [found] = check_mounts([Mount(source=Path(source), target=target)], guarded, ["/.egress"])
    return found


def test_a_folder_and_a_file_that_are_named_are_mounted(tmp_path: Path) -> None:
    """The good twin."""
    (tmp_path / "file").touch()
    assert judged(tmp_path).source == tmp_path
    assert judged(tmp_path / "file").source == tmp_path / "file"


def test_it_is_the_end_of_a_link_that_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    assert judged(tmp_path / "link").source == tmp_path / "folder"


@pytest.mark.parametrize("way", ["absolute", "../private"])
def test_a_link_that_somebody_made_does_not_lead_out_of_its_folder(tmp_path: Path, way: str) -> None:
    """A repository brings it, or a sandbox that could write there the last time."""
    private = tmp_path / "private"
    private.mkdir()
    project = tmp_path / "project"
    (project / "real").mkdir(parents=True)
    link = project / "data"
    link.symlink_to(private if way == "absolute" else way)
    own(link, 1000)
    with pytest.raises(MountError, match="leads out of its folder") as refused:
        judged(link)
    assert str(private) in refused.value.hint
    link.unlink()
    link.symlink_to("real")
    own(link, 1000)
    assert judged(link).source == project / "real"


def test_a_link_in_the_middle_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "private/keys").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    link = tmp_path / "project/data"
    link.symlink_to(tmp_path / "private")
    own(link, 1000)
    with pytest.raises(MountError, match="leads out of its folder"):
        judged(link / "keys")


@pytest.mark.skipif(os.geteuid() != 0, reason="links of root's are made by root")
def test_links_of_roots_are_followed_unless_a_sandbox_can_write_there(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project/data").symlink_to(tmp_path / "private")
    project = Mount(source=tmp_path / "project", target="/project", writable=True)
    data = Mount(source=tmp_path / "project/data", target="/data")
    assert check_mounts([data], [])[0].source == tmp_path / "private"
    with pytest.raises(MountError, match="leads out of its folder"):
        check_mounts([project, data], [])


def test_a_link_on_the_way_to_what_is_closed_is_not_written(tmp_path: Path) -> None:
    """A sandbox that puts a folder in its place has the log of the next proxy in it."""
    (tmp_path / "audit").mkdir()
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/log").symlink_to(tmp_path / "audit")
    guarded = [tmp_path / "project/log"]
    project = Mount(source=tmp_path / "project", target="/project", writable=True)
    with pytest.raises(MountError, match=r"contains or lies in .*/log"):
        check_mounts([project], guarded)
    check_mounts([replace(project, writable=False)], guarded)
    check_mounts([replace(project, source=tmp_path / "project/src")], guarded)


def test_what_became_a_link_since_it_was_mounted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    mounted = judged(tmp_path / "data")
    refuse_moved([mounted])
    (tmp_path / "data").rename(tmp_path / "old")
    (tmp_path / "data").symlink_to("old")
    with pytest.raises(MountError, match="became a link"):
        refuse_moved([mounted])


def test_links_without_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(MountError, match="cannot resolve"):
        judged(tmp_path / "one")


def own(link: Path, user: int) -> None:
    """Let a link be somebody's, where root makes it; else it is ours, who are not root."""
    if os.geteuid() == 0:
        os.lchown(link, user, user)


@pytest.mark.parametrize(
    "source",
    [
        "/",
        "/proc",
        "/proc/self",
        "/sys",
        "/dev",
        "/dev/null",
        "/run",
        "/var",
        "/var/run",
        "/boot",
        "/var/../var/run",
    ],
)
def test_what_holds_a_socket_of_an_engine_or_is_the_system_is_refused(source: str) -> None:
    if not Path(source).exists():
        pytest.skip("not on this machine")
    with pytest.raises(MountError):
        judged(source)


def test_sockets_pipes_and_what_is_not_there_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MountError, match="neither folder nor file"):
        judged(tmp_path / "pipe")
    with pytest.raises(MountError, match="does not exist"):
        judged(tmp_path / "nothing")


def test_a_socket_by_another_name_is_refused(tmp_path: Path) -> None:
    socket_file = tmp_path / "engine.sock"
    os.mknod(socket_file, 0o600 | 0o140000)
    assert socket_file.is_socket()
    (tmp_path / "harmless").symlink_to(socket_file)
    with pytest.raises(MountError, match="neither folder nor file"):
        judged(tmp_path / "harmless")
    assert socket.AF_UNIX


def test_folders_of_the_proxy_are_refused_from_above_and_from_below(tmp_path: Path) -> None:
    state = tmp_path / "state/egress"
    (state / "audit").mkdir(parents=True)
    (tmp_path / "link").symlink_to(state)
    (tmp_path / "state/other").mkdir()
    for source in (state, state / "audit", tmp_path / "state", tmp_path, tmp_path / "link"):
        with pytest.raises(MountError, match="must not see"):
            judged(source, state)
    assert judged(tmp_path / "state/other", state).target == "/inside"


def test_a_guarded_folder_that_is_a_link_is_guarded_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "named").symlink_to("real")
    with pytest.raises(MountError):
        judged(tmp_path / "real", tmp_path / "named")


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/.",
        "/proc",
        "/proc/sys",
        "/./proc",
        "/sys/",
        "/dev/shm",
        "/etc/resolv.conf",
        "/etc",
        "/.egress/x",
    ],
)
def test_nothing_is_mounted_over_what_the_sandbox_needs(target: str, tmp_path: Path) -> None:
    with pytest.raises(MountError):
        judged(tmp_path, target=target)
    assert judged(tmp_path, target="/etc/mine").target == "/etc/mine"


def test_nothing_is_mounted_where_a_guarded_place_leads_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "ours").symlink_to("ours")
    (tmp_path / "lent").mkdir()
    mount = Mount(source=tmp_path / "lent", target="/lent")
    assert check_mounts([mount], [tmp_path / "elsewhere"])
    with pytest.raises(MountError, match="cannot resolve"):
        check_mounts([mount], [tmp_path / "ours"])
