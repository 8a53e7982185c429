"""Options that select lines; shared by all commands that filter."""

from __future__ import annotations

from collections.abc import Callable

import click

from egress.cli import rule_options
from egress.errors import UsageError
from egress.review import FILTER_FIELDS, Filters, InvalidTimeError, parse_typed

type Command = Callable[..., int]


_OPTIONS = (
    *((f"--{field.name}", field.metavar, field.option) for field in FILTER_FIELDS),
    ("--grep", "TEXT", "Lines that contain this text."),
    ("--since", "MOMENT", "Not older than: `30m`, `2h`, `7d`, a day or an RFC 3339 moment."),
    ("--until", "MOMENT", "Older than a moment."),
)


def options(command: Command) -> Command:
    """Add all filter options, in this order."""
    for flag, metavar, text in reversed(_OPTIONS):
        command = click.option(flag, metavar=metavar, default="", help=text)(command)
    return command


def filters(**asked: str) -> Filters:
    """Return the requested filters. Raises `UsageError`."""
    since, until = moment(asked["since"], "--since"), moment(asked["until"], "--until")
    found = Filters.of(asked, since, until)
    # An empty span would look like a log without traffic.
    if found.since is not None and found.until is not None and found.since >= found.until:
        raise UsageError("--since is not before --until", "swap them")
    return found


def moment(text: str, flag: str) -> int | None:
    """Parse a typed moment; None for empty text. Raises `UsageError`."""
    if not text:
        return None
    try:
        return parse_typed(text, rule_options.now() * 1_000_000)
    except InvalidTimeError as error:
        raise UsageError(f"{flag}: {error.message}", error.hint) from None
