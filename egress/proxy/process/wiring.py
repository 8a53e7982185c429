"""From settings and rules to a proxy that is wired and not yet open.

Everything that is made here is handed to what needs it; nothing looks anything up again. This loads
mitmproxy, so it is imported when a proxy starts and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from egress.audit import key as audit_key
from egress.audit.budget_journal import BudgetJournal
from egress.audit.inflight import MAX_SLOTS
from egress.audit.log_opening import open_log
from egress.audit.sink import Sink
from egress.audit.writer import forget_line
from egress.ca.authority import Authority
from egress.ca.constraints import Constraints
from egress.ca.store import AuthorityStore
from egress.errors import UsageError
from egress.handlers.caller import NO_HANDLERS, HandlerCaller
from egress.handlers.opening import open_handlers, refuse_unknown_handlers
from egress.kubernetes.pod_identity import API_SERVER_VARIABLE
from egress.proxy.clock import Clock
from egress.proxy.control.dynamic_sandboxes import DynamicSandboxes
from egress.proxy.control.metrics_guard import (
    MetricsGuard,
    SandboxPlace,
    place_of,
    plain_address,
    standing_in_cluster,
)
from egress.proxy.dns.name_servers import NameServers
from egress.proxy.ingress.configured_listeners import authentication_of
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.ingress.local_tickets import LocalTickets
from egress.proxy.ingress.ports import Lanes
from egress.proxy.ingress.server import IngressServer
from egress.proxy.lanes.denial_lane import DenialLane
from egress.proxy.lanes.dial import Dialer
from egress.proxy.lanes.engine import IdGenerator, LimitCounters, ProxyEngine, ServedSandbox
from egress.proxy.lanes.intercept_lane import InterceptLane
from egress.proxy.lanes.intercept_limits import InterceptLimits
from egress.proxy.lanes.local_addresses import LocalAddresses
from egress.proxy.lanes.resolve import FixedResolver, SystemResolver
from egress.proxy.lanes.tunnel_lane import TunnelLane, TunnelTimeouts
from egress.proxy.process.descriptor_limit import (
    ConnectionCapacity,
    fit_capacity,
    raise_descriptor_limit,
    requested_capacity,
)
from egress.proxy.process.password_and_placeholder_key import read_or_make_key, read_password
from egress.proxy.settings import Settings
from egress.relay.limits import RelayLimits
from egress.rules.decide.policy import Policy
from egress.rules.language.hosts import is_address
from egress.secrets import CapturedEnvironment
from egress.secrets import SecretResolver as Secrets
from egress.secrets.cluster_secret import ClusterSecrets
from egress.shares.pool import Capacity, SharePool
from egress.telemetry.telemetry_export import TelemetryExport
from egress.tls.contexts import UpstreamContexts
from egress.tls.roots import trusted_roots
from egress.types import Identity

if TYPE_CHECKING:
    from egress.proxy.pods.cluster_assembly import ClusterPods

_log = structlog.get_logger(__name__)

_KEEP_ALIVE_SECONDS = 120.0
MAX_EXCHANGES = MAX_SLOTS * 3 // 4
"""Requests and tunnels of all sandboxes: each keeps its slot of the audit for a moment after its end."""
REQUESTS_PER_CONNECTION = 3
"""Requests of a sandbox for each connection that it may have, where no setting names a number."""


@dataclass(frozen=True, slots=True)
class ProxyParts:
    """A proxy, wired."""

    engine: ProxyEngine
    full: InterceptLane
    door: IngressServer
    names: NameServers
    pods: ClusterPods | None = None
    """Only in a cluster."""
    tickets: LocalTickets | None = None
    """The tickets of runs; None in a cluster, where they stand in annotations."""


def open_audit(values: Settings, clock: Clock, telemetry: TelemetryExport | None = None) -> Sink:
    """Open a chain of the audit log, which records what a process before this one lost.

    Each of its lines is exported, and each exchange, if there is an export.
    """
    # The key lies outside of the folder of the log: a reader of the log must not be able to forge it.
    place = values.audit_key or values.state_dir / "audit.key"
    log = open_log(
        values.audit_dir,
        audit_key.read_or_create(place, values.audit_dir),
        clock=clock,
        run=values.run_id,
        rotate_at=values.audit_rotate,
        keep=values.audit_keep,
        quota=values.audit_quota,
        on_full=values.audit_on_full,
        on_line=telemetry.line if telemetry else forget_line,
    )
    if telemetry is not None:
        log.on_exchange = telemetry.exchange
    return log


async def open_proxy(
    values: Settings, policy: Policy, captured: CapturedEnvironment, audit: Sink, clock: Clock
) -> ProxyParts:
    """Load the handlers, and make everything. Raises `EgressError` for handlers that cannot be used."""
    handlers = await open_handlers(values.handlers, in_process=values.handlers_in_process)
    try:
        # At the start a name that is missing is a mistake; later its requests are denied.
        refuse_unknown_handlers(policy, handlers.outbound)
        return wire_proxy(values, policy, captured, audit, clock, handlers)
    except BaseException:
        await handlers.close()
        raise


def wire_proxy(
    values: Settings,
    policy: Policy,
    captured: CapturedEnvironment,
    audit: Sink,
    clock: Clock,
    handlers: HandlerCaller = NO_HANDLERS,
) -> ProxyParts:
    """Make everything. Must be called inside of a running loop."""
    # From the inside out: the dialer belongs to the engine, the engine to the lanes, the lanes to the
    # ingress.
    resolver = FixedResolver(_overrides(values), SystemResolver(clock.monotonic))
    room = _room(values)
    own = LocalAddresses(clock.monotonic, _own_addresses(values, policy, captured.environ))
    engine = ProxyEngine(
        clock=clock,
        policy=policy,
        secrets=Secrets(
            clock=clock,
            captured=captured,
            container=values.container,
            cluster=_cluster_secrets(values, captured),
        ),
        audit=audit,
        dialer=Dialer(resolver, own, clock),
        counts=LimitCounters(clock),
        new_id=IdGenerator(),
        ledger=BudgetJournal(audit.folder).open(clock.now()),
        pool=_pool(values, room),
        handlers=handlers,
    )
    sandbox = open_sandbox(values, policy, clock)
    engine.sandboxes[sandbox.identity.sandbox] = sandbox
    upstream = UpstreamContexts(trusted_roots(values.upstream_ca))
    pods = _pods(values, engine, sandbox, captured.environ) if values.kubernetes else None
    peers = pods.sandboxes if pods else None
    full = InterceptLane(engine, upstream, _full_limits(values, engine.pool), _pins(values))
    tunnel = TunnelLane(engine, TunnelTimeouts(values.connect_timeout, values.idle_timeout), engine.metrics)
    denial = DenialLane(full) if values.denied_tls == "page" else None
    lanes = Lanes(tunnel=tunnel.carry, full=full.carry, denial=denial)
    limits = IngressLimits(head_time=values.head_timeout)
    tickets = None if pods else LocalTickets(engine)
    door = IngressServer(engine, lanes, limits, engine.metrics, peers, pods.tickets if pods else tickets)
    # A denied name leads to the proxy only where a page is served there.
    explains = door.explains if values.denied_dns == "page" else None
    names = NameServers(engine, engine.metrics, explains, peers)
    if peers:
        peers.attach(door, names)
    return ProxyParts(engine, full, door, names, pods, tickets)


def _pods(
    values: Settings, engine: ProxyEngine, own: ServedSandbox, environ: Mapping[str, str]
) -> ClusterPods:
    # Imported here: a proxy outside of a cluster does not wait for it.
    from egress.proxy.pods.cluster_assembly import open_pods  # noqa: PLC0415

    return open_pods(engine, own, values.service_account, environ)


def _cluster_secrets(values: Settings, captured: CapturedEnvironment) -> ClusterSecrets | None:
    """The Secrets of the namespace of this pod; None where this process is no pod."""
    if API_SERVER_VARIABLE not in captured.environ:
        return None
    # Imported here: a proxy outside of a cluster does not wait for it.
    from egress.cluster.api_server import cluster_of_pod  # noqa: PLC0415
    from egress.cluster.secret_watches import SecretWatches  # noqa: PLC0415

    try:
        api = cluster_of_pod(captured.environ, values.service_account)
    except UsageError as error:
        _log.info("cluster.unused", cause=error.message)
        return None
    return SecretWatches(api, lambda cause: _log.warning("secret.unwatched", cause=cause))


def open_sandbox(values: Settings, policy: Policy, clock: Clock) -> ServedSandbox:
    """Return the sandbox behind the listeners, with the authority and the stand-ins it had before."""
    identity = Identity(values.sandbox, values.profile)
    if values.authority_file is not None:
        authority = Authority.load_mounted(values.authority_file, clock.now())
    else:
        constraints = Constraints.for_policy(policy, identity) if values.ca_constrain else None
        store = AuthorityStore(values.state_dir / "ca")
        authority = store.open(
            values.sandbox, clock.now(), constraints, rules=values.rules, profile=values.profile
        )
    key = read_or_make_key(values.state_dir / "placeholders" / f"{values.sandbox}.key")
    return ServedSandbox(identity, authority, key)


def password_of(path: Path | None) -> bytes:
    """The digest of the password that clients have to give; empty where they need none."""
    return read_password(path) if path is not None else b""


def metrics_guard(
    values: Settings, parts: ProxyParts, sandboxes: DynamicSandboxes | None = None
) -> MetricsGuard:
    """The guard of the metrics listener. Raises `EgressError` for a token that cannot be used.

    The `sandboxes` that were added are known also while they are revoked, and nobody serves their listeners.
    """
    path = values.metrics_token_file
    option, is_mounted = "--metrics-token-file", values.kubernetes
    token = b"" if path is None else read_password(path, option, is_mounted=is_mounted)
    # Those of the settings are sandboxes also while they are revoked, and have no listener.
    hosts = [at.host for at in (*values.listen, *values.dns)] + [str(at) for at in values.transparent]
    configured = [SandboxPlace(authentication_of(values), plain_address(host)) for host in hosts]

    def places() -> tuple[SandboxPlace, ...]:
        revoked = () if sandboxes is None else sandboxes.kept_listeners()
        return (*configured, *map(place_of, (*parts.door.listeners, *revoked)))

    if parts.pods is None:
        return MetricsGuard(places, token, values.metrics_allow)
    find = parts.pods.identities.find
    return MetricsGuard(
        places, token, values.metrics_allow, in_cluster=lambda address: standing_in_cluster(find(address))
    )


def _own_addresses(values: Settings, policy: Policy, environ: Mapping[str, str]) -> list[str]:
    """The addresses that no interface shows: those of the settings, and the API server's if it is asked."""
    found = [str(network) for network in values.own_address]
    host = environ.get(API_SERVER_VARIABLE, "")
    asks = (
        values.kubernetes
        or values.rules_configmap
        or any(spec.scheme == "k8s" for spec in policy.secrets.values())
    )
    return [*found, host] if asks and is_address(host) else found


