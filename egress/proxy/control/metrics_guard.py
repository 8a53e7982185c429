"""Decides who may scrape the metrics over TCP: never a sandbox, and from elsewhere only those that are named.

A peer is judged before a byte is read: by its address, and a program of this machine by its user. Sandboxes
follow from the listeners, since the client of a listener is its sandbox.

    in a network that a listener serves      refused, whatever it sends
    a program that can be a local sandbox    needs the token; refused where there is none
    another program of this machine          welcome; needs the token where there is one
    another machine                          needs the token, or an address that is allowed, or both
    the pod of a sandbox, in a cluster       refused, whatever it sends
    an address behind which any pod may be   needs the token, beside all that is said above

Any doubt refuses.
"""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
)
from typing import Final

from egress.kubernetes.pod_identity import IdentityFault, PodIdentity
from egress.proxy.ingress.listener import Authentication, Listener, password_digest
from egress.proxy.ingress.peer_uid import owner_of
from egress.proxy.lanes.local_addresses import interface_addresses
from egress.types import Headers

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network

_BEARER_SCHEME: Final = "bearer "
_NETNS_COOKIE: Final = 71
"""SO_NETNS_COOKIE: the number of the network namespace that a socket is in."""
_COOKIE_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class SandboxPlace:
    """A place where a sandbox comes in: what its listener says about it."""

    authentication: Authentication
    address: Address | None
    """The address that the listener is bound to; None where it cannot be told."""
    owner: int = field(default_factory=os.geteuid)
    """The user that is the sandbox, where users are told apart."""
    namespace: bytes | None = None
    """The network namespace that the listener is in; None where it cannot be told."""


class ScrapeStanding(Enum):
    """How a peer stands before it has said anything."""

    REFUSED = "refused"
    NEEDS_TOKEN = "needs the token"
    WELCOME = "welcome"


def standing_in_cluster(found: PodIdentity | IdentityFault) -> ScrapeStanding:
    """Judge a peer by what the cluster says about its address: a pod with doubts is a sandbox."""
    if found in (IdentityFault.UNKNOWN, IdentityFault.UNOWNED):
        return ScrapeStanding.WELCOME
    if found in (IdentityFault.STALE, IdentityFault.NAT, IdentityFault.HOST_NETWORK):
        return ScrapeStanding.NEEDS_TOKEN
    return ScrapeStanding.REFUSED


class MetricsGuard:
    """Judges the peers of the metrics listener."""

    def __init__(
        self,
        places: Callable[[], Iterable[SandboxPlace]],
        token: bytes = b"",
        allowed: Sequence[Network] = (),
        *,
        interfaces: Callable[[], Iterable[str]] = interface_addresses,
        in_cluster: Callable[[str], ScrapeStanding] = lambda _: ScrapeStanding.WELCOME,
    ) -> None:
        """`places` are those of all sandboxes just now, `token` is the digest of the one to be given.

        `allowed` are the networks of other machines that may scrape. `in_cluster` judges an address by what
        the cluster says about it.
        """
        self._places = places
        self._token = token
        self._allowed = tuple(allowed)
        self._interfaces = interfaces
        self._in_cluster = in_cluster

    def standing(self, sock: socket.socket) -> ScrapeStanding:
        """Judge the peer of a connection."""
        try:
            peer, local = sock.getpeername()[:2], sock.getsockname()[:2]
            address = plain_address(peer[0])
            own = [ip_interface(text) for text in self._interfaces()]
        except (OSError, ValueError):
            return ScrapeStanding.REFUSED
        as_pod = self._in_cluster(str(address))
        if as_pod is ScrapeStanding.REFUSED or (as_pod is ScrapeStanding.NEEDS_TOKEN and not self._token):
            return ScrapeStanding.REFUSED
        places = tuple(self._places())
        if address.is_loopback or any(address == each.ip for each in own):
            can_be_sandbox = _can_be_local_sandbox(
                namespace_of(sock), places, own, lambda: owner_of(peer, local)
            )
            is_refused = can_be_sandbox and not self._token
        else:
            is_refused = self._is_refused_elsewhere(address, places, own)
        if is_refused:
            return ScrapeStanding.REFUSED
        return ScrapeStanding.NEEDS_TOKEN if self._token else ScrapeStanding.WELCOME

    def has_token(self, headers: Headers) -> bool:
        """Tell whether a request carries the token, once and in the one form."""
        given = [value for name, value in headers if name == "authorization"]
        if not self._token or len(given) != 1 or given[0][: len(_BEARER_SCHEME)].lower() != _BEARER_SCHEME:
            return False
        return hmac.compare_digest(password_digest(given[0][len(_BEARER_SCHEME) :]), self._token)

    def _is_refused_elsewhere(
        self, address: Address, places: Sequence[SandboxPlace], own: Sequence[Interface]
    ) -> bool:
        """Tell whether another machine is refused: a sandbox, or one that nobody has named."""
        is_named = any(address in network for network in self._allowed)
        for place in places:
            if place.authentication != "network":
                continue
            at = place.address
            # A listener on every address may serve any machine: only a name tells them apart.
            if at is None or (at.is_unspecified and not is_named):
                return True
            if at == address or any(at in each.network and address in each.network for each in own):
                return True
        return not is_named if self._allowed else not self._token


def _can_be_local_sandbox(
    here: bytes | None,
    places: Iterable[SandboxPlace],
    own: Sequence[Interface],
    user: Callable[[], int | None],
) -> bool:
    """Tell whether a listener could serve this program of this machine; `user` looks its user up."""
    owners = set()
    for place in places:
        # In another network namespace the same address is another one. Where that cannot be told, it is not.
        if None not in (here, place.namespace) and here != place.namespace:
            continue
        if place.authentication == "owner-uid":
            owners.add(place.owner)
        elif _is_of_this_machine(place.address, own):
            return True
    if not owners:
        return False
    found = user()
    return found is None or found in owners


def place_of(listener: Listener) -> SandboxPlace:
    """Return the place of an open listener."""
    try:
        address = plain_address(str(listener.sock.getsockname()[0]))
    except (OSError, ValueError):
        address = None
    return SandboxPlace(listener.authentication, address, listener.owner, namespace_of(listener.sock))


def plain_address(text: str) -> Address:
    """Return an address without its zone; a mapped one is the IPv4 address that it stands for."""
    found = ip_address(text.partition("%")[0])
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def namespace_of(sock: socket.socket) -> bytes | None:
    """Return what names the network namespace of a socket; None where the kernel does not tell."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _NETNS_COOKIE, _COOKIE_BYTES)
    except OSError:
        return None


def _is_of_this_machine(at: Address | None, own: Sequence[Interface]) -> bool:
    return at is None or at.is_loopback or at.is_unspecified or any(at == each.ip for each in own)
