"""`egress ps --processes`: list the processes of sandboxes that have an id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from egress.cli import render
from egress.cli.render import BAD, DIM, GOOD, Cell
from egress.cli.sandboxes import fleet_session
from egress.fleet import RemoteRuntime
from egress.fleet.tracking import ProcessStatus
from egress.runtime.errors import SandboxNotFoundError

_HEADS = ("sandbox", "process", "state", "started", "command")
_MAX_COMMAND = 60
"""Characters of a command in the table."""


def show_processes(runtime_dir: Path | None, *, as_json: bool) -> int:
    """Print the processes of all sandboxes of `egress up`."""
    with fleet_session.connect_served(runtime_dir) as fleet:
        found = list(_processes(fleet))
    if as_json:
        render.data([_as_data(each) for each in found])
    elif found:
        render.table([[(text, DIM) for text in _HEADS], *map(_row, found)])
    else:
        render.line("no processes")
    return 0


def _processes(fleet: RemoteRuntime) -> Iterator[ProcessStatus]:
    for info in fleet.list():
        # A sandbox may be removed while the others are looked at.
        with suppress(SandboxNotFoundError):
            yield from fleet.tracked.all(info.name)


def _row(each: ProcessStatus) -> list[Cell]:
    state: Cell = (each.state, GOOD if each.state == "running" else DIM)
    if each.exit_code:
        state = (f"ended with {each.exit_code}", BAD)
    words = " ".join(each.argv)
    shown = words if len(words) <= _MAX_COMMAND else f"{words[:_MAX_COMMAND]}…"
    return [each.sandbox, each.id, state, f"{each.started:%Y-%m-%d %H:%M:%S}", shown]


def _as_data(each: ProcessStatus) -> dict[str, object]:
    return {
        "sandbox": each.sandbox,
        "id": each.id,
        "state": each.state,
        "exit_code": each.exit_code,
        "timed_out": each.timed_out,
        "started": each.started.isoformat(),
        "argv": list(each.argv),
    }
