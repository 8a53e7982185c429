"""The plan of a file system, on folders made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.runtime.errors import MountError
from egress.runtime.namespace.inside.system_calls import READ_ONLY
from egress.runtime.namespace.mount_plan import MountPlan


def tree(folder: Path, *places: str) -> Path:
    """Files, folders (with a slash at the end) and links (`one -> other`)."""
    for place in places:
        name, _, target = place.partition(" -> ")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if target:
            path.symlink_to(target)
        elif name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_text(name)
    return folder


def shown(layout: MountPlan) -> dict[str, str]:
    """What is mounted from the host, by path."""
    return {str(s[1]): layout.sources[int(s[2])].path for s in layout.steps if s[0] == "tree"}


def test_a_part_of_the_host_is_one_mount_and_read_only(tmp_path: Path) -> None:
    tree(tmp_path, "usr/bin/sh")
    layout = MountPlan()
    layout.mount_read_only("/usr", tmp_path / "usr")
    assert layout.ordered_steps() == [("folder", "/usr"), ("tree", "/usr", 0)]
    assert layout.sources[0].attributes & READ_ONLY
    layout.mount_read_only("/missing", tmp_path / "missing")
    assert len(layout.ordered_steps()) == 2


def test_a_link_of_the_host_is_a_link(tmp_path: Path) -> None:
    tree(tmp_path, "bin -> usr/bin")
    layout = MountPlan()
    layout.mount_read_only("/bin", tmp_path / "bin")
    assert layout.ordered_steps() == [("link", "/bin", "usr/bin")]


def test_what_is_there_is_mounted_over(tmp_path: Path) -> None:
    tree(tmp_path, "etc/ssl/certs/bundle", "mine")
    layout = MountPlan()
    layout.mount_read_only("/etc", tmp_path / "etc")
    layout.mount_read_only("/etc/ssl/certs/bundle", tmp_path / "mine")
    assert layout.ordered_steps()[2:] == [("tree", "/etc/ssl/certs/bundle", 1)]


def test_a_folder_that_lacks_the_place_is_covered_with_all_it_had(tmp_path: Path) -> None:
    tree(tmp_path, "etc/ssl/one", "etc/ssl/two/x", "etc/ssl/three -> one", "etc/other", "mine")
    layout = MountPlan()
    layout.mount_read_only("/etc", tmp_path / "etc")
    layout.mount_read_only("/etc/ssl/new/bundle", tmp_path / "mine")
    assert shown(layout) == {
        "/etc": str(tmp_path / "etc"),
        "/etc/ssl/one": str(tmp_path / "etc/ssl/one"),
        "/etc/ssl/two": str(tmp_path / "etc/ssl/two"),
        "/etc/ssl/new/bundle": str(tmp_path / "mine"),
    }
    steps = layout.ordered_steps()
    assert ("link", "/etc/ssl/three", "one") in steps
    assert steps.index(("memory", "/etc/ssl", "mode=0755,size=1m")) < steps.index(("folder", "/etc/ssl/new"))
    assert steps[-1] == ("still", "/etc/ssl")
    assert sorted(each.name for each in (tmp_path / "etc/ssl").iterdir()) == ["one", "three", "two"]


@pytest.mark.parametrize("link", ["/usr/certs", "../usr/certs", "../../../usr/certs"])
def test_links_are_followed_as_the_sandbox_follows_them(tmp_path: Path, link: str) -> None:
    """Never as the host would: an absolute one means the sandbox's root."""
    tree(tmp_path, f"etc/certs -> {link}", "usr/certs/bundle", "mine")
    layout = MountPlan()
    for name in ("etc", "usr"):
        layout.mount_read_only(f"/{name}", tmp_path / name)
    layout.mount_read_only("/etc/certs/bundle", tmp_path / "mine")
    assert shown(layout)["/usr/certs/bundle"] == str(tmp_path / "mine")


def test_links_that_lead_round_are_refused(tmp_path: Path) -> None:
    tree(tmp_path, "etc/a -> b", "etc/b -> a", "mine")
    layout = MountPlan()
    layout.mount_read_only("/etc", tmp_path / "etc")
    with pytest.raises(MountError, match="is a loop of links"):
        layout.mount_read_only("/etc/a/bundle", tmp_path / "mine")


def test_a_place_in_a_folder_of_its_own_is_made_there(tmp_path: Path) -> None:
    tree(tmp_path, "workspace/", "lent/")
    layout = MountPlan()
    layout.mount_own("/workspace", tmp_path / "workspace")
    layout.mount_named("/workspace/in/it", tmp_path / "lent", writable=True)
    assert (tmp_path / "workspace/in/it").is_dir()
    assert not layout.sources[-1].attributes & READ_ONLY
    assert layout.sources[-1].alone


