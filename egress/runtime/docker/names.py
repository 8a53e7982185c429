"""Names of containers, networks and volumes at the engine, and the facts that they carry.

A container is made before it is assigned to a sandbox. Labels cannot be changed later; names can. So the name
of a container says which sandbox it belongs to, and whether it was started. Both reach listeners of the
engine's events in the order in which they happened, and survive a crash. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from egress.runtime.spec import NAME_PATTERN

_CELL_ID: Final = "[0-9a-f]{8}"
_NAME_OF_CELL: Final = re.compile(rf"egress(?:[.-].+)?-({_CELL_ID})(?:\.new|-\d+)?")
_ASSIGNED_NAME: Final = re.compile(rf"egress-({NAME_PATTERN.pattern})-{_CELL_ID}(\.new)?")


def network(cell: str) -> str:
    """The network of a cell."""
    return f"egress-{cell}"


def workspace(cell: str) -> str:
    """The volume of a workspace."""
    return f"egress-workspace-{cell}"


def image_volume(cell: str, number: int) -> str:
    """The volume that covers a volume of the image."""
    return f"egress-image-{cell}-{number}"


def door(cell: str) -> str:
    """The container of a door."""
    return f"egress-door-{cell}"


def unassigned(cell: str) -> str:
    """A container without a sandbox."""
    return f"egress.ready-{cell}"


def assigned(sandbox: str, cell: str) -> str:
    """A container that belongs to a sandbox, and was not started yet."""
    return f"{started(sandbox, cell)}.new"


def started(sandbox: str, cell: str) -> str:
    """A container that was started for its sandbox."""
    return f"egress-{sandbox}-{cell}"


def cell_of(name: str) -> str:
    """The cell that a container, network or volume belongs to; empty for a name that is not ours."""
    found = _NAME_OF_CELL.fullmatch(name)
    return found[1] if found else ""


def sandbox_of(container: str) -> str:
    """The sandbox of a container; empty for an unassigned one.

    Not for containers of doors: a sandbox may be named `door`.
    """
    found = _ASSIGNED_NAME.fullmatch(container)
    return found[1] if found else ""


def is_started(container: str) -> bool:
    """Return whether the container of this name was started."""
    found = _ASSIGNED_NAME.fullmatch(container)
    return found is not None and found[2] is None
