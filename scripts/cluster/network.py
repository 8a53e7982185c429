"""The networks of the node: a link to the machine, and a stand-in for the internet that answers everywhere.

Pods reach no network of the machine: the only way out leads to that stand-in.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Final

from scripts.cluster.addresses import (
    LINK,
    LINK_PREFIX,
    MACHINE_ADDRESS,
    NODE_ADDRESS,
    NODE_OUTSIDE_ADDRESS,
    OUTSIDE,
    OUTSIDE_ADDRESS,
    POD_RANGE,
)

UPLINK: Final = "machine"
WAIT_SECONDS: Final = 30.0
_NO_WAY_TO_THE_MACHINE: Final = f"""
table inet egress_node {{
  chain forward {{
    type filter hook forward priority -200; policy accept;
    oifname "{UPLINK}" drop
  }}
}}
"""


def link_to(process: int) -> None:
    """On the machine: make the link, and put its other end into the network namespace of a process."""
    _ip("link", "add", LINK, "type", "veth", "peer", "name", UPLINK, "netns", str(process))
    _ip("address", "add", f"{MACHINE_ADDRESS}/{LINK_PREFIX}", "dev", LINK)
    _ip("link", "set", LINK, "up")


def set_up() -> None:
    """On the node: its end of the link, the internet beyond it, and what bridged pods need."""
    _ip("link", "set", "lo", "up")
    _wait_for(UPLINK)
    _ip("address", "add", f"{NODE_ADDRESS}/{LINK_PREFIX}", "dev", UPLINK)
    _ip("link", "set", UPLINK, "up")
    subprocess.run(["nft", "-f", "-"], input=_NO_WAY_TO_THE_MACHINE, text=True, check=True)
    _make_outside()
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # Otherwise packets between two pods of one bridge pass no policy and no service.
    Path("/proc/sys/net/bridge/bridge-nf-call-iptables").write_text("1")


def _make_outside() -> None:
    _ip("netns", "add", OUTSIDE)
    _ip("link", "add", "wan", "type", "veth", "peer", "name", "wan", "netns", OUTSIDE)
    _ip("address", "add", f"{NODE_OUTSIDE_ADDRESS}/30", "dev", "wan")
    _ip("link", "set", "wan", "up")
    _ip("route", "add", "default", "via", OUTSIDE_ADDRESS)
    out = ("-n", OUTSIDE)
    _ip(*out, "link", "set", "lo", "up")
    _ip(*out, "address", "add", f"{OUTSIDE_ADDRESS}/30", "dev", "wan")
    _ip(*out, "link", "set", "wan", "up")
    # Every address is one of its own, so that it answers from that address; but for those behind the node.
    local = ("table", "local")
    _ip(*out, "route", "add", f"{NODE_OUTSIDE_ADDRESS}/32", "dev", "wan", "src", OUTSIDE_ADDRESS, *local)
    for behind in (POD_RANGE, f"{NODE_ADDRESS}/32"):
        _ip(*out, "route", "add", behind, "via", NODE_OUTSIDE_ADDRESS, *local)
    _ip(*out, "route", "add", "local", "default", "dev", "lo", *local)


def _wait_for(interface: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not _has(interface):
        if time.monotonic() > end:
            raise TimeoutError(f"the interface {interface} does not come")
        time.sleep(0.05)


def _has(interface: str) -> bool:
    return f"{interface}:" in Path("/proc/self/net/dev").read_text("ascii")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
