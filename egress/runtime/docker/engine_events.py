"""What the engine tells of containers, as what happens to sandboxes. Pure.

A container that nobody has taken is no sandbox. That it is taken, and that it is started as somebody's, are
changes of its name; see `names`.
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
    """The events of sandboxes among those of containers."""
    for each in stream:
        actor = each.get("Actor")
        marks = actor.get("Attributes") if isinstance(actor, dict) else None
        name = str(marks.get("name", "")) if isinstance(marks, dict) else ""
        sandbox = names.sandbox_of(name)
        kind = _event_kind(str(each.get("Action", "")).partition(":")[0], name)
        if sandbox and kind is not None:
            yield Event(kind, sandbox)


def _event_kind(action: str, name: str) -> EventKind | None:
    if action == "rename":
        return "started" if names.is_started(name) else "created"
    return _EVENT_KINDS.get(action)
