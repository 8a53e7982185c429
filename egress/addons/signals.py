"""Commands and events of our own, beside those of mitmproxy: they pass through its layers untouched.

They name a connection without being a `ConnectionCommand` or `ConnectionEvent`: its TLS layers take
every one of those for themselves, and know only their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from mitmproxy.connection import Connection
from mitmproxy.proxy.commands import Command
from mitmproxy.proxy.events import Event

from egress.relay.orders import Fetch
from egress.types import Secret


class FetchSecrets(Command):
    """Get secrets; answered by `SecretsFetched`. Does not block: other exchanges go on."""

    def __init__(self, order: Fetch) -> None:
        self.order = order


class AbortConnection(Command):
    """Close at once, dropping what was not sent yet."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection


class GateReading(Command):
    """Stop or resume reading a connection."""

    def __init__(self, connection: Connection, *, reads: bool) -> None:
        self.connection = connection
        self.reads = reads


class TakeAnotherTurn(Command):
    """Say `again` once everything that is ready now has had its turn."""


class SecretsFetched(Event):
    """The secrets that could be had."""

    def __init__(self, ticket: int, secrets: Mapping[str, Secret]) -> None:
        self.ticket = ticket
        self.secrets = secrets


class WriteBlocked(Event):
    """A connection does not take what was written, or does again."""

    def __init__(self, connection: Connection, *, blocked: bool) -> None:
        self.connection = connection
        self.blocked = blocked


class Ticked(Event):
    """A second has passed."""


class Ordered(Event):
    """Something from outside of the connection: a reload, a drain, a kill."""

    def __init__(self, name: str, *arguments: object) -> None:
        self.name = name
        self.arguments = arguments
