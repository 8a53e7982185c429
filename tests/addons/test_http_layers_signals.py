"""Our own commands and events: mitmproxy's TLS layers must let them through as they are."""

from __future__ import annotations

from mitmproxy.connection import Client, Server
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import CommandGenerator, Layer
from mitmproxy.proxy.layers.tls import ServerTLSLayer
from mitmproxy.proxy.mode_specs import ProxyMode

from egress.addons.http_layers import (
    AbortConnection,
    CallRelay,
    FetchSecrets,
    SecondPassed,
    SecretsFetched,
    SetReading,
    WriteBlocked,
)
from egress.relay.ports import Fetch
from egress.rules.decide.policy import Policy

SERVER = Server(address=("api.example.com", 443))
EVENTS: list[events.Event] = [
    SecretsFetched(1, {}),
    WriteBlocked(SERVER, blocked=True),
    SecondPassed(),
    CallRelay("drain"),
]
COMMANDS: list[commands.Command] = [
    AbortConnection(SERVER),
    SetReading(SERVER, reads=False),
    FetchSecrets(Fetch(1, Policy(), ("api",))),
]


class Above(Layer):
    """Notes what comes, and answers with every command of ours."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.came: list[events.Event] = []

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        self.came.append(event)
        if isinstance(event, SecondPassed):
            yield from COMMANDS


def test_they_pass_a_tls_layer_of_the_connection_that_they_name() -> None:
    client = Client(
        peername=("", 0), sockname=("", 0), timestamp_start=0, proxy_mode=ProxyMode.parse("regular")
    )
    context = Context(client, Options())
    context.server = SERVER
    below = ServerTLSLayer(context)
    below.child_layer = above = Above(context)
    passed = [command for event in EVENTS for command in below.handle_event(event)]
    assert above.came == EVENTS
    assert passed == COMMANDS


def test_none_of_them_blocks_a_layer() -> None:
    """One exchange that waits must not hold up the others."""
    assert not any(command.blocking for command in COMMANDS)
