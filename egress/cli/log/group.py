"""`egress log`: the group of commands about the audit log."""

from __future__ import annotations

import click

from egress.cli.log.archive import archive
from egress.cli.log.collect import collect
from egress.cli.log.export import export
from egress.cli.log.prune import prune
from egress.cli.log.query import query
from egress.cli.log.show import show
from egress.cli.log.stats import stats
from egress.cli.log.suggest import suggest
from egress.cli.log.tail import tail
from egress.cli.log.verify import verify


@click.group()
def log() -> None:
    """Search, summarise, verify and prune the audit log.

    \b
    Examples:
      egress log tail -f
      egress log query --verdict deny --since 2h
      egress log verify
    """


for _command in (tail, query, stats, show, suggest, verify, export, prune, collect, archive):
    log.add_command(_command)
