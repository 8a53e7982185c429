"""The network of one sandbox: nothing is in it but the sandbox and its door, and it leads nowhere.

`internal` takes the way out, `inhibit_ipv4` the address of the machine in it: with either alone a sandbox
reaches more. Version 6 of the protocol is off: old engines do not wall it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

from egress.runtime.docker import labels, subnets
from egress.runtime.docker.engine import Engine, Json
from egress.runtime.docker.subnets import Addresses
from egress.runtime.errors import EngineError

OPTIONS: Final = {"com.docker.network.bridge.inhibit_ipv4": "true"}
_MOST_TRIES: Final = 50
_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Network:
    """One that exists."""

    id: str
    addresses: Addresses


def create(engine: Engine, name: str, lease: str) -> Network:
    """Make a network. Raises `EngineError`, also where the engine made another one than it was asked for."""
    with _ONE_AT_A_TIME:
        taken = [*subnets.of_machine(), *_subnets(engine.networks())]
        for number, addresses in enumerate(subnets.free(taken)):
            try:
                made = engine.create_network(
                    name, addresses.subnet, OPTIONS, labels.marked(labels.ROLE_NETWORK, lease)
                )
                break
            except EngineError as error:
                # Somebody else was faster.
                if "overlap" not in error.message or number == _MOST_TRIES:
                    raise
        else:
            raise EngineError("no addresses are left for another sandbox", "remove some")
    try:
        _check(engine.inspect_network(made), addresses.subnet)
    except BaseException:
        engine.remove_network(made)
        raise
    return Network(made, addresses)


def _check(network: Json, subnet: IPv4Network) -> None:
    """Refuse a network that is another one: an engine may know less than was asked of it, and not say so."""
    options = network.get("Options")
    is_walled = network.get("Internal") is True and network.get("EnableIPv6") is False
    if not (is_walled and options == OPTIONS and list(_subnets([network])) == [subnet]):
        raise EngineError("the engine did not wall the network in", "use an engine of Docker, 20.10 or newer")


def _subnets(networks: list[Json]) -> Iterator[IPv4Network]:
    for network in networks:
        ipam = network.get("IPAM")
        configs = ipam.get("Config") if isinstance(ipam, dict) else None
        for config in configs if isinstance(configs, list) else ():
            text = str(config.get("Subnet", "")) if isinstance(config, dict) else ""
            if text and ":" not in text:
                yield IPv4Network(text, strict=False)