def _overrides(values: Settings) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for override in values.resolve:
        found.setdefault(override.name, []).append(str(override.address))
    return found


def _pins(values: Settings) -> dict[str, frozenset[str]]:
    hosts = {pin.host for pin in values.pin}
    return {host: frozenset(pin.key for pin in values.pin if pin.host == host) for host in hosts}


def _room(values: Settings) -> ConnectionCapacity:
    """As many connections as the settings ask for and the system has descriptors for."""
    limit, asked = (
        raise_descriptor_limit(),
        requested_capacity(values.connections, values.sandbox_connections),
    )
    # Fewer connections from the start are better than an accept that fails under load.
    room = fit_capacity(asked, limit)
    if (room.clients, room.clients_of_sandbox) != (asked.clients, asked.clients_of_sandbox):
        _log.warning(
            "descriptors.few",
            limit=limit,
            connections=room.clients,
            sandbox_connections=room.clients_of_sandbox,
            hint="raise the hard limit of open files (ulimit -Hn), or ask for fewer with --connections",
        )
    return room


def _pool(values: Settings, room: ConnectionCapacity) -> SharePool:
    """The shares of sandboxes: of connections as far as there are descriptors, of requests as asked for."""
    requests = values.sandbox_requests or REQUESTS_PER_CONNECTION * values.sandbox_connections
    return SharePool(
        clients=Capacity(room.clients, room.clients_of_sandbox),
        upstreams=Capacity(room.upstreams, room.upstreams_of_sandbox),
        # Four sandboxes may have all that each of them may have, as long as the audit has slots for it.
        exchanges=Capacity(min(4 * requests, MAX_EXCHANGES), requests),
    )


def _full_limits(values: Settings, pool: SharePool) -> InterceptLimits:
    relay = RelayLimits(
        head=values.head_timeout,
        keep_alive=min(_KEEP_ALIVE_SECONDS, values.idle_timeout),
        response_head=values.answer_timeout,
        silence=values.idle_timeout,
        strict_tls_end=values.strict_tls_end,
        pool=pool,
    )
    # As long again for the handshake as for the connection.
    return InterceptLimits(dial=values.connect_timeout, upstream_open=2 * values.connect_timeout, relay=relay)
