"""Options that select lines; shared by all commands that filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from egress.cli import rulefiles
from egress.errors import UsageError

if TYPE_CHECKING:
    from egress.review import Filters

type Command = Callable[..., int]


class FilterTexts(TypedDict):
    """The options as click passes them."""

    sandbox: str
    host: str
    verdict: str
    secret: str
    status: str
    rule: str
    method: str
    code: str
    event: str
    grep: str
    since: str
    until: str


_OPTIONS = (
    ("--sandbox", "NAME", "Requests of this sandbox."),
    ("--host", "NAME", "Requests to this host; `*` matches any text."),
    ("--verdict", "VERDICT", "`allow` or `deny`."),
    ("--secret", "NAME", "Requests with this secret."),
    ("--status", "STATUS", "Requests with this status, or `5xx`."),
    ("--rule", "ID", "Decided by this rule: `read`, or `api.github.com#read`."),
    ("--method", "METHOD", "Requests with this method."),
    ("--code", "CODE", "Decided for this reason, such as `host.unknown`."),
    ("--event", "EVENT", "Lines of this event."),
    ("--grep", "TEXT", "Lines that contain this text."),
    ("--since", "MOMENT", "Not older than: `30m`, `2h`, `7d`, a day or an RFC 3339 moment."),
    ("--until", "MOMENT", "Older than a moment."),
)


def options(command: Command) -> Command:
    """Add all filter options, in this order."""
    for flag, metavar, text in reversed(_OPTIONS):
        command = click.option(flag, metavar=metavar, default="", help=text)(command)
    return command


def filters(**asked: Unpack[FilterTexts]) -> Filters:
    """Return the requested filters. Raises `UsageError`."""
    from egress.review import Filters

    since, until = moment(asked["since"], "--since"), moment(asked["until"], "--until")
    found = Filters.of({name: str(text) for name, text in asked.items()}, since, until)
    if found.since is not None and found.until is not None and found.since >= found.until:
        raise UsageError("--since is not before --until", "swap them")
    return found


def moment(text: str, flag: str) -> int | None:
    """Parse a typed moment; None for empty text. Raises `UsageError`."""
    from egress.review import InvalidTimeError, parse_typed

    if not text:
        return None
    try:
        return parse_typed(text, rulefiles.now() * 1_000_000)
    except InvalidTimeError as error:
        raise UsageError(f"{flag}: {error.message}", error.hint) from None
