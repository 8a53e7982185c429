"""`egress ps`: list sandboxes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click

from egress import environment
from egress.cli import folder_options, render
from egress.cli.render import BAD, DIM, DOUBT, GOOD, Cell
from egress.cli.sandboxes import fleet_session
from egress.cli.sandboxes.process_list import show_processes
from egress.fleet import FleetInfo, Preview, SandboxStatus
from egress.fleet.errors import FleetUnavailableError
from egress.fleet.running_proxies import RunProxy, running_proxies
from egress.runtime.spec import State

_HEADS = ("sandbox", "state", "image", "profile", "made", "left")
_STYLES = {"running": GOOD, "paused": DOUBT, "stopped": BAD, "asleep": DIM}


@click.command()
@folder_options.of_running
@click.option(
    "--processes",
    "shows_processes",
    is_flag=True,
    help="List processes, terminals and sessions, by their ids, instead.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def ps(runtime_dir: Path | None, shows_processes: bool, as_json: bool) -> int:
    """List the sandboxes of `egress up`, and those of other runs of this user.

    \b
    Examples:
      egress ps
      egress ps --json
      egress ps --processes
    """
    if shows_processes:
        return show_processes(runtime_dir, as_json=as_json)
    folder = runtime_dir or environment.runtime_dir(environment.read_environment())
    served, others = _served(folder)
    if as_json:
        data = [_as_data(each, served) for each in served.standings] if served else []
        render.data([*data, *(_as_data_of_run(name, proxy) for name, proxy in others)])
        return 0
    rows = [_row(each, served) for each in served.standings] if served else []
    rows += [_row_of_run(name, proxy) for name, proxy in others]
    if rows:
        # Sandboxes of `egress up` belong to one run, which says nothing beside no other.
        heads = (*_HEADS, *(["run"] if others else []))
        render.table([[(text, DIM) for text in heads], *rows])
    else:
        render.line("no sandboxes")
    for each in served.previews if served else ():
        left = "" if each.left is None else f", {render.span(each.left)} left"
        render.line(f"{each.sandbox}: preview of port {each.port}{left}")
    return 0


@dataclass(frozen=True, slots=True)
class ServedSandboxes:
    """The sandboxes of `egress up`."""

    about: FleetInfo
    standings: Sequence[SandboxStatus]
    previews: Sequence[Preview]
    revoked: Collection[str] = ()
    """Names whose access is revoked at the proxy."""


def _served(folder: Path) -> tuple[ServedSandboxes | None, list[tuple[str, RunProxy]]]:
    """Return the sandboxes of `egress up`, and those of runs with a proxy of their own.

    Raises `FleetUnavailableError` where there is neither.
    """
    try:
        with fleet_session.connect_served(folder) as fleet:
            standings = [fleet.status(info.name) for info in fleet.list()]
            served = ServedSandboxes(fleet.about, standings, fleet.previews())
    except FleetUnavailableError:
        served = None
    own = served.about.runtime_dir if served else None
    found = running_proxies(folder)
    if served is not None:
        # A runtime knows what runs, and only its proxy knows what is revoked.
        revoked = next((proxy.revoked for proxy in found if proxy.folder == own), frozenset[str]())
        served = replace(served, revoked=revoked)
    # `egress serve` serves sandboxes that others made: those are for `egress status`.
    runs = [proxy for proxy in found if proxy.folder not in (folder, own)]
    others = [(name, proxy) for proxy in runs for name in proxy.sandboxes]
    if served is None and not others:
        raise fleet_session.not_served(folder)
    return served, others


def _row(each: SandboxStatus, served: ServedSandboxes) -> list[Cell]:
    info = each.info
    made = _ago(info.created) if info.created else ""
    left = "" if each.left is None else render.span(each.left)
    state = _state(info.state, is_revoked=info.name in served.revoked)
    return [info.name, state, info.image, info.profile or "", made, left]


def _row_of_run(name: str, proxy: RunProxy) -> list[Cell]:
    since = _moment(proxy.since)
    made = _ago(since) if since else ""
    state = _state("running", is_revoked=name in proxy.revoked)
    return [name, state, "", proxy.sandboxes[name], made, "", proxy.run]


def _state(state: State, *, is_revoked: bool) -> Cell:
    # A revoked sandbox still runs, and stays for whoever looks into it.
    return (f"{state}, revoked", BAD) if is_revoked else (state, _STYLES.get(state, ""))


def _as_data(each: SandboxStatus, served: ServedSandboxes) -> dict[str, object]:
    info = each.info
    return {
        "name": info.name,
        "state": info.state,
        "image": info.image,
        "profile": info.profile,
        "labels": dict(info.labels),
        "created": info.created.isoformat() if info.created else None,
        "exit_code": info.exit_code,
        "revoked": info.name in served.revoked,
        "seconds_left": each.left,
        "seconds_idle": each.idle,
        # The address contains the token, so only the port is listed.
        "ports": [preview.port for preview in served.previews if preview.sandbox == info.name],
        "run": served.about.run,
    }


def _as_data_of_run(name: str, proxy: RunProxy) -> dict[str, object]:
    """Return what the proxy of another run knows of its sandbox."""
    profile, since = proxy.sandboxes[name] or None, _moment(proxy.since)
    made = since.isoformat() if since else None
    return {
        "name": name,
        "state": "running",
        "revoked": name in proxy.revoked,
        "profile": profile,
        "created": made,
        "run": proxy.run,
        "pid": proxy.pid,
    }


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _ago(moment: datetime) -> str:
    now = datetime.now(UTC)  # noqa: TID251 - the command line is where the clock enters
    return f"{render.span((now - moment).total_seconds())} ago"
