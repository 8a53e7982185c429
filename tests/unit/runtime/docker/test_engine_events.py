"""What an engine tells of containers, and what it means for sandboxes."""

from __future__ import annotations

from egress.runtime.docker import names
from egress.runtime.docker.engine_events import sandbox_events
from egress.runtime.spec import Event

CELL = "0123abcd"


def told(action: str, name: str) -> dict[str, object]:
    return {"Action": action, "Actor": {"Attributes": {"name": name}}}


def test_it_is_a_sandbox_from_when_it_is_taken() -> None:
    waiting, new, started = names.unassigned(CELL), names.assigned("one", CELL), names.started("one", CELL)
    stream = [
        told("create", waiting), told("start", waiting), told("rename", new), told("rename", started),
        told("exec_start: sh -c x", started), told("pause", started), told("unpause", started),
        told("oom", started), told("die", started), told("start", started), told("destroy", started),
        told("destroy", waiting),
    ]  # fmt: skip
    kinds = (
        *("created", "started", "paused", "resumed", "out-of-memory"),
        *("died", "started", "removed"),
    )
    assert list(sandbox_events(stream)) == [Event(kind, "one") for kind in kinds]  # type: ignore[arg-type]


def test_what_is_not_said_is_nothing() -> None:
    assert (
        list(sandbox_events([{}, {"Action": "die"}, {"Action": "die", "Actor": {}}, {"Actor": None}])) == []
    )
