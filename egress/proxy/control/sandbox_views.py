"""The sandboxes of a running proxy, as its status shows them: names and numbers, never a secret's value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from egress.proxy.control import rule_warnings
from egress.proxy.lanes.engine import ProxyEngine


def sandbox_views(
    engine: ProxyEngine,
    listeners: Callable[[str], Mapping[str, object]],
    connections: Callable[[str], int],
    grants: Callable[[str], int],
) -> list[dict[str, object]]:
    """Return every sandbox, by name; the functions tell the listeners and the counts of one."""
    # Worked out once: a cluster may have a thousand sandboxes.
    lacking = rule_warnings.unsignable_hosts(engine)
    carried = Counter(each.admitted.identity.sandbox for each in engine.live)
    views = []
    for name, sandbox in sorted(engine.sandboxes.items()):
        workload = sandbox.identity.workload
        views.append(
            {
                "name": name,
                "profile": sandbox.identity.profile,
                **({} if workload is None else {"workload": asdict(workload)}),
                **listeners(name),
                "connections": connections(name),
                "carried": carried[name],
                "grants": grants(name),
                "authority": sandbox.authority.fingerprint,
                "authority_until": moment(sandbox.authority.not_after),
                "authority_lacks": list(lacking.get(name, ())),
            }
        )
    return views


def moment(seconds: int) -> str:
    """Return a time as people and programs read it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
