"""What the engine is asked for: nothing of the image decides, and nothing dear is in it (S-40, S-51)."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from egress.runtime import tmpfs
from egress.runtime.docker import death_pipe
from egress.runtime.docker.bridge_network import BridgeNetwork, NetworkAddresses
from egress.runtime.docker.container import (
    WAITER_USER,
    Placement,
    config,
    has_own_workspace,
    resolver,
    variables,
    volumes_to_cover,
)
from egress.runtime.docker.engine import Json
from egress.runtime.docker.isolation import Isolation
from egress.runtime.protocol import Provisions
from egress.runtime.spec import Mount, SandboxLimits, Spec

PLACING = Placement(
    image="sha256:1",
    network=BridgeNetwork("net", NetworkAddresses(IPv4Network("198.18.0.8/29"))),
    workspace="volume",
    lease="/run/boxes/l.lease",
    cpus=8,
    files={"/etc/resolv.conf": Path("/run/boxes/1/files/0")},
)
OUTFIT = Provisions(variables={"HTTPS_PROXY": "http://198.18.0.10:3128"})


def made(**values: object) -> Json:
    spec = Spec(**{"name": "one_x", "image": "any", **values})  # type: ignore[arg-type]
    return config(spec, PLACING, spec.mounts)


def host(found: Json) -> Json:
    inside = found["HostConfig"]
    assert isinstance(inside, dict)
    return inside


def test_nothing_of_the_image_decides_how_it_is_run() -> None:
    found = made(user=7, group=8)
    assert (found["Image"], found["User"], found["Cmd"]) == ("sha256:1", WAITER_USER, [])
    assert found["Healthcheck"] == {"Test": ["NONE"]}
    assert found["Entrypoint"] == ["/bin/sh", "-c", death_pipe.wait_script()]


def test_it_has_one_network_and_one_name_server() -> None:
    found = host(made())
    assert (found["NetworkMode"], found["Dns"]) == ("net", ["198.18.0.10"])
    assert made()["NetworkingConfig"] == {
        "EndpointsConfig": {"net": {"IPAMConfig": {"IPv4Address": "198.18.0.11"}}}
    }
    assert resolver("198.18.0.10").startswith(b"nameserver 198.18.0.10\n")
    assert resolver("x").count(b"nameserver") == 1


def test_limits_are_passed_on() -> None:
    found = host(made(limits=SandboxLimits(memory_mib=64, cpus=1.5, processes=9)))
    assert (found["Memory"], found["MemorySwap"]) == (64 * 2**20, 64 * 2**20)
    assert (found["NanoCpus"], found["PidsLimit"]) == (1_500_000_000, 9)
    # An engine refuses more than the machine has.
    assert host(made(limits=SandboxLimits(cpus=99)))["NanoCpus"] == 8_000_000_000


def test_the_way_to_the_proxy_is_not_the_users_to_change() -> None:
    spec = Spec(name="one", image="any", env={"HTTPS_PROXY": "elsewhere", "A": "b"})
    assert variables(spec, OUTFIT) == {"HTTPS_PROXY": "http://198.18.0.10:3128", "A": "b"}


def test_whose_it_is_is_not_in_it() -> None:
    """S-40: one that was made ahead is the same, and the engine tells nobody what its commands are given."""
    values = {"env": {"A": "b"}, "labels": {"team": "a"}, "profile": "coding"}
    assert made(name="one", **values) == made(name="two")
    assert made()["Labels"] == {"egress.role": "sandbox", "egress.lease": "/run/boxes/l.lease"}
    assert "Env" not in made()


def test_what_its_operator_wants_it_run_with_is_passed_on() -> None:
    spec = Spec(name="one", image="any")
    usual = host(config(spec, PLACING, ()))
    assert (usual["Runtime"], usual["SecurityOpt"]) == ("", ["no-new-privileges:true"])
    placing = replace(PLACING, isolation=Isolation("runsc", "{}"))
    found = host(config(spec, placing, ()))
    assert (found["Runtime"], found["SecurityOpt"]) == ("runsc", ["no-new-privileges:true", "seccomp={}"])


def test_all_that_is_mounted_was_named() -> None:
    mounts = (Mount(source=Path("/data"), target="/data", writable=True),)
    found = host(made(mounts=mounts))["Mounts"]
    assert isinstance(found, list)
    assert [(each["Type"], each["Source"], each["Target"], each.get("ReadOnly")) for each in found] == [
        ("bind", "/run/boxes/1/files/0", "/etc/resolv.conf", True),
        ("bind", "/data", "/data", False),
        ("volume", "volume", "/workspace", None),
    ]
    assert all(each["BindOptions"]["NonRecursive"] for each in found[:2])


@pytest.mark.parametrize("read_only", [True, False])
def test_read_only_leaves_a_folder_for_what_is_temporary(read_only: bool) -> None:
    found = host(made(read_only=read_only))
    assert found["ReadonlyRootfs"] is read_only
    assert set(in_memory(read_only=read_only)) == ({"/tmp"} if read_only else set())


DISK = SandboxLimits(memory_mib=64, disk_mib=10, temporary_mib=3)
HERE = Path("/data")


def in_memory(**values: object) -> Json:
    """Without what every one has."""
    found = host(made(**values))["Tmpfs"]
    assert isinstance(found, dict)
    return {place: options for place, options in found.items() if place != "/dev/shm"}


def test_a_bounded_disk_is_of_memory_that_is_there_besides() -> None:
    found = host(made(user=7, group=8, limits=DISK))
    assert found["ReadonlyRootfs"] is True
    assert in_memory(user=7, group=8, limits=DISK) == {
        "/tmp": "rw,exec,nosuid,nodev,size=3m,nr_inodes=768,mode=1777",
        "/workspace": "rw,exec,nosuid,nodev,size=10m,nr_inodes=2560,mode=0755,uid=7,gid=8",
    }
    assert found["Memory"] == found["MemorySwap"] == tmpfs.memory_limit(DISK)


@pytest.mark.parametrize("values", [{}, {"read_only": True}, {"limits": DISK}])
def test_shared_memory_ends_in_size_and_in_number(values: dict[str, object]) -> None:
    found = host(made(**values))["Tmpfs"]
    assert isinstance(found, dict)
    assert {"size=64m", "nr_inodes=1024", "noexec"} <= set(found["/dev/shm"].split(","))
    mounts = (Mount(source=HERE, target="/dev/shm"),)
    assert "/dev/shm" not in set(host(made(mounts=mounts, **values))["Tmpfs"])  # type: ignore[call-overload]


def test_where_the_working_folder_is_mounted_the_disk_is_a_home() -> None:
    mounts = (Mount(source=HERE, target="/workspace"),)
    assert set(in_memory(limits=DISK, mounts=mounts)) == {"/tmp", "/home/sandbox"}
    assert set(in_memory(limits=DISK, mounts=mounts, read_only=True)) == {"/tmp"}
    both = (*mounts, Mount(source=HERE, target="/home"))
    assert set(in_memory(limits=DISK, mounts=both)) == {"/tmp"}


@pytest.mark.parametrize("values", [{"limits": DISK}, {"read_only": True}])
def test_what_is_mounted_is_not_covered_by_memory(values: dict[str, object]) -> None:
    mounts = (Mount(source=HERE, target="/tmp/"),)
    assert "/tmp" not in in_memory(mounts=mounts, **values)


@pytest.mark.parametrize(
    ("values", "home"),
    [
        ({}, None),
        ({"read_only": True}, None),
        ({"limits": DISK}, "/workspace"),
        ({"limits": DISK, "workdir": "/work/"}, "/work"),
        ({"limits": DISK, "env": {"HOME": "/mine"}}, "/mine"),
        ({"limits": DISK, "read_only": True}, None),
        ({"limits": DISK, "mounts": (Mount(source=HERE, target="/workspace"),)}, "/home/sandbox"),
    ],
)
def test_who_has_a_bounded_disk_has_a_home_on_it(values: dict[str, object], home: str | None) -> None:
    spec = Spec(**{"name": "one", "image": "any", **values})  # type: ignore[arg-type]
    assert variables(spec, OUTFIT).get("HOME") == home


def test_what_an_image_declares_as_a_volume_is_shown_to_be_read() -> None:
    """An engine would let each be written, on its disk."""
    volumes = ("/data/", "/workspace", "/tmp", "/more")
    spec = Spec(name="one", image="any", limits=DISK, mounts=(Mount(source=HERE, target="/more/"),))
    assert volumes_to_cover(spec, volumes) == ("/data",)
    assert volumes_to_cover(replace(spec, limits=SandboxLimits(), read_only=True), volumes) == ("/data",)
    assert volumes_to_cover(replace(spec, limits=SandboxLimits()), volumes) == ()
    elsewhere = replace(spec, mounts=(Mount(source=HERE, target="/workspace"),))
    assert volumes_to_cover(elsewhere, ("/home/sandbox", "/home")) == ("/home",)
    placing = replace(PLACING, shown={"/data": "shown"})
    mounted = host(config(spec, placing, ()))["Mounts"]
    assert isinstance(mounted, list)
    assert mounted[-1] == {"Type": "volume", "Source": "shown", "Target": "/data", "ReadOnly": True}


@pytest.mark.parametrize(
    ("target", "is_own"), [("/workspace", False), ("/", False), ("/workspace/sub", True), ("/work", True)]
)
def test_a_mount_in_its_place_is_the_workspace(target: str, is_own: bool) -> None:
    spec = Spec(name="one", image="any", mounts=(Mount(source=Path("/data"), target=target),))
    assert has_own_workspace(spec) is is_own


def test_what_the_engine_is_told_can_be_written() -> None:
    assert json.loads(json.dumps(made()))
