"""Detect broken IPv6: names have IPv6 addresses, but connections to them fail.

The proxy copes, because it tries the families in turn. Each new connection loses a part of a second, and
programs that only try IPv6 fail. So hosts that answer over IPv4 are tried again over IPv6 alone; no data is
sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from egress.doctor.diagnosis import Diagnosis, Level, list_some, note, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.upstreams import ProbeResult, ProbeTarget, dialer_of, targets
from egress.proxy.lanes.dial import DialError
from egress.proxy.lanes.resolve import FixedResolver, NameResolver, UnresolvedError
from egress.rules.language.hosts import is_address

CONNECT_TIMEOUT: Final = 3.0
MAX_HOSTS: Final = 4
"""Hosts that are tried: a single answer is proof enough."""


async def check(
    setup: ProxyUnderCheck, resolver: NameResolver, reached: Sequence[ProbeResult]
) -> list[Diagnosis]:
    """Check the hosts that answered."""
    # Hosts that do not answer at all would be blamed on IPv6.
    answering = {one.diagnosis.name for one in reached if one.diagnosis.level is Level.OK}
    if not answering:
        return []
    found: list[tuple[ProbeTarget, tuple[str, ...]]] = []
    for target in targets(setup):
        sixes = await _sixes(target, resolver) if target.name in answering else ()
        if sixes:
            found.append((target, sixes))
        if len(found) == MAX_HOSTS:
            break
    if not found:
        return [note("IPv6", "not tried: no answering host has addresses of both families")]
    tried = await asyncio.gather(*(_connects(setup, resolver, *one) for one in found))
    names = [target.destination.host for target, _ in found]
    # A single connection proves the route: the other hosts may have broken IPv6 of their own.
    if any(tried):
        working = [name for name, works in zip(names, tried, strict=True) if works]
        return [ok("IPv6", f"connects to {list_some(working)}")]
    return [
        warning(
            "IPv6",
            f"{list_some(names)} have IPv6 addresses but answer only over IPv4: new connections "
            f"may be delayed",
            "configure an IPv6 route, or turn IPv6 off: `sysctl net.ipv6.conf.all.disable_ipv6=1`",
        )
    ]


async def _sixes(target: ProbeTarget, resolver: NameResolver) -> tuple[str, ...]:
    """Return the IPv6 addresses of a host that has addresses of both families."""
    # An address has a single family by definition.
    if is_address(target.destination.host):
        return ()
    try:
        addresses = await resolver.resolve(target.destination.host)
    except UnresolvedError:
        return ()
    sixes = tuple(address for address in addresses if ":" in address)
    return sixes if len(sixes) < len(addresses) else ()


async def _connects(
    setup: ProxyUnderCheck, resolver: NameResolver, target: ProbeTarget, sixes: tuple[str, ...]
) -> bool:
    # A resolver that knows only IPv6 addresses binds the dialer to this family.
    dialer = dialer_of(setup, FixedResolver({target.destination.host: sixes}, resolver))
    end = setup.clock.monotonic() + CONNECT_TIMEOUT
    try:
        connected = await dialer.connect(target.destination, target.decision, deadline=end)
    except DialError:
        return False
    connected.socket.close()
    return True
