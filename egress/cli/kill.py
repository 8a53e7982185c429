"""`egress kill`: take something back from a running proxy, at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from egress.cli import render, rulefiles
from egress.cli.control_client import ask_proxy
from egress.cli.render import BAD, BOLD, GOOD, count
from egress.errors import ContentError, UsageError

_AFTER = {
    "sandbox": "it gets no connection",
    "host": "no sandbox gets there",
    "secret": "it is injected nowhere",
}
_UNTIL = {
    "sandbox": "`egress kill --undo` or a restart",
    "host": "`egress kill --undo` or a restart",
    "secret": "`egress kill --undo`, a reload you ask for, or a restart",
}


@click.command()
@click.argument("name")
@click.option("--sandbox", "kind", flag_value="sandbox", help="It is the name of a sandbox.")
@click.option("--host", "kind", flag_value="host", help="It is a host, or a pattern of hosts.")
@click.option("--secret", "kind", flag_value="secret", help="It is the name of a secret.")
@click.option("--undo", is_flag=True, help="Give it back.")
@click.option("--runtime-dir", type=rulefiles.FILE, help="The folder of the control socket.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def kill(name: str, kind: str | None, undo: bool, runtime_dir: Path | None, as_json: bool) -> int:
    """Take a sandbox, a host or a secret back from a running proxy, at once.

    What is open and concerned is closed, and what comes next is refused. Which of them NAME is, is found
    by the name. The rules stay as they are: this is for the moment in which something goes wrong.

    \b
    Examples:
      egress kill api.example.com
      egress kill --undo api.example.com
    """
    body = {"name": name, "kind": kind, "undo": undo}
    status, answer = ask_proxy("POST", "/kill", body, runtime_dir)
    if status == 409:
        raise UsageError(str(answer.get("error", "")), str(answer.get("hint", "")))
    if status != 200:
        raise ContentError(str(answer.get("error", "it was refused")), str(answer.get("hint", "")))
    if as_json:
        render.data(answer)
        return 0
    _say(str(answer["kind"]), str(answer["name"]), answer, undo=undo)
    return 0


def _say(kind: str, name: str, answer: Mapping[str, object], *, undo: bool) -> None:
    if undo and not answer["known"]:
        render.line(f"the {kind} {name} was not killed")
    elif undo:
        render.line(("given back: ", GOOD), f"the {kind} ", (name, BOLD))
    else:
        closed = count(int(str(answer["connections"])), "connection")
        render.line(("killed: ", BAD), f"the {kind} ", (name, BOLD), f", {closed} closed")
        render.line(f"  {_AFTER[kind]} until {_UNTIL[kind]}")
