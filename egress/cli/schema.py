"""`egress schema`: print the JSON schema of rule files."""

from __future__ import annotations

import click

from egress.cli import render


@click.command()
def schema() -> int:
    """Print the JSON schema of rule files, for editors and for check-jsonschema.

    \b
    Examples:
      egress schema
    """
    from egress.rules.language.schema import schema_text

    render.text(schema_text())
    return 0
