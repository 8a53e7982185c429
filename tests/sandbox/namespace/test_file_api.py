"""Files and clones over the API, where a kernel limits the user of the sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from egress.sandbox import capabilities
from tests.runtime.namespace.namespace_lab import NamespaceLab
from tests.sandbox.git_lab import GitServerLab
from tests.sandbox.remote_files import RemoteFiles, served_files

DATA = os.urandom(3_000_000)


@pytest.fixture
def remote(house: NamespaceLab) -> Iterator[RemoteFiles]:
    fleet = Fleet(house.runtime, about=FleetInfo(kind="namespace"), tick=None)
    with served_files(fleet, capabilities.HOST_IMAGE) as remote:
        yield remote


def test_a_file_goes_in_and_comes_out_and_belongs_to_the_user(remote: RemoteFiles) -> None:
    assert remote.ask("PUT", "file", DATA, path="deep/data", mode="640").status == 204
    assert remote.run("stat -c '%U %a' deep/data") == remote.run("echo $(id -un) 640")
    assert remote.ask("GET", "file", path="deep/data").body == DATA
    part = remote.ask("GET", "file", headers={"Range": "bytes=1000000-1999999"}, path="/workspace/deep/data")
    assert (part.status, part.body) == (206, DATA[1_000_000:2_000_000])
    entries = remote.ask("GET", "dir", path="deep").body["entries"]
    assert [(each["name"], each["size"], each["mode"]) for each in entries] == [("data", len(DATA), "640")]


def test_the_kernel_limits_what_an_absolute_path_reaches(remote: RemoteFiles, house: NamespaceLab) -> None:
    for path in ("/etc/passwd", "/proc/sysrq-trigger", "/usr/bin/new"):
        answer = remote.ask("PUT", "file", b"x", path=path)
        assert (answer.status, answer.body["type"]) == (403, "path.denied"), path
    # Nothing of the machine outside of the sandbox is there.
    outside = Path(house.served.runtime)
    assert outside.is_dir()
    assert remote.ask("GET", "dir", path=str(outside)).status in (403, 404)
    assert remote.ask("GET", "file", path="/etc/shadow").status in (403, 404)


def test_a_link_of_a_program_leads_no_further_than_the_program(remote: RemoteFiles) -> None:
    remote.run("ln -s /etc/passwd link; ln -s / root; ln -s loop loop")
    for path in ("link", "root/etc/passwd", "loop"):
        answer = remote.ask("GET", "file", path=path)
        assert (answer.status, answer.body["type"]) == (403, "path.outside"), path
    assert remote.ask("PUT", "file", b"x", path="root/tmp/new").status == 403
    assert remote.run("ls /tmp/new 2>/dev/null") == ""


def test_a_file_that_does_not_fit_leaves_the_old_one(house: NamespaceLab) -> None:
    fleet = Fleet(house.runtime, about=FleetInfo(kind="namespace"), tick=None)
    with served_files(fleet, capabilities.HOST_IMAGE, limits={"disk_mib": 2}) as remote:
        assert remote.ask("PUT", "file", b"old", path="a").status == 204
        answer = remote.ask("PUT", "file", DATA, path="a")
        assert (answer.status, answer.body["type"]) == (403, "path.denied")
        assert remote.ask("GET", "file", path="a").body == b"old"
        assert remote.run("ls -A") == "a\n"


@pytest.mark.system("git", "git")
def test_a_clone_is_given_its_credential(namespaces: None, tmp_path: Path) -> None:
    with GitServerLab(tmp_path) as forge:
        commit = forge.seed("theirs")
        with served_files(forge.fleet, capabilities.HOST_IMAGE) as remote:
            answer = remote.ask("POST", "git", {"url": forge.url("theirs"), "path": "copy", "branch": "main"})
            assert (answer.status, answer.body) == (200, {"path": "copy", "commit": commit})
            assert remote.ask("GET", "file", path="copy/README").body == b"hello\n"
            denied = remote.ask("POST", "git", {"url": forge.url("none")})
            assert denied.body["type"].startswith("git.")
