"""The network of one sandbox: nothing is in it but the sandbox and its door, and it leads nowhere.

`internal` takes the way out, `inhibit_ipv4` the address of the machine in it: with either alone a sandbox
reaches more. Version 6 of the protocol is off: old engines do not wall it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from egress.runtime.docker import labels
from egress.runtime.docker.engine import DockerEngine, Json
from egress.runtime.errors import EngineError

# Which addresses the network of a sandbox gets.
#
# Small ones out of a range that is reserved for tests of network devices (RFC 2544): no host of anybody has
#
# an
# address there. The machine itself gets no address and no route in them, so they may be used by others as
# well;
# only an address of the machine must not lie among them. It could answer for the gateway that there is not.
ADDRESS_POOL: Final = IPv4Network("198.18.0.0/15")
SUBNET_PREFIX_LENGTH: Final = 29
_LOCAL_ROUTES_PATH: Final = Path("/proc/net/fib_trie")


@dataclass(frozen=True, slots=True)
class NetworkAddresses:
    """Of one network."""

    subnet: IPv4Network

    @property
    def door(self) -> IPv4Address:
        # The first one is that of the gateway, which nobody has.
        return self.subnet[2]

    @property
    def sandbox(self) -> IPv4Address:
        return self.subnet[3]


def free_subnets(
    taken: Iterable[IPv4Network], pool: IPv4Network = ADDRESS_POOL
) -> Iterator[NetworkAddresses]:
    """Networks that overlap with none of these. They begin anywhere, so that two who look rarely meet."""
    there = list(taken)
    count = 1 << (SUBNET_PREFIX_LENGTH - pool.prefixlen)
    start = secrets.randbelow(count)
    step = 1 << (32 - SUBNET_PREFIX_LENGTH)
    for turn in range(count):
        first = int(pool.network_address) + (start + turn) % count * step
        subnet = IPv4Network((first, SUBNET_PREFIX_LENGTH))
        if not any(subnet.overlaps(other) for other in there):
            yield NetworkAddresses(subnet)
    raise EngineError("no addresses are left for another sandbox", "remove some")


def machine_addresses(path: Path = _LOCAL_ROUTES_PATH) -> list[IPv4Network]:
    """The addresses of this machine, each as a network of one. Raises `EngineError`."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise EngineError(
            "the addresses of this machine cannot be read", f"{path} is needed for it"
        ) from error
    found = set()
    address = ""
    for line in lines:
        text = line.strip()
        if text.startswith("|-- "):
            address = text.removeprefix("|-- ")
        elif text.startswith("/32 host LOCAL"):
            found.add(IPv4Network(address))
    return sorted(found)


NETWORK_OPTIONS: Final = {"com.docker.network.bridge.inhibit_ipv4": "true"}
_MAX_TRIES: Final = 50
_CREATE_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class BridgeNetwork:
    """One that exists."""

    id: str
    addresses: NetworkAddresses


def create(engine: DockerEngine, name: str, lease: str) -> BridgeNetwork:
    """Make a network. Raises `EngineError`, also where the engine made another one than it was asked for."""
    with _CREATE_LOCK:
        taken = [*machine_addresses(), *_used_subnets(engine.networks())]
        for number, addresses in enumerate(free_subnets(taken)):
            try:
                made = engine.create_network(
                    name, addresses.subnet, NETWORK_OPTIONS, labels.owner_labels(labels.ROLE_NETWORK, lease)
                )
                break
            except EngineError as error:
                # Somebody else was faster.
                if "overlap" not in error.message or number == _MAX_TRIES:
                    raise
        else:
            raise EngineError("no addresses are left for another sandbox", "remove some")
    try:
        _check_network(engine.inspect_network(made), addresses.subnet)
    except BaseException:
        engine.remove_network(made)
        raise
    return BridgeNetwork(made, addresses)


def _check_network(network: Json, subnet: IPv4Network) -> None:
    """Refuse a network that is another one: an engine may know less than was asked of it, and not say so."""
    options = network.get("Options")
    is_walled = network.get("Internal") is True and network.get("EnableIPv6") is False
    if not (is_walled and options == NETWORK_OPTIONS and list(_used_subnets([network])) == [subnet]):
        raise EngineError("the engine did not wall the network in", "use an engine of Docker, 20.10 or newer")


def _used_subnets(networks: list[Json]) -> Iterator[IPv4Network]:
    for network in networks:
        ipam = network.get("IPAM")
        configs = ipam.get("Config") if isinstance(ipam, dict) else None
        for config in configs if isinstance(configs, list) else ():
            text = str(config.get("Subnet", "")) if isinstance(config, dict) else ""
            if text and ":" not in text:
                yield IPv4Network(text, strict=False)