def test_folders_that_were_lent_are_not_changed(tmp_path: Path) -> None:
    tree(tmp_path, "lent/", "other/")
    layout = MountPlan()
    layout.mount_named("/lent", tmp_path / "lent", writable=True)
    with pytest.raises(MountError, match="below the writable mount /lent"):
        layout.mount_named("/lent/in", tmp_path / "other", writable=False)
    assert list((tmp_path / "lent").iterdir()) == []
    with pytest.raises(MountError, match="does not exist"):
        layout.mount_named("/x", tmp_path / "missing", writable=False)


def test_kinds_do_not_cover_each_other(tmp_path: Path) -> None:
    tree(tmp_path, "etc/file", "mine", "folder/")
    layout = MountPlan()
    layout.mount_read_only("/etc", tmp_path / "etc")
    for source in ("folder", "mine"):
        with pytest.raises(MountError, match="of the wrong kind"):
            layout.mount_named(
                "/etc/file/x" if source == "mine" else "/etc/file", tmp_path / source, writable=False
            )


def test_memory_is_open_or_closed_at_the_end() -> None:
    layout = MountPlan()
    layout.memory("/tmp", 7)
    layout.memory("/dev", 1, is_open=False)
    layout.link("/dev/fd", "/proc/self/fd")
    assert layout.ordered_steps() == [
        ("folder", "/tmp"),
        ("memory", "/tmp", "size=7m,nr_inodes=1792,mode=1777"),
        ("folder", "/dev"),
        ("memory", "/dev", "mode=0755,size=64k"),
        ("link", "/dev/fd", "/proc/self/fd"),
        ("still", "/dev"),
    ]


def test_what_is_mounted_over_a_folder_hides_what_was_planned_in_it(tmp_path: Path) -> None:
    tree(tmp_path, "a/", "b/", "c/x")
    layout = MountPlan()
    layout.mount_read_only("/one/two", tmp_path / "a")
    layout.mount_read_only("/one", tmp_path / "b")
    layout.mount_read_only("/one/two", tmp_path / "c")
    # It is not there any more, so the folder is covered to make it.
    assert ("memory", "/one", "mode=0755,size=1m") in layout.steps


def test_what_is_empty_at_each_start_is_closed_until_then() -> None:
    layout = MountPlan()
    layout.renew("/workspace", disk="one", mode=0o755)
    assert layout.ordered_steps() == [
        ("folder", "/workspace"),
        ("memory", "/workspace", "mode=0755,size=64k"),
        ("still", "/workspace"),
    ]
    assert layout.disks({"one": "size=1m", "two": "size=2m"}) == [
        {"options": "size=1m", "places": [["/workspace", 0o755, []]]},
        {"options": "size=2m", "places": []},
    ]


def test_what_is_mounted_in_it_is_known_by_what_is_on_top(tmp_path: Path) -> None:
    """Whatever is below another mount comes along with that."""
    tree(tmp_path, "a/in/", "b/")
    layout = MountPlan()
    layout.renew("/w", disk="one", mode=0o755)
    layout.mount_named("/w/deep/a", tmp_path / "a", writable=False)
    layout.mount_named("/w/deep/a/in", tmp_path / "b", writable=False)
    layout.mount_named("/wide", tmp_path / "b", writable=False)
    (made,) = layout.disks({"one": "size=1m"})
    assert made["places"] == [["/w", 0o755, ["/w/deep/a"]]]


def test_what_is_mounted_over_it_is_not_put_aside_at_a_start(tmp_path: Path) -> None:
    tree(tmp_path, "a/")
    layout = MountPlan()
    for path in ("/w", "/w/in", "/wide"):
        layout.renew(path, disk="one", mode=0o755)
    layout.mount_named("/w", tmp_path / "a", writable=True)
    assert [each.path for each in layout.fresh] == ["/wide"]
    layout.renew("/wide", disk="two", mode=0o700)
    assert [(each.path, each.disk) for each in layout.fresh] == [("/wide", "two")]


def test_what_is_mounted_over_a_closed_folder_is_not_closed(tmp_path: Path) -> None:
    tree(tmp_path, "a/")
    layout = MountPlan()
    for path in ("/run", "/runs"):
        layout.memory(path, 1, is_open=False)
    layout.mount_named("/run", tmp_path / "a", writable=True)
    assert layout.ordered_steps()[-2:] == [("tree", "/run", 0), ("still", "/runs")]
