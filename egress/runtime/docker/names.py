"""The names of what is at the engine, and what can be read from them.

A container is made before anybody knows whose it will be, and labels cannot be changed; names can. So the
name of a container says whose it is, and whether its owner has started it. Both are told to whoever listens
to the engine, in the order in which they happened, and are there after a crash. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from egress.runtime.spec import NAME_PATTERN

_CELL_ID: Final = "[0-9a-f]{8}"
_ASSIGNED_NAME: Final = re.compile(rf"egress-({NAME_PATTERN.pattern})-{_CELL_ID}(\.new)?")


def network(cell: str) -> str:
    """That of a cell."""
    return f"egress-{cell}"


def workspace(cell: str) -> str:
    """Of the volume for a working folder."""
    return f"egress-workspace-{cell}"


def image_volume(cell: str, number: int) -> str:
    """Of a volume with what an image declares as one."""
    return f"egress-image-{cell}-{number}"


def door(cell: str) -> str:
    """Of the container that a door runs in."""
    return f"egress-door-{cell}"


def unassigned(cell: str) -> str:
    """Of a container that nobody has taken."""
    return f"egress.ready-{cell}"


def assigned(sandbox: str, cell: str) -> str:
    """Of one that is that of a sandbox, and has not been started as such."""
    return f"{started(sandbox, cell)}.new"


def started(sandbox: str, cell: str) -> str:
    """Of one that was started as that of a sandbox."""
    return f"egress-{sandbox}-{cell}"


def sandbox_of(container: str) -> str:
    """The sandbox that a container is that of; empty for one that nobody has taken.

    Not for containers of doors: a sandbox can have the name `door`.
    """
    found = _ASSIGNED_NAME.fullmatch(container)
    return found[1] if found else ""


def is_started(container: str) -> bool:
    """Whether a container with this name was."""
    found = _ASSIGNED_NAME.fullmatch(container)
    return found is not None and found[2] is None
