"""Which sandboxes a client of agent-sandbox finds: those of its claims, and those that nobody else claims.

A claim belongs to a namespace, and so does its sandbox. A sandbox that a person or a program of ours created
has no namespace, and counts as one of `default`. Sandboxes of other clients are not found.
"""

from __future__ import annotations

from typing import Final

from egress.fleet.fleet import Fleet
from egress.fleet.protocol import SandboxStatus
from egress.runtime.errors import SandboxNotFoundError

OWNER: Final = "agent-sandbox"
"""The owner of the sandboxes of claims."""
NAMESPACE_LABEL: Final = "agents.x-k8s.io/namespace"
DEFAULT_NAMESPACE: Final = "default"


def find_sandbox(fleet: Fleet, name: str, namespace: str) -> SandboxStatus:
    """Return a sandbox of this namespace. Raises `SandboxNotFoundError`."""
    status = fleet.status(name)
    if namespace != _namespace_of(status):
        raise SandboxNotFoundError.named(name)
    return status


def _namespace_of(status: SandboxStatus) -> str | None:
    match status.terms.owner:
        case "":
            return DEFAULT_NAMESPACE
        case owner if owner == OWNER:
            return status.info.labels.get(NAMESPACE_LABEL)
        case _:
            return None
