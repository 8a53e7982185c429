"""`egress ps --processes`: list the processes, terminals and sessions of sandboxes, by their ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from egress.cli import render
from egress.cli.render import BAD, DIM, DOUBT, GOOD, Cell
from egress.cli.sandboxes import fleet_session
from egress.fleet import RemoteRuntime
from egress.fleet.process_interface import ProcessStatus
from egress.fleet.session_interface import SessionStatus
from egress.runtime.errors import SandboxNotFoundError
from egress.sandbox.options import shown_command
from egress.sandbox.terminal import SHELL_COMMAND

_HEADS = ("sandbox", "id", "kind", "state", "started", "command")
_STYLES = {"running": GOOD, "busy": GOOD, "idle": DIM, "lost": DOUBT}
_MAX_COMMAND = 60
"""Characters of a command in the table."""


def show_processes(runtime_dir: Path | None, *, as_json: bool) -> int:
    """Print the processes and sessions of all sandboxes of `egress up`."""
    with fleet_session.connect_served(runtime_dir) as fleet:
        found = list(_found(fleet))
    if as_json:
        render.data([_as_data(each) for each in found])
    elif found:
        render.table([[(text, DIM) for text in _HEADS], *map(_row, found)])
    else:
        render.line("no processes")
    return 0


def _found(fleet: RemoteRuntime) -> Iterator[ProcessStatus | SessionStatus]:
    for info in fleet.list():
        # A sandbox may be removed while the others are looked at.
        with suppress(SandboxNotFoundError):
            yield from fleet.tracked.all(info.name)
            yield from fleet.sessions.all(info.name)


def _kind(each: ProcessStatus | SessionStatus) -> str:
    if isinstance(each, SessionStatus):
        return "session"
    return "process" if each.columns is None else "terminal"


def _row(each: ProcessStatus | SessionStatus) -> list[Cell]:
    state: Cell = (each.state, _STYLES.get(each.state, DIM))
    if isinstance(each, SessionStatus):
        started, shown = each.created, each.shell or "bash, or sh"
    else:
        if each.exit_code:
            state = (f"ended with {each.exit_code}", BAD)
        started, shown = each.started, _shown(each)
    shown = shown if len(shown) <= _MAX_COMMAND else f"{shown[:_MAX_COMMAND]}…"
    return [each.sandbox, each.id, _kind(each), state, f"{started:%Y-%m-%d %H:%M:%S}", shown]


def _shown(each: ProcessStatus) -> str:
    return "a shell" if each.argv == SHELL_COMMAND else shown_command(each.argv)


def _as_data(each: ProcessStatus | SessionStatus) -> dict[str, object]:
    common: dict[str, object] = {
        "sandbox": each.sandbox,
        "id": each.id,
        "kind": _kind(each),
        "state": each.state,
    }
    if isinstance(each, SessionStatus):
        own = {"started": each.created.isoformat(), "waiting": each.waiting, "shell": each.shell}
        return {**common, **own}
    return {
        **common,
        "exit_code": each.exit_code,
        "timed_out": each.timed_out,
        "started": each.started.isoformat(),
        "argv": list(each.argv),
        "columns": each.columns,
        "rows": each.rows,
    }
