"""From settings and rules to a proxy that is wired and not yet open.

Everything that is made here is handed to what needs it; nothing looks anything up again. This loads
mitmproxy, so it is imported when a proxy starts and by nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import structlog

from egress.addons.contexts import Upstream
from egress.addons.trust import trusted_roots
from egress.audit import key as audit_key
from egress.audit.sink import Sink
from egress.ca.constraints import Constraints
from egress.ca.store import Store
from egress.proxy.bounds import DoorLimits
from egress.proxy.clock import Clock
from egress.proxy.descriptors import Room, fitted, raised, wanted
from egress.proxy.dial import Dialer
from egress.proxy.door import Door
from egress.proxy.engine import Counts, Engine, Sandbox
from egress.proxy.full import FullLane
from egress.proxy.ids import Ids
from egress.proxy.interfaces import OwnAddresses
from egress.proxy.lane import FullLimits
from egress.proxy.names import Names
from egress.proxy.password import read_or_make_key, read_password
from egress.proxy.resolve import FixedResolver, SystemResolver
from egress.proxy.settings import Settings
from egress.proxy.tunnel import Patience
from egress.proxy.tunnelled import TunnelLane
from egress.proxy.wired import Lanes
from egress.relay.budget import Budgets
from egress.relay.limits import RelayLimits
from egress.rules.policy import Policy
from egress.secrets import Captured
from egress.secrets import Resolver as Secrets
from egress.types import Identity

_log = structlog.get_logger(__name__)

_KEEP_ALIVE = 120.0


@dataclass(frozen=True, slots=True)
class Parts:
    """A proxy, wired."""

    engine: Engine
    full: FullLane
    door: Door
    names: Names


def open_audit(values: Settings, clock: Clock) -> Sink:
    """Open the audit log, which records what a process before this one lost."""
    place = values.audit_key or values.state_dir / "audit.key"
    return Sink.open(
        values.audit_dir,
        audit_key.read_or_create(place, values.audit_dir),
        clock=clock,
        rotate_at=values.audit_rotate,
        keep=values.audit_keep,
        quota=values.audit_quota,
        on_full=values.audit_on_full,
    )


def wire(values: Settings, policy: Policy, captured: Captured, audit: Sink, clock: Clock) -> Parts:
    """Make everything. Must be called inside of a running loop."""
    resolver = FixedResolver(_overrides(values), SystemResolver(clock.monotonic))
    own = OwnAddresses(clock.monotonic, [str(network) for network in values.own_address])
    engine = Engine(
        clock=clock,
        policy=policy,
        secrets=Secrets(clock=clock, captured=captured, container=values.container),
        audit=audit,
        dialer=Dialer(resolver, own, clock),
        counts=Counts(clock),
        new_id=Ids(),
    )
    sandbox = open_sandbox(values, policy, clock)
    engine.sandboxes[sandbox.identity.sandbox] = sandbox
    upstream = Upstream(trusted_roots(values.upstream_ca))
    room = _room(values)
    full = FullLane(engine, upstream, _full_limits(values, room), _pins(values))
    tunnel = TunnelLane(engine, Patience(values.connect_timeout, values.idle_timeout), engine.metrics)
    limits = DoorLimits(
        connections=room.clients,
        sandbox_connections=room.clients_of_sandbox,
        head_time=values.head_timeout,
    )
    door = Door(engine, Lanes(tunnel=tunnel.carry, full=full.carry), limits, engine.metrics)
    return Parts(engine, full, door, Names(engine, engine.metrics))


def open_sandbox(values: Settings, policy: Policy, clock: Clock) -> Sandbox:
    """Return the sandbox behind the listeners, with the authority and the stand-ins it had before."""
    constraints = Constraints.for_policy(policy, values.profile) if values.ca_constrain else None
    store = Store(values.state_dir / "ca")
    authority = store.open(
        values.sandbox, clock.now(), constraints, rules=values.rules, profile=values.profile
    )
    key = read_or_make_key(values.state_dir / "placeholders" / f"{values.sandbox}.key")
    return Sandbox(Identity(values.sandbox, values.profile), authority, key)


def password_of(path: Path | None) -> bytes:
    """The digest of the password that clients have to give; empty where they need none."""
    return read_password(path) if path is not None else b""


def _overrides(values: Settings) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for override in values.resolve:
        found.setdefault(override.name, []).append(str(override.address))
    return found


def _pins(values: Settings) -> dict[str, frozenset[str]]:
    hosts = {pin.host for pin in values.pin}
    return {host: frozenset(pin.key for pin in values.pin if pin.host == host) for host in hosts}


def _room(values: Settings) -> Room:
    """As many connections as the settings ask for and the system has descriptors for."""
    limit, asked = raised(), wanted(values.connections, values.sandbox_connections)
    room = fitted(asked, limit)
    if (room.clients, room.clients_of_sandbox) != (asked.clients, asked.clients_of_sandbox):
        _log.warning(
            "descriptors.few",
            limit=limit,
            connections=room.clients,
            sandbox_connections=room.clients_of_sandbox,
            hint="raise the hard limit of open files (ulimit -Hn), or ask for fewer with --connections",
        )
    return room


def _full_limits(values: Settings, room: Room) -> FullLimits:
    relay = RelayLimits(
        head=values.head_timeout,
        keep_alive=min(_KEEP_ALIVE, values.idle_timeout),
        response_head=values.answer_timeout,
        silence=values.idle_timeout,
        budgets=Budgets(room.upstreams, room.upstreams_of_sandbox),
    )
    # As long again for the handshake as for the connection.
    return FullLimits(dial=values.connect_timeout, upstream_open=2 * values.connect_timeout, relay=relay)
