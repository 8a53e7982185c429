"""Translates the engine's container events into sandbox events. Pure.

An unassigned container is no sandbox. Assigning and starting a container rename it, so both show as rename
events; see `names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from egress.runtime.docker import names
from egress.runtime.docker.engine import Json
from egress.runtime.spec import Event, EventKind

_EVENT_KINDS: Final[Mapping[str, EventKind]] = {
    "start": "started",
    "die": "died",
    "oom": "out-of-memory",
    "pause": "paused",
    "unpause": "resumed",
    "destroy": "removed",
}


def sandbox_events(stream: Iterable[Json]) -> Iterator[Event]:
    """The sandbox events in a stream of container events."""
    for each in stream:
        actor = each.get("Actor")
        attributes = actor.get("Attributes") if isinstance(actor, dict) else None
        name = str(attributes.get("name", "")) if isinstance(attributes, dict) else ""
        sandbox = names.sandbox_of(name)
        kind = _event_kind(str(each.get("Action", "")).partition(":")[0], name)
        if sandbox and kind is not None:
            yield Event(kind, sandbox)


def _event_kind(action: str, name: str) -> EventKind | None:
    if action == "rename":
        return "started" if names.is_started(name) else "created"
    return _EVENT_KINDS.get(action)
