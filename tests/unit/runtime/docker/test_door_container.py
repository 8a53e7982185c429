"""The container of a door, as the engine is asked for it."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

from egress.runtime.docker import door_container
from egress.runtime.docker.bridge_network import BridgeNetwork, NetworkAddresses


def test_a_door_has_nothing_but_its_folder() -> None:
    network = BridgeNetwork("net", NetworkAddresses(IPv4Network("198.18.0.8/29")))
    config = door_container.config("image", network, Path("/run/boxes/1/door"), "lease", has_ipv6=True)
    host = config["HostConfig"]
    assert isinstance(host, dict)
    assert config["User"] == "10001:10001"
    assert (host["CapDrop"], host["ReadonlyRootfs"], host["AutoRemove"]) == (["ALL"], True, True)
    assert [(each["Source"], each["ReadOnly"]) for each in host["Mounts"]] == [("/run/boxes/1/door", True)]
    assert host["Sysctls"]["net.ipv4.ip_forward"] == "0"
    assert host["Sysctls"]["net.ipv6.conf.all.disable_ipv6"] == "1"
    assert "Env" not in config
    without = door_container.config("image", network, Path("/x"), "lease", has_ipv6=False)["HostConfig"]
    assert isinstance(without, dict)
    assert not any("ipv6" in name for name in without["Sysctls"])


def test_the_program_needs_no_more_than_the_standard_library() -> None:
    text = door_container.PROGRAM_FILE.read_text(encoding="utf-8")
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert imports == ["from __future__ import annotations", "import socket", "import sys"]
