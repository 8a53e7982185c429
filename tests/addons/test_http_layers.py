"""The adapter between mitmproxy's layers and a relay: events in, orders out; nothing without proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.mode_specs import ProxyMode

from egress.addons.http_layers import (
    AbortConnection,
    CallRelay,
    FetchSecrets,
    HandBackClient,
    HttpLayer,
    SecondPassed,
    SecretsFetched,
    SetReading,
    TakeAnotherTurn,
    WriteBlocked,
)
from egress.addons.tls_layers import ConnectionLost
from egress.exchange import Destination
from egress.relay.ports import (
    CLIENT_WIRE,
    Close,
    Fetch,
    HandBack,
    Open,
    RelayOrder,
    Reset,
    WireEnd,
    Write,
    YieldTurn,
)
from egress.relay.relay import Relay
from egress.rules.decide.policy import Policy
from egress.types import Secret

PLAIN = Destination("http", "api.example.com", 80)


class Script:
    """A relay that notes what it is told, and answers what it was told to."""

    def __init__(self) -> None:
        self.destination = PLAIN
        self.told: list[object] = []
        self.orders: list[RelayOrder] = []
        self.held: set[int] = set()

    def _answer(self, *told: object) -> list[RelayOrder]:
        self.told.append(told)
        orders, self.orders = self.orders, []
        return orders

    def start(self) -> list[RelayOrder]:
        return self._answer("start")

    def received(self, wire: int, data: bytes) -> list[RelayOrder]:
        return self._answer("received", wire, data)

    def ended(self, wire: int, how: WireEnd = "clean") -> list[RelayOrder]:
        return self._answer("ended" if how == "clean" else how, wire)

    def opened(self, wire: int, alpn: str) -> list[RelayOrder]:
        return self._answer("opened", wire, alpn)

    def failed(self, wire: int, code: str) -> list[RelayOrder]:
        return self._answer("failed", wire, code)

    def fetched(self, ticket: int, secrets: Mapping[str, Secret]) -> list[RelayOrder]:
        return self._answer("fetched", ticket)

    def blocked(self, wire: int, *, blocked: bool) -> list[RelayOrder]:
        return self._answer("blocked", wire, blocked)

    def tick(self) -> list[RelayOrder]:
        return self._answer("tick")

    def again(self) -> list[RelayOrder]:
        return self._answer("again")

    def shut(self, code: str) -> list[RelayOrder]:
        return self._answer("shut", code)

    def close(self, wire: int) -> list[RelayOrder]:
        raise NotImplementedError

    def reads(self, wire: int) -> bool:
        return wire not in self.held


class Keeper:
    """Says whether a connection is fit as the test wants it."""

    def __init__(self) -> None:
        self.fit = True

    def is_fit(self, wire: int, server: Server) -> bool:
        return self.fit

    def failure_code(self, wire: int, server: Server, error: str) -> str:
        return error or "upstream.tls"

    def event(self, event: events.Event) -> None:
        raise NotImplementedError


class Stage:
    """A layer, and what it is asked and answers."""

    def __init__(self) -> None:
        self.client = Client(
            peername=("", 0), sockname=("", 0), timestamp_start=0, proxy_mode=ProxyMode.parse("regular")
        )
        self.client.state = ConnectionState.OPEN
        self.relay, self.keeper = Script(), Keeper()
        self.layer = HttpLayer(Context(self.client, Options()), cast("Relay", self.relay), self.keeper)

    def event(self, event: events.Event, *orders: RelayOrder) -> list[commands.Command]:
        self.relay.orders = list(orders)
        return list(self.layer.handle_event(event))

    def opening(self, wire: int = 1) -> commands.OpenConnection:
        [command] = self.event(events.Start(), Open(wire, ("http/1.1",)))
        assert isinstance(command, commands.OpenConnection)
        return command

    def opened(self, wire: int = 1) -> Server:
        command = self.opening(wire)
        command.connection.state = ConnectionState.OPEN
        assert self.event(events.OpenConnectionCompleted(command, None)) == []
        return command.connection


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_what_happens_is_told_to_the_relay_in_its_words(stage: Stage) -> None:
    for event in (
        events.Start(),
        events.DataReceived(stage.client, b"GET"),
        WriteBlocked(stage.client, blocked=True),
        SecretsFetched(7, {}),
        SecondPassed(),
        CallRelay("shut", "internal"),
        events.ConnectionClosed(stage.client),
    ):
        stage.event(event)
    assert stage.relay.told == [
        ("start",),
        ("received", CLIENT_WIRE, b"GET"),
        ("blocked", CLIENT_WIRE, True),
        ("fetched", 7),
        ("tick",),
        ("shut", "internal"),
        ("ended", CLIENT_WIRE),
    ]


def test_only_the_entries_of_a_relay_can_be_ordered(stage: Stage) -> None:
    """What comes from outside names a method; not every method is for everybody."""
    assert stage.event(CallRelay("close", CLIENT_WIRE)) == []
    assert stage.relay.told == []


def test_orders_become_commands(stage: Stage) -> None:
    fetch = Fetch(1, Policy(), ("api",))
    write, fetching, close = stage.event(SecondPassed(), Write(CLIENT_WIRE, b"x"), fetch, Close(CLIENT_WIRE))
    assert isinstance(write, commands.SendData)
    assert (write.connection, write.data) == (stage.client, b"x")
    assert isinstance(fetching, FetchSecrets)
    assert fetching.order is fetch
    assert isinstance(close, commands.CloseConnection)
    [reset] = stage.event(SecondPassed(), Reset(CLIENT_WIRE))
    assert isinstance(reset, AbortConnection)


def test_a_client_is_handed_back_with_its_bytes(stage: Stage) -> None:
    [command] = stage.event(SecondPassed(), HandBack(b"GET http://other/"))
    assert isinstance(command, HandBackClient)
    assert command.data == b"GET http://other/"


def test_an_upstream_is_opened_at_the_destination_and_nowhere_else(stage: Stage) -> None:
    command = stage.opening()
    assert command.connection.address == (PLAIN.host, PLAIN.port)
    assert command.connection.sni == PLAIN.host
    assert command.connection.via is None


def test_an_upstream_that_stands_is_written_to_and_read(stage: Stage) -> None:
    server = stage.opened()
    assert stage.relay.told[-1] == ("opened", 1, "")
    [write] = stage.event(SecondPassed(), Write(1, b"GET"))
    assert isinstance(write, commands.SendData)
    assert (write.connection, write.data) == (server, b"GET")
    stage.event(events.DataReceived(server, b"HTTP"))
    stage.event(events.ConnectionClosed(server))
    assert stage.relay.told[-2:] == [("received", 1, b"HTTP"), ("ended", 1)]


def test_an_upstream_that_speaks_first_is_heard_once_its_connection_is_open(stage: Stage) -> None:
    """Its bytes may come with the end of the handshake, and so may its end."""
    command = stage.opening()
    server = command.connection
    told = len(stage.relay.told)
    stage.event(events.DataReceived(server, b"HTTP/1.1 "))
    stage.event(events.DataReceived(server, b"503"))
    stage.event(events.ConnectionClosed(server))
    assert len(stage.relay.told) == told
    stage.event(events.OpenConnectionCompleted(command, None))
    assert stage.relay.told[told:] == [
        ("opened", 1, ""),
        ("received", 1, b"HTTP/1.1 "),
        ("received", 1, b"503"),
        ("ended", 1),
    ]


def test_of_an_upstream_that_speaks_first_and_is_not_fit_nothing_is_heard(stage: Stage) -> None:
    stage.keeper.fit = False
    command = stage.opening()
    stage.event(events.DataReceived(command.connection, b"HTTP/1.1 503"))
    stage.event(events.OpenConnectionCompleted(command, None))
    assert stage.relay.told[-1] == ("failed", 1, "upstream.tls")
    assert "received" not in {told[0] for told in stage.relay.told if isinstance(told, tuple)}


def test_a_connection_that_breaks_is_no_end_that_the_upstream_has_made(stage: Stage) -> None:
    """In clear text a reset; over TLS whether there was a goodbye decides, see test_tls_layers."""
    server = stage.opened()
    stage.event(ConnectionLost(server))
    assert stage.relay.told[-1] == ("cut", 1)


def test_nothing_is_written_before_an_upstream_stands(stage: Stage) -> None:
    """Not even if the relay were to ask for it."""
    stage.opening()
    with pytest.raises(RuntimeError, match="not proven"):
        stage.event(SecondPassed(), Write(1, b"GET"))


def test_nothing_is_written_to_an_upstream_that_is_not_fit(stage: Stage) -> None:
    stage.keeper.fit = False
    command = stage.opening()
    command.connection.state = ConnectionState.OPEN
    [close] = stage.event(events.OpenConnectionCompleted(command, None))
    assert isinstance(close, commands.CloseConnection)
    assert close.connection is command.connection
    assert stage.relay.told[-1:] == [("failed", 1, "upstream.tls")]
    assert stage.event(SecondPassed(), Write(1, b"GET")) == []


def test_why_an_upstream_could_not_be_reached_is_told(stage: Stage) -> None:
    command = stage.opening()
    stage.event(events.OpenConnectionCompleted(command, "upstream.unreachable"))
    assert stage.relay.told[-1] == ("failed", 1, "upstream.unreachable")


def test_of_an_upstream_that_is_closed_nothing_more_is_heard(stage: Stage) -> None:
    server = stage.opened()
    stage.event(SecondPassed(), Close(1))
    told = len(stage.relay.told)
    stage.event(events.DataReceived(server, b"late"))
    assert len(stage.relay.told) == told
    assert stage.event(SecondPassed(), Close(1), Write(1, b"late")) == []


def test_reading_is_held_and_let_go_of_once_each(stage: Stage) -> None:
    server = stage.opened()
    stage.relay.held = {CLIENT_WIRE, 1}
    gates = [
        (gate.connection, gate.reads) for gate in stage.event(SecondPassed()) if isinstance(gate, SetReading)
    ]
    assert gates == [(stage.client, False), (server, False)]
    assert stage.event(SecondPassed()) == []
    stage.relay.held = {1}
    [gate] = stage.event(SecondPassed())
    assert isinstance(gate, SetReading)
    assert (gate.connection, gate.reads) == (stage.client, True)


def test_of_an_upstream_that_does_not_take_what_is_written_the_relay_hears(stage: Stage) -> None:
    server = stage.opened()
    stage.event(WriteBlocked(server, blocked=True))
    assert stage.relay.told[-1] == ("blocked", 1, True)


def test_another_turn_is_left_to_whoever_gives_the_others_theirs(stage: Stage) -> None:
    [command] = stage.event(SecondPassed(), YieldTurn())
    assert isinstance(command, TakeAnotherTurn)
    stage.event(CallRelay("again"))
    assert stage.relay.told[-1] == ("again",)
