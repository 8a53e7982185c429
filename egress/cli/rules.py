"""`egress rules`: commands about rules as the proxy sees them."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import render, rulefiles


@click.group()
def rules() -> None:
    """Show the rules as the proxy sees them."""


@rules.command()
@click.argument("files", nargs=-1, type=rulefiles.FILE, metavar="[FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print entries and rules as JSON.")
def show(files: tuple[Path, ...], as_json: bool) -> int:
    """Print the rules with all files joined and presets written out.

    What is printed is itself a rule file and means the same. Comments say where each rule stands.

    \b
    Examples:
      egress rules show
      egress rules show config/hosts.yaml
    """
    from egress.rules.show import as_data, as_text

    _, policy = rulefiles.policy(files)
    if as_json:
        render.data(as_data(policy))
    else:
        render.text(as_text(policy))
    return 0
