"""A command with rights of its own: it gets a ticket in the address of its proxy, which ends with it.

A shell inside of the sandbox puts the ticket into the variables that it finds there, and becomes the command.
So the ticket is in the environment of the run and nowhere else, and whatever address the sandbox has stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from typing import Final

from egress.run_ticket import MAX_TICKET_SECONDS, TICKET_PREFIX
from egress.runtime.spec import Command, Values
from egress.sandbox import capabilities
from egress.sandbox.command_runner import CommandRunner

TICKET_VARIABLE: Final = "EGRESS_TICKET"
_START_SECONDS: Final = 60
"""Seconds between the ticket and the start of the command, at most."""
_NO_PROXY_STATUS: Final = 126
_SCRIPT: Final = f"""\
is_set=
for name in HTTPS_PROXY https_proxy HTTP_PROXY http_proxy ALL_PROXY all_proxy \\
    WSS_PROXY wss_proxy WS_PROXY ws_proxy YARN_HTTPS_PROXY YARN_HTTP_PROXY
do
    eval "url=\\${{$name-}}"
    case $url in
    http://*)
        rest=${{url#http://}}
        export "$name=http://${TICKET_VARIABLE}@${{rest##*@}}"
        case $name in HTTPS_PROXY|https_proxy) is_set=1 ;; esac ;;
    esac
done
unset {TICKET_VARIABLE}
if [ -z "$is_set" ]
then
    echo "egress: HTTPS_PROXY is not set in this sandbox, so a run cannot have rights of its own" >&2
    exit {_NO_PROXY_STATUS}
fi
exec "$@"
"""


@contextmanager
def with_rights(
    place: CommandRunner, command: Command, profile: str | None, parameters: Values
) -> Iterator[Command]:
    """Give a command a ticket until the end of the block. Without wishes it stays as it is."""
    if profile is None and not parameters:
        yield command
        return
    # Imported here: few programs need it, and each would load the values of the API.
    from egress.api.ticket_schema import TicketSettings  # noqa: PLC0415

    policies = capabilities.require_fleet(place.runtime, "give a run rights of its own").policies
    limit = MAX_TICKET_SECONDS if command.timeout is None else ceil(command.timeout) + _START_SECONDS
    settings = TicketSettings(profile=profile, params=dict(parameters), ttl=min(limit, MAX_TICKET_SECONDS))
    made = policies.add_ticket(place.name, settings)
    try:
        yield ticketed(command, made.ticket)
    finally:
        policies.end_ticket(place.name, made.id)


def ticketed(command: Command, ticket: str) -> Command:
    """Return a command that begins with a ticket in its environment."""
    if not ticket.startswith(TICKET_PREFIX):
        raise ValueError("this is no ticket")
    return replace(
        command,
        argv=("/bin/sh", "-c", _SCRIPT, "egress", *command.argv),
        env={**command.env, TICKET_VARIABLE: ticket},
    )
