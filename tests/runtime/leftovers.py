"""What runs of tests left at the engine that were killed: cleared before the next run, whoever begins that.

    python -m tests.runtime.leftovers

A runtime clears away only what belongs to its own folder, and folders of tests are never used again. So here
everything counts whose owner's folder is a temporary one. It goes when nobody holds its lease any more, and
when it is older than any test takes: tests kill owners too, and look at what is left of them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from docker import APIClient
from docker.errors import DockerException

from egress.runtime.docker import labels
from egress.runtime.owner_lock import is_held

OLD: Final = 600.0
"""Seconds."""
TEMPORARY: Final = Path(tempfile.gettempdir())


def is_left(thing: Mapping[str, Any], now: float, below: Path = TEMPORARY) -> bool:
    """Whether it was made for a test, some time ago, and its owner has gone."""
    lease = Path((thing.get("Labels") or {}).get(labels.LEASE_LABEL, "/"))
    made = thing.get("Created", thing.get("CreatedAt", ""))
    begun = float(made) if isinstance(made, int) else datetime.fromisoformat(made).timestamp()
    return lease.is_relative_to(below) and now - begun > OLD and not is_held(lease)


def clear(api: APIClient, now: float, below: Path = TEMPORARY) -> Iterator[str]:
    """Remove all of it; yields what it was. Networks can go when no container is in them any more."""
    marks = {"label": labels.LEASE_LABEL}
    kinds: tuple[tuple[str, list[dict[str, Any]], str, Callable[[str], None]], ...] = (
        ("container", api.containers(all=True, filters=marks), "Id", _ended(api)),
        ("network", api.networks(filters=marks), "Name", api.remove_network),
        ("volume", api.volumes(filters=marks)["Volumes"] or [], "Name", api.remove_volume),
    )
    for kind, things, key, remove in kinds:
        for each in things:
            if is_left(each, now, below):
                # Another run may be at it, too.
                with suppress(DockerException):
                    remove(each[key])
                    yield f"{kind} {each[key]}"


def _ended(api: APIClient) -> Callable[[str], None]:
    return lambda container: api.remove_container(container, force=True)


if __name__ == "__main__":
    # Without an engine there is nothing to clear, and the tests themselves say that they need one.
    with suppress(DockerException), APIClient(version="auto") as engine:
        for name in clear(engine, time.time()):  # noqa: TID251 - the age of things is asked for
            print(f"left by another run, and removed: {name}")  # noqa: T201 - a script talks to its user
