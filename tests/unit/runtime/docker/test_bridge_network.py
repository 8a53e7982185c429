"""A network is looked at before it is used: an engine that knows less than was asked of it is no wall."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network

import pytest

from egress.runtime.docker import bridge_network
from egress.runtime.docker.engine import DockerEngine, Json
from egress.runtime.errors import EngineError


class Engineer(DockerEngine):
    """Makes what it is told to, apart from what a test changes."""

    def __init__(self, failures: int = 0, changes: dict[str, object] | None = None) -> None:
        self.changes = changes or {}
        self.failures = failures
        self.made: dict[str, Json] = {}

    def networks(self) -> list[Json]:
        return list(self.made.values())

    def create_network(
        self, name: str, subnet: IPv4Network, options: Mapping[str, str], labels: Mapping[str, str]
    ) -> str:
        if self.failures:
            self.failures -= 1
            raise EngineError(
                "the engine did not make a network: Pool overlaps with other one on this address space"
            )
        self.made[name] = {
            "Id": name,
            "Internal": True,
            "EnableIPv6": False,
            "Options": dict(options),
            "Labels": dict(labels),
            "IPAM": {"Config": [{"Subnet": str(subnet)}]},
            **self.changes,
        }
        return name

    def inspect_network(self, network: str) -> Json:
        return self.made[network]

    def remove_network(self, network: str) -> None:
        del self.made[network]


def test_a_network_is_walled_in_and_marked() -> None:
    engine = Engineer()
    found = bridge_network.create(engine, "net", "lease")
    made = engine.made["net"]
    assert made["Options"] == {"com.docker.network.bridge.inhibit_ipv4": "true"}
    assert made["Labels"] == {"egress.role": "network", "egress.lease": "lease"}
    assert made["IPAM"] == {"Config": [{"Subnet": str(found.addresses.subnet)}]}


@pytest.mark.parametrize(
    "changes",
    [
        {"Internal": False}, {"EnableIPv6": True}, {"Options": {}}, {"Options": None},
        {"IPAM": {"Config": [{"Subnet": "10.0.0.0/8"}]}}, {"IPAM": {"Config": []}}, {"IPAM": None},
    ],
)  # fmt: skip
def test_another_one_than_was_asked_for_is_taken_away(changes: dict[str, object]) -> None:
    engine = Engineer(changes=changes)
    with pytest.raises(EngineError, match="did not isolate"):
        bridge_network.create(engine, "net", "lease")
    assert engine.made == {}


def test_addresses_that_somebody_else_took_are_left_to_him() -> None:
    assert bridge_network.create(Engineer(failures=3), "net", "lease").id == "net"
    with pytest.raises(EngineError, match="overlaps"):
        bridge_network.create(Engineer(failures=1000), "net", "lease")
