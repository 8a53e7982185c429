"""The next hop out of a pod, read from the kernel's tables."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

from egress.proxy.pods.node_gateway import read_gateways

IPV4 = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100F40A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000F40A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
ZERO = "0" * 32
IPV6 = f"""\
fd000000000000000000000000000000 40 {ZERO} 00 {ZERO} 00000100 00000001 00000000 00000001 eth0
{ZERO} 00 {ZERO} 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003 eth0
{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200 lo
"""


def test_the_gateways_of_both_families_are_found(tmp_path: Path) -> None:
    (tmp_path / "4").write_text(IPV4)
    (tmp_path / "6").write_text(IPV6)
    found = read_gateways(tmp_path / "4", tmp_path / "6")
    assert found == (ip_network("10.244.0.1"), ip_network("fd00::1"))


def test_a_network_without_a_protocol_or_a_gateway_has_none(tmp_path: Path) -> None:
    (tmp_path / "4").write_text(IPV4.splitlines()[0])
    assert read_gateways(tmp_path / "4", tmp_path / "none") == ()
