"""Removes the pods and claims that a dead runtime left, found by their label.

Each names the lease of its runtime. A lease of this folder that no process holds means that its runtime is
dead. Pods of other leases belong to other folders or machines: their runtimes remove them, or their deadline
does.

Kept ones have the label of the folder, and wait for the next owner of the kept lease. That owner alone
removes those that have no record.
"""

from __future__ import annotations

from pathlib import Path

from egress.runtime.kubernetes.claims import Claims
from egress.runtime.kubernetes.kept_pods import KeptPods
from egress.runtime.kubernetes.pod_manifest import OWNER_LABEL
from egress.runtime.kubernetes.pods import Pods
from egress.runtime.owner_lock import is_held, kept_lease


def reap(pods: Pods, claims: Claims, home: Path) -> tuple[str, ...]:
    """Remove all leftovers; returns the names of the sandboxes among them."""
    leases = (lease for lease in home.glob("*.lease") if lease != kept_lease(home))
    dead = {lease.stem: lease for lease in leases if not is_held(lease)}
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


def reap_unkept(pods: Pods, claims: Claims, kept: KeptPods, now: float) -> None:
    """Remove what the last owner of the kept lease left without a record, and what is over by now."""
    uids: dict[str, str] = {}
    for record in kept.records():
        if record.is_over(now):
            # The record first: half a sandbox is never taken over.
            kept.remove(record.name)
        else:
            uids[record.name] = record.claim or record.uid
    for kind in (pods, claims):
        for each in kind.labelled(f"{OWNER_LABEL}={kept.owner}"):
            name, uid = each.metadata.name, each.metadata.uid
            # A record that cannot be read keeps its pod: only the operator knows what it was.
            if not kept.has(name) or uids.get(name, uid) != uid:
                kind.delete(name, uid)


def remove_kept(pods: Pods, claims: Claims, kept: KeptPods) -> None:
    """Remove everything that was kept in this namespace, with its records."""
    for record in kept.records():
        if record.claim:
            claims.delete(record.name, record.claim)
        else:
            pods.delete(record.pod, record.uid)
    for kind in (pods, claims):
        for each in kind.labelled(f"{OWNER_LABEL}={kept.owner}"):
            kind.delete(each.metadata.name, each.metadata.uid)
    kept.forget_all()
