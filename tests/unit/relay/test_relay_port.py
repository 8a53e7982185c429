"""The relay is what its halves ask for."""

from __future__ import annotations

from egress.relay.relay_port import RelayPort, UpstreamConnections
from tests.unit.relay.wires import Lab


def test_a_relay_is_a_hub_and_keeps_connections() -> None:
    relay = Lab().relay
    hub: RelayPort = relay
    connections: UpstreamConnections = relay.upstreams
    assert hub.upstreams is connections
