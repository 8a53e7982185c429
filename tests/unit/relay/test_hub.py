"""The relay is what its halves ask for."""

from __future__ import annotations

from egress.relay.hub import Connections, Hub
from tests.unit.relay.wires import Lab


def test_a_relay_is_a_hub_and_keeps_connections() -> None:
    relay = Lab().relay
    hub: Hub = relay
    connections: Connections = relay.upstreams
    assert hub.upstreams is connections
