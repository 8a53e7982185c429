"""What everything at the engine is marked with, so that it is found again, and its owner with it.

The owner is named by its lease: a file that is locked as long as the owner lives. See `lease` and `reaper`.
Which sandbox a thing belongs to is not in its labels, for these cannot be changed; see `names`.
"""

from __future__ import annotations

from typing import Final

from egress.runtime.spec import RESERVED_LABEL_PREFIX

ROLE_LABEL: Final = f"{RESERVED_LABEL_PREFIX}role"
LEASE_LABEL: Final = f"{RESERVED_LABEL_PREFIX}lease"

ROLE_SANDBOX: Final = "sandbox"
ROLE_DOOR: Final = "door"
ROLE_NETWORK: Final = "network"
ROLE_WORKSPACE: Final = "workspace"


def owner_labels(role: str, lease: str) -> dict[str, str]:
    """The labels of a thing."""
    return {ROLE_LABEL: role, LEASE_LABEL: lease}
