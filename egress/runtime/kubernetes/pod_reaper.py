"""Removes the pods and claims that a dead runtime left, found by their label.

Each names the lease of its runtime. A lease of this folder that no process holds means that its runtime is
dead. Pods of other leases belong to other folders or machines: their runtimes remove them, or their deadline
does.
"""

from __future__ import annotations

from pathlib import Path

from egress.runtime.kubernetes.claims import Claims
from egress.runtime.kubernetes.pod_manifest import OWNER_LABEL
from egress.runtime.kubernetes.pods import Pods
from egress.runtime.owner_lock import is_held


def reap(pods: Pods, claims: Claims, home: Path) -> tuple[str, ...]:
    """Remove all leftovers; returns the names of the sandboxes among them."""
    dead = {lease.stem: lease for lease in home.glob("*.lease") if not is_held(lease)}
    if not dead:
        return ()
    left = []
    for kind in (pods, claims):
        for each in kind.labelled(OWNER_LABEL):
            if each.metadata.labels.get(OWNER_LABEL) in dead:
                kind.delete(each.metadata.name, each.metadata.uid)
                left.append(each.metadata.name)
    # Last: a lease that is gone tells nobody of its pods.
    for lease in dead.values():
        lease.unlink(missing_ok=True)
    return tuple(left)
