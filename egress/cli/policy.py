"""`egress policy`: show or change what one sandbox may do for now, within what the rule file delegates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

import click

from egress.cli import folder_options, render, rule_options
from egress.cli.control_client import ask_proxy
from egress.cli.proxy_choice import error_of, proxy_of
from egress.cli.render import BOLD, DIM, GOOD, Cell
from egress.errors import UsageError
from egress.fleet.policies import given_fields, read_change
from egress.rules.compile.policy_writer import flow
from egress.rules.language import quantities
from egress.rules.language.report import MeaningError

_CALLER = "the command line"


@click.command()
@click.argument("sandbox")
@click.option("--allow", metavar="REQUEST", help="Allow such requests, without any credential.")
@click.option("--deny", metavar="REQUEST", help="Deny such requests.")
@click.option("--profile", "-p", metavar="NAME", help="Choose a profile for the sandbox.")
@click.option("--ttl", metavar="TIME", default="10m", help="Time after which the change ends. [10m]")
@click.option("--undo", metavar="ID", help="Take a grant back.")
@click.option("--run", metavar="ID", help="In this run, where several have a sandbox of this name.")
@folder_options.of_running
@click.option("--json", "as_json", is_flag=True, help="Print the answer of the proxy as JSON.")
def policy(
    sandbox: str, ttl: str, run: str | None, runtime_dir: Path | None, as_json: bool, **changes: str | None
) -> int:
    """Show or change what one sandbox may do for now.

    Without an option, shows the grants of a running sandbox, and what may be granted to it: the rule file
    says that under `delegate`. A grant ends by itself, and with its sandbox or proxy. REQUEST is an https URL
    with a path pattern, and methods with commas in front; without path or methods, all of them.

    \b
    Examples:
      egress policy agent-1
      egress policy agent-1 --allow 'GET https://files.example.com/public/**'
      egress policy agent-1 --deny 'https://api.example.com' --ttl 1h
      egress policy agent-1 --undo g-5f2b8c0d
    """
    given = [(name, text) for name, text in changes.items() if text is not None]
    if len(given) > 1:
        raise click.UsageError(f"--{given[0][0]} and --{given[1][0]} are two changes: make one at a time.")
    # The command line is read before any proxy is asked.
    kind, body = _change(*given[0], ttl) if given else ("", {})
    found = proxy_of(sandbox, runtime_dir, run)
    answer = found.policy
    if body:
        method = "DELETE" if kind == "undo" else "POST"
        answer = ask_proxy(method, f"/policy/{sandbox}", body, found.folder)
    if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
        raise error_of(answer)
    if as_json:
        render.data(dict(answer.body))
    elif not body:
        _show(answer.body)
    else:
        _say(sandbox, answer.body, is_undone=kind == "undo")
    return 0


def _change(kind: str, text: str, ttl: str) -> tuple[str, Mapping[str, object]]:
    """Return the kind of a change, and the body by which the proxy is asked for it."""
    if kind == "undo":
        return kind, {"grant": text, "by": _CALLER}
    try:
        seconds = quantities.parse_duration(int(ttl) if ttl.isdecimal() else ttl)
    except MeaningError as error:
        raise UsageError(f"--ttl: {error.message}", error.hint) from None
    if kind == "profile":
        return kind, {"kind": kind, "ttl": seconds, "by": _CALLER, "profile": text}
    change = read_change("allow" if kind == "allow" else "deny", text, seconds)
    return kind, {**given_fields(change), "by": _CALLER}


# For people -----------------------------------------------------------------------------------


def _say(sandbox: str, grant: Mapping[str, object], *, is_undone: bool) -> None:
    change = str(grant.get("change"))
    if is_undone:
        render.line(("taken back: ", GOOD), (change, BOLD), f" of {sandbox}")
        return
    render.line(("granted: ", GOOD), (change, BOLD), f" to {sandbox}, for {_time_text(grant)}")
    undo = f"egress policy {sandbox} --undo {grant.get('id')}"
    render.line(f"  `{undo}` takes it back sooner", whole=True)


def _show(answer: Mapping[str, object]) -> None:
    own, in_force = answer.get("profile") or "default", answer.get("profile_in_force")
    profile = "" if in_force is None else f", profile {in_force}"
    instead = f" (its own is {own})" if in_force not in (None, own) else ""
    render.line((str(answer.get("sandbox")), BOLD), profile, instead)
    grants, delegations = _items(answer, "grants"), _items(answer, "delegations")
    render.line("  granted" if grants else "  nothing is granted")
    render.table([_grant_row(grant) for grant in grants], indent=4)
    render.line("  may be granted" if delegations else "  the rules delegate nothing to it")
    render.table([row for each in delegations for row in _delegation_rows(each)], indent=4)


def _grant_row(grant: Mapping[str, object]) -> list[Cell]:
    return [
        (str(grant.get("id")), BOLD),
        str(grant.get("change")),
        (f"{_time_text(grant)} left, by {grant.get('delegation')}", DIM),
    ]


def _delegation_rows(delegation: Mapping[str, object]) -> Iterator[list[Cell]]:
    name: Cell = (str(delegation.get("id")), BOLD)
    for key in ("may", "hosts", "ports", "methods", "paths", "profiles"):
        value = delegation.get(key)
        if isinstance(value, list):
            yield [name, f"{key} {flow(value)}"]
            name = ""
    yield ["", f"ttl at most {_seconds_text(delegation.get('ttl'))}"]


def _time_text(grant: Mapping[str, object]) -> str:
    expires = grant.get("expires")
    return _seconds_text(max(0, expires - rule_options.now()) if isinstance(expires, int) else None)


def _seconds_text(seconds: object) -> str:
    """Return a time of an answer, whose type is never assumed."""
    return quantities.duration_text(seconds) if isinstance(seconds, int) else "an unknown time"


def _items(answer: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """Return a list of an answer; the shape of what another process says is never assumed."""
    found = answer.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
