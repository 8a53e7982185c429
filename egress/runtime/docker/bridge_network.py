"""The network of one sandbox: an internal bridge that holds the sandbox and its door, and leads nowhere.

`internal` removes the route out, and `inhibit_ipv4` removes the host's own address: with only one of these a
sandbox reaches more. IPv6 is off, because old engines do not isolate it.
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

# Subnets come from the range reserved for network device tests (RFC 2544), in which no public host has an
# address. The host gets no address and no route in them, so subnets may be in use elsewhere. Only the host's
# own addresses must not lie in a subnet: the host could then answer for the gateway, which does not exist.
ADDRESS_POOL: Final = IPv4Network("198.18.0.0/15")
SUBNET_PREFIX_LENGTH: Final = 29
_LOCAL_ROUTES_PATH: Final = Path("/proc/net/fib_trie")


@dataclass(frozen=True, slots=True)
class NetworkAddresses:
    """The addresses of one network."""

    subnet: IPv4Network

    @property
    def door(self) -> IPv4Address:
        # The first address is reserved for the gateway, which does not exist.
        return self.subnet[2]

    @property
    def sandbox(self) -> IPv4Address:
        return self.subnet[3]


def free_subnets(
    taken: Iterable[IPv4Network], pool: IPv4Network = ADDRESS_POOL
) -> Iterator[NetworkAddresses]:
    """Free subnets, from a random start: two runtimes that search at once rarely collide."""
    used = list(taken)
    count = 1 << (SUBNET_PREFIX_LENGTH - pool.prefixlen)
    start = secrets.randbelow(count)
    step = 1 << (32 - SUBNET_PREFIX_LENGTH)
    for turn in range(count):
        first = int(pool.network_address) + (start + turn) % count * step
        subnet = IPv4Network((first, SUBNET_PREFIX_LENGTH))
        if not any(subnet.overlaps(other) for other in used):
            yield NetworkAddresses(subnet)
    raise EngineError("no subnet is free for another sandbox", "remove some sandboxes")


def machine_addresses(path: Path = _LOCAL_ROUTES_PATH) -> list[IPv4Network]:
    """The addresses of this host, each as a network of one address. Raises `EngineError`."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise EngineError("cannot read the addresses of this machine", f"check {path}") from error
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
    """A network that exists at the engine."""

    id: str
    addresses: NetworkAddresses


def create(engine: DockerEngine, name: str, lease: str) -> BridgeNetwork:
    """Create a network. Raises `EngineError`, also if the engine ignored a setting."""
    # Creation is serialised: two threads would otherwise choose from the same list of used subnets.
    with _CREATE_LOCK:
        taken = [*machine_addresses(), *_used_subnets(engine.networks())]
        for number, addresses in enumerate(free_subnets(taken)):
            try:
                made = engine.create_network(
                    name, addresses.subnet, NETWORK_OPTIONS, labels.owner_labels(labels.ROLE_NETWORK, lease)
                )
                break
            except EngineError as error:
                # The subnet was taken by another process first: try the next.
                if "overlap" not in error.message or number == _MAX_TRIES:
                    raise
        else:
            raise EngineError("no subnet is free for another sandbox", "remove some sandboxes")
    # Checked after creation: an engine that ignored a setting would leave a way out.
    try:
        check_isolated(engine.inspect_network(made), addresses.subnet)
    except BaseException:
        engine.remove_network(made)
        raise
    return BridgeNetwork(made, addresses)


def check_isolated(network: Json, subnet: IPv4Network) -> None:
    """Refuse a network with other settings than requested: old engines ignore unknown settings silently."""
    options = network.get("Options")
    is_walled = network.get("Internal") is True and network.get("EnableIPv6") is False
    if not (is_walled and options == NETWORK_OPTIONS and list(_used_subnets([network])) == [subnet]):
        raise EngineError("the engine did not isolate the network", "use Docker 20.10 or newer")


def _used_subnets(networks: list[Json]) -> Iterator[IPv4Network]:
    for network in networks:
        ipam = network.get("IPAM")
        configs = ipam.get("Config") if isinstance(ipam, dict) else None
        for config in configs if isinstance(configs, list) else ():
            text = str(config.get("Subnet", "")) if isinstance(config, dict) else ""
            if text and ":" not in text:
                yield IPv4Network(text, strict=False)
