"""Looks up the state of a proxy for its metrics, when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from egress import __version__
from egress.budgets.ledger import NO_AMOUNTS
from egress.proxy.control import rule_warnings
from egress.proxy.lanes.engine import ProxyEngine
from egress.proxy.lanes.tunnel_lane import TunnelConnection
from egress.proxy.status_metrics import AuditStatus, ProxyStatus
from egress.rules.decide.policy import Policy
from egress.rules.decide.price_table import MICRO_CENTS_PER_USD


class ConnectionCounter(Protocol):
    """The ingress, as it counts connections."""

    def connections(self, sandbox: str) -> int: ...


def look_up_status(
    engine: ProxyEngine,
    door: ConnectionCounter,
    policy: Policy,
    *,
    is_ready: bool,
    began: int,
    loaded: int,
    reloads: Mapping[str, int],
) -> ProxyStatus:
    """Return the state; `policy` is that of the rule files, the rest is what the control service knows."""
    specs = policy.secrets.values()
    lacks = engine.secrets.unavailable(specs, rule_warnings.unscrubbed_secrets(policy))
    lacking = {each.name for each in lacks}
    tunnels = sum(isinstance(carried, TunnelConnection) for carried in engine.live)
    flushed = engine.metrics.flushed
    # A budget that the rules no longer name is no series any more.
    charged = {name: engine.budgets.charged.get(name, NO_AMOUNTS) for name in engine.policy.budgets}
    return ProxyStatus(
        version=__version__,
        policy=policy,
        is_ready=is_ready,
        began=began,
        loaded=loaded,
        reloads=reloads,
        sandboxes=len(engine.sandboxes),
        connections=sum(door.connections(name) for name in engine.sandboxes),
        lanes={"full": len(engine.live) - tunnels, "tunnel": tunnels},
        available={spec.name: spec.name not in lacking for spec in specs},
        ages=engine.secrets.ages(specs),
        expiry=min((each.authority.not_after for each in engine.sandboxes.values()), default=None),
        budgets=engine.budgets.used(engine.policy),
        dollars={name: each.micro_cents / MICRO_CENTS_PER_USD for name, each in charged.items()},
        tokens={name: each.tokens for name, each in charged.items()},
        audit=AuditStatus.of(engine.audit, 0.0 if flushed is None else engine.clock.monotonic() - flushed),
    )
