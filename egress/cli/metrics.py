"""`egress metrics`: print the metrics of a running proxy for Prometheus."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.control_client import ask_proxy
from egress.cli.proxy_choice import folder_of_one
from egress.errors import ContentError, UnreadableError


@click.command()
@click.option("--run", metavar="ID", help="The proxy of this run. [the one that is running]")
@folder_options.of_running
def metrics(run: str | None, runtime_dir: Path | None) -> int:
    """Print the metrics of a running proxy in the text format of Prometheus.

    Labels come from the rules, never from hosts that sandboxes asked for.

    \b
    Examples:
      egress metrics
    """
    code, answer = ask_proxy("GET", "/metrics", {"as": "json"}, folder_of_one(runtime_dir, run))
    if code == 404:
        raise UnreadableError("the proxy is still starting", "try again in a moment")
    if code != 200:
        raise ContentError(
            str(answer.get("error", "the proxy refused the request")), str(answer.get("hint", ""))
        )
    render.text(str(answer.get("text", "")))
    return 0
