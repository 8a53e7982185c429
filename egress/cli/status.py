"""`egress status`: show the status of a running proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.proxy_choice import ask_one_proxy
from egress.cli.render import BAD, DIM, GOOD, Cell, count
from egress.fleet.embedded_proxy import SANDBOX_NAME

type Answer = Mapping[str, object]


@click.command()
@click.option("--run", metavar="ID", help="The proxy of this run. [the one that is running]")
@folder_options.of_running
@click.option("--json", "as_json", is_flag=True, help="Print the full status as JSON.")
def status(run: str | None, runtime_dir: Path | None, as_json: bool) -> int:
    """Show the status of a running proxy.

    Shows its rules, sandboxes, numbers of requests, and revocations. The exit status is 1 if the proxy cannot
    serve at present.

    \b
    Examples:
      egress status
      egress status --json
    """
    answer = ask_one_proxy("/status", None, runtime_dir, run)
    if as_json:
        render.data(dict(answer))
    else:
        _show(answer)
    # A health check needs no more than the exit status.
    return 0 if answer.get("ready") else 1


def _show(answer: Answer) -> None:
    whose = f", pid {answer.get('pid')}, version {answer.get('version')}, since {answer.get('since')}"
    if answer.get("ready"):
        render.line(("ready", GOOD), whose)
    else:
        render.line(("not ready", BAD), whose)
    for problem in _texts(answer.get("problems")):
        render.line(("  problem: ", BAD), problem)
    render.table([*_rules(_map(answer.get("rules"))), *_rows(answer)])


def _rules(rules: Answer) -> Iterator[list[Cell]]:
    names = ", ".join(_texts(rules.get("files")))
    hosts, secrets = count(_number(rules.get("hosts")), "host"), len(_texts(rules.get("secrets")))
    yield [("rules", DIM), f"{names}: {hosts}, {count(secrets, 'secret')}, mode {rules.get('mode')}"]
    yield ["", f"in force since {rules.get('loaded')} ({str(rules.get('in_force'))[:12]})"]
    if variables := _map(rules.get("variables")):
        yield ["", "variables: " + ", ".join(f"{name} {said}" for name, said in variables.items())]
    for problem in _texts(rules.get("refused")):
        yield ["", (f"refused since: {problem}", BAD)]


def _rows(answer: Answer) -> Iterator[list[Cell]]:
    for box in map(_map, _list(answer.get("sandboxes"))):
        # A proxy of `egress up` or of a run has a sandbox that nothing is in.
        if box.get("name") != SANDBOX_NAME:
            yield from _sandbox(box)
    if replicas := _map(answer.get("replicas")):
        yield [("replicas", DIM), f"compared with {count(_number(replicas.get('compared')), 'other')}"]
        for silent in _texts(replicas.get("silent")):
            yield ["", (f"not compared with {silent}", BAD)]
    # Totals of the whole proxy follow the sandboxes.
    yield [("connections", DIM), str(answer.get("connections"))]
    requests = _map(answer.get("requests"))
    yield [("requests", DIM), ", ".join(_counted(name, n) for name, n in requests.items())]
    for kind, names in _map(answer.get("killed")).items():
        for name in _texts(names):
            is_kept = name in _texts(_map(answer.get("kept")).get(kind))
            yield [("killed", BAD), f"the {kind} {name}" + (", kept after a restart" if is_kept else "")]


def _counted(name: str, value: object) -> str:
    if name.endswith("s"):
        return count(_number(value), name[:-1])
    return f"{value} {name.replace('_', ' ')}"


def _sandbox(box: Answer) -> Iterator[list[Cell]]:
    at = {key: _texts(box.get(key)) for key in ("listeners", "transparent", "dns")}
    told = [", ".join(at["listeners"]) or "no listener"]
    told += [f"{key} {', '.join(at[key])}" for key in ("transparent", "dns") if at[key]]
    told += [f"profile {box['profile']}"] if box.get("profile") else []
    told.append(count(_number(box.get("connections")), "connection"))
    told += [count(_number(box["grants"]), "grant")] if box.get("grants") else []
    yield [("sandbox", DIM), f"{box.get('name')}: {'; '.join(told)}"]
    for failed in _texts(box.get("failed")):
        yield ["", (failed, BAD)]
    if lacks := _texts(box.get("authority_lacks")):
        yield ["", (f"its authority is not permitted to sign for {', '.join(lacks)}", BAD)]


# Parsing the answer of another process: its shape is never assumed -------------------------------


def _map(value: object) -> Answer:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [str(item) for item in _list(value)]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
