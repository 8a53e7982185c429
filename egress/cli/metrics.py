"""`egress metrics`: print the metrics of a running proxy for Prometheus."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.proxy_choice import ask_one_proxy


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
    answer = ask_one_proxy("/metrics", {"as": "json"}, runtime_dir, run)
    render.text(str(answer.get("text", "")))
    return 0
