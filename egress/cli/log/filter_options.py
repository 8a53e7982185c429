"""The options that say which lines are wanted; the same for every command that takes some."""

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
    """The options as click hands them on."""

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
    ("--sandbox", "NAME", "Of this sandbox."),
    ("--host", "NAME", "To this host; `*` stands for any text."),
    ("--verdict", "VERDICT", "`allow` or `deny`."),
    ("--secret", "NAME", "With this secret."),
    ("--status", "STATUS", "With this status; `5xx` for all of them."),
    ("--rule", "ID", "By this rule: `read`, or `api.github.com#read`."),
    ("--method", "METHOD", "With this method."),
    ("--code", "CODE", "Decided for this reason, such as `host.unknown`."),
    ("--event", "EVENT", "Lines of this kind."),
    ("--grep", "TEXT", "With this text somewhere in it."),
    ("--since", "MOMENT", "Not older: `30m`, `2h`, `7d`, a day or an RFC 3339 moment."),
    ("--until", "MOMENT", "Older than this."),
)


def options(command: Command) -> Command:
    """Add them all, in this order."""
    for flag, metavar, text in reversed(_OPTIONS):
        command = click.option(flag, metavar=metavar, default="", help=text)(command)
    return command


def filters(**asked: Unpack[FilterTexts]) -> Filters:
    """The filters that were asked for. Raises `UsageError`."""
    from egress.review import Filters

    since, until = moment(asked["since"], "--since"), moment(asked["until"], "--until")
    found = Filters.of({name: str(text) for name, text in asked.items()}, since, until)
    if found.since is not None and found.until is not None and found.since >= found.until:
        raise UsageError("--since is not before --until", "swap them")
    return found


def moment(text: str, flag: str) -> int | None:
    """A moment that was typed; None for nothing. Raises `UsageError`."""
    from egress.review import InvalidTimeError, parse_typed

    if not text:
        return None
    try:
        return parse_typed(text, rulefiles.now() * 1_000_000)
    except InvalidTimeError as error:
        raise UsageError(f"{flag}: {error.message}", error.hint) from None
