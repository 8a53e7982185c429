"""The labels of everything at the engine: its role, and its owner.

The owner is named by its lease: a file that is locked as long as the owner lives; see `owner_lock` and
`reaper`. Labels do not name the sandbox, because they cannot be changed later; see `names`.
"""

from __future__ import annotations

from typing import Final

from egress.runtime.spec import RESERVED_LABEL_PREFIX

ROLE_LABEL: Final = f"{RESERVED_LABEL_PREFIX}role"
LEASE_LABEL: Final = f"{RESERVED_LABEL_PREFIX}lease"
IMAGE_LABEL: Final = f"{RESERVED_LABEL_PREFIX}image"
"""The label of every image made here; its value is the repository, the name without a tag."""

ROLE_SANDBOX: Final = "sandbox"
ROLE_DOOR: Final = "door"
ROLE_NETWORK: Final = "network"
ROLE_WORKSPACE: Final = "workspace"


def owner_labels(role: str, lease: str) -> dict[str, str]:
    """The labels of one container, network or volume."""
    return {ROLE_LABEL: role, LEASE_LABEL: lease}
