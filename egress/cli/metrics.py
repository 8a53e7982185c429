"""`egress metrics`: the numbers of a running proxy, as Prometheus reads them."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import render, rulefiles
from egress.cli.control_client import ask_proxy
from egress.errors import ContentError, UnreadableError


@click.command()
@click.option("--runtime-dir", type=rulefiles.FILE, help="The folder of the control socket.")
def metrics(runtime_dir: Path | None) -> int:
    """Print the numbers of a running proxy in the text format of Prometheus.

    Names in it come from the rules: a host that was asked for is never one.

    \b
    Examples:
      egress metrics
    """
    code, answer = ask_proxy("GET", "/metrics", {"as": "json"}, runtime_dir)
    if code == 404:
        raise UnreadableError("the proxy is still starting", "ask again in a moment")
    if code != 200:
        raise ContentError(str(answer.get("error", "it was refused")), str(answer.get("hint", "")))
    render.text(str(answer.get("text", "")))
    return 0
