"""Shared parts of the commands about traffic: time span, profile, log and current rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress import environment as process
from egress.cli import render, rule_options
from egress.cli.render import DIM

if TYPE_CHECKING:
    from egress.review.drafting import Traffic

SINCE = click.option(
    "--since",
    default="1d",
    show_default=True,
    metavar="WHEN",
    help="Start: an age (2h, 1d), a day or a moment.",
)
PROFILE = click.option("--profile", "-p", help="Only sandboxes with this profile.")


def rules_at_hand(files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the named rules, or those that `egress serve` would use. Raises `UnreadableError`."""
    if files:
        return tuple(files)
    from egress.policy.rule_source import choose_rules
    from egress.proxy import settings

    return choose_rules(
        settings.read({}).values.rules, process.config_dir(process.read_environment()), Path()
    ).paths


def gather_traffic(log: Path, index: Path | None, since: str, profile: str | None) -> Traffic:
    """Read the observed traffic; print notes about skipped parts to the error stream."""
    from egress.review.drafting import TimeRange, Traffic, read

    span = TimeRange.of(since, rule_options.now())
    traffic = Traffic.of(read(log, span, index), profile)
    for text in traffic.missing(span.odd):
        render.line(("note: ", DIM), text, stderr=True)
    return traffic
