"""What every container is denied (S-51)."""

from __future__ import annotations

from egress.runtime.docker.hardening import bind_mount, hardened_config, network_config
from egress.runtime.open_file_limit import MAX_OPEN_FILES


def test_there_is_no_capability_and_no_way_to_one() -> None:
    found = hardened_config(2**20, 8, 0.5, has_ipv6=True)
    assert (found["Privileged"], found["CapAdd"], found["CapDrop"]) == (False, [], ["ALL"])
    assert found["SecurityOpt"] == ["no-new-privileges:true"]


def test_what_it_may_use_up_is_bounded() -> None:
    found = hardened_config(2**20, 8, 0.5, has_ipv6=True)
    assert found["Memory"] == found["MemorySwap"] == 2**20
    assert (found["PidsLimit"], found["NanoCpus"]) == (8, 500_000_000)
    assert found["LogConfig"] == {"Type": "none"}
    assert found["Ulimits"] == [
        {"Name": "core", "Soft": 0, "Hard": 0},
        {"Name": "nofile", "Soft": MAX_OPEN_FILES, "Hard": MAX_OPEN_FILES},
    ]


def test_it_shares_nothing_and_never_comes_back_by_itself() -> None:
    found = hardened_config(2**20, 8, 0.5, has_ipv6=True)
    assert (found["IpcMode"], found["CgroupnsMode"]) == ("private", "private")
    assert (found["PublishAllPorts"], found["RestartPolicy"]) == (False, {"Name": "no"})


def test_ipv6_is_off_where_there_is_any() -> None:
    on = hardened_config(1, 1, 1, has_ipv6=True)["Sysctls"]
    assert on == {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
    assert hardened_config(1, 1, 1, has_ipv6=False)["Sysctls"] == {}


def test_a_mount_can_be_written_only_where_it_is_said() -> None:
    assert bind_mount("/a", "/b")["ReadOnly"] is True
    assert bind_mount("/a", "/b", writable=True)["ReadOnly"] is False


def test_an_address_is_in_one_network() -> None:
    assert network_config("n", "a") == {"EndpointsConfig": {"n": {"IPAMConfig": {"IPv4Address": "a"}}}}
