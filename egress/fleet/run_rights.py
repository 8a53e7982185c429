"""Commands with rights of their own: each gets a ticket in the address of its proxy, which ends with it.

A shell inside of the sandbox puts the ticket into the variables that it finds there, and becomes the command.
So the ticket is in the environment of the run and nowhere else, and whatever address the sandbox has stays.

The fleet revokes the ticket when the command has ended, whoever waits for it. A ticket that cannot be revoked
costs nobody the result of a command: it is told, and its own end comes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import ceil
from typing import Final

from egress.api.ticket_schema import TicketSettings, TicketView
from egress.errors import EgressError
from egress.fleet.proxy_policies import OWN_CALLER, ProxyPolicies
from egress.logger import EventLogger
from egress.run_ticket import MAX_TICKET_SECONDS, TICKET_PREFIX
from egress.runtime.errors import SandboxNotFoundError
from egress.runtime.protocol import NO_OUTPUT, Output, Runtime, RuntimeProcess
from egress.runtime.spec import Command, ExecResult, RunRights, Terminal

_log = EventLogger(__name__)

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


class RunsWithRights:
    """Runs commands of a runtime, those with rights of their own by tickets."""

    def __init__(self, runtime: Runtime, policies: ProxyPolicies) -> None:
        self._runtime = runtime
        self._policies = policies

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> RuntimeProcess:
        """Start a command. Raises `GrantRefusedError` and `GrantBeyondError` for rights that are refused."""
        if command.rights is None:
            return self._runtime.spawn(name, command, output)
        made = self._add(name, command, command.rights)
        try:
            process = self._runtime.spawn(name, ticketed(command, made.ticket), output)
        except BaseException:
            self._end(name, made.id)
            raise
        return TicketedProcess(process, lambda: self._end(name, made.id))

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        """Run a command to its end."""
        if command.rights is None:
            return self._runtime.exec(name, command, output)
        made = self._add(name, command, command.rights)
        try:
            return self._runtime.exec(name, ticketed(command, made.ticket), output)
        finally:
            self._end(name, made.id)

    def _add(self, name: str, command: Command, rights: RunRights) -> TicketView:
        limit = MAX_TICKET_SECONDS if command.timeout is None else ceil(command.timeout) + _START_SECONDS
        settings = TicketSettings(
            profile=rights.profile, params=dict(rights.parameters), ttl=min(limit, MAX_TICKET_SECONDS)
        )
        by = rights.by or OWN_CALLER
        return self._policies.add_ticket(name, settings, by, is_delegated=rights.is_delegated)

    def _end(self, name: str, ticket: str) -> None:
        try:
            self._policies.end_ticket(name, ticket)
        except SandboxNotFoundError:
            """A sandbox that is gone has taken its tickets with it."""
        except EgressError as error:
            _log.warning(
                "ticket.not_revoked", sandbox=name, ticket=ticket, cause=error.message, hint=error.hint
            )


class TicketedProcess:
    """A command whose ticket ends with it."""

    def __init__(self, process: RuntimeProcess, end_ticket: Callable[[], object]) -> None:
        self._process = process
        self._end_ticket = end_ticket
        self._is_revoked = threading.Event()
        # A thread of its own: nobody may wait for the command.
        threading.Thread(target=self._await, name="egress-ticket", daemon=True).start()

    def write(self, data: bytes) -> None:
        self._process.write(data)

    def close_input(self) -> None:
        self._process.close_input()

    def resize(self, terminal: Terminal) -> None:
        self._process.resize(terminal)

    def kill(self, grace: float = 2.0) -> None:
        self._process.kill(grace)

    def wait(self, timeout: float | None = None) -> ExecResult:
        result = self._process.wait(timeout)
        # Whoever knows that the command has ended relies on the end of its rights.
        self._is_revoked.wait(timeout)
        return result

    def _await(self) -> None:
        # However it ended; `wait` raises the reason.
        with suppress(Exception):
            self._process.wait()
        try:
            self._end_ticket()
        finally:
            self._is_revoked.set()


def ticketed(command: Command, ticket: str) -> Command:
    """Return a command that begins with a ticket in its environment."""
    if not ticket.startswith(TICKET_PREFIX):
        raise ValueError("this is no ticket")
    return replace(
        command,
        argv=("/bin/sh", "-c", _SCRIPT, "egress", *command.argv),
        env={**command.env, TICKET_VARIABLE: ticket},
        rights=None,
    )
