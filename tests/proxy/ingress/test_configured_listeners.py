"""Listeners are opened all or none, taken away, brought back at the same place, and follow the rules."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address

import pytest

from egress.errors import UnreadableError
from egress.proxy.ingress import configured_listeners as module
from egress.proxy.ingress.configured_listeners import ConfiguredListeners, ports_of
from egress.proxy.ingress.listener import Listener, listen
from egress.proxy.setting_values import ListenAddress
from egress.proxy.settings import Settings
from tests.proxy.lab.proxy_stack import policy_of

TRANSPARENT = {"transparent": "127.0.0.2", "network": True}


class Door:
    """A door that only knows its listeners."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []

    async def open(self, listener: Listener) -> tuple[str, int]:
        self.listeners.append(listener)
        host, port = listener.sock.getsockname()[:2]
        return host, port

    async def close_sandbox(self, sandbox: str) -> None:
        assert {listener.sandbox for listener in self.listeners} <= {sandbox}
        await self.close_listeners(list(self.listeners))

    async def close_listeners(self, listeners: Collection[Listener]) -> None:
        for listener in listeners:
            listener.sock.close()
            self.listeners.remove(listener)


class Names(Door):
    """Name servers that only know their listeners, and what they are to answer."""

    answer: IPv4Address | None = None

    async def open(self, listener: Listener, answer: IPv4Address | None = None) -> tuple[str, int]:
        self.answer = answer
        return await super().open(listener)


class House:
    """All that listeners are opened at, and the ports that the rules name."""

    def __init__(self) -> None:
        self.password = b""
        self.door = Door()
        self.names = Names()
        self.ports: set[int] = set()
        self.gate_ports: set[int] = set()

    def listening(self, *addresses: str, **more: object) -> ConfiguredListeners:
        values = Settings.model_validate({"listen": addresses or "127.0.0.1:0", "sandbox": "box", **more})
        ports = self.gate_ports
        return ConfiguredListeners(self.door, self.names, values, self.password, lambda: self.ports, ports)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    yield house
    for listener in (*house.door.listeners, *house.names.listeners):
        listener.sock.close()


@contextmanager
def taken() -> Iterator[int]:
    """A port of 127.0.0.2 on which somebody else listens."""
    with listen("127.0.0.2", 0) as sock:
        yield sock.getsockname()[1]


def free(count: int) -> list[int]:
    """Ports of 127.0.0.2 that nobody has."""
    socks = [listen("127.0.0.2", 0) for _ in range(count)]
    ports = [int(sock.getsockname()[1]) for sock in socks]
    for sock in socks:
        sock.close()
    return sorted(ports)


async def can_dial(at: ListenAddress) -> bool:
    try:
        _, writer = await asyncio.open_connection(at.host, at.port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


# The proxy ----------------------------------------------------------------------------------------


async def test_every_address_is_opened_for_the_sandbox(house: House) -> None:
    listening = house.listening("127.0.0.1:0", "127.0.0.1:0")
    assert listening.addresses == {}
    await listening.open()
    one, two = listening.addresses["box"]
    assert one.port != two.port
    assert await can_dial(one)
    assert {listener.sandbox for listener in house.door.listeners} == {"box"}


@pytest.mark.parametrize(
    ("more", "password", "how"),
    [
        ({}, b"", "owner-uid"),
        ({"network": True}, b"", "network"),
        ({"network": True, "password_file": "password"}, b"x" * 32, "password"),
    ],
)
async def test_who_is_served_follows_from_the_settings(
    house: House, more: dict[str, object], password: bytes, how: str
) -> None:
    house.password = password
    await house.listening("127.0.0.1:0", **more).open()
    (listener,) = house.door.listeners
    assert (listener.authentication, listener.password) == (how, password)
    assert listener.is_shared is (how != "owner-uid")


async def test_what_was_taken_away_comes_back_at_the_same_port(house: House) -> None:
    house.ports = set(free(1))
    listening = house.listening("127.0.0.1:0", dns="127.0.0.1:0", **TRANSPARENT)
    await listening.open()
    places = (*listening.addresses["box"], *listening.transparent, *listening.names)
    assert len(places) == 3
    await listening.shut("another")
    assert all([await can_dial(at) for at in places])
    await listening.shut("box")
    assert (listening.addresses, listening.transparent, listening.names) == ({}, (), ())
    assert not any([await can_dial(at) for at in places])
    await listening.reopen("box")
    assert (*listening.addresses["box"], *listening.transparent, *listening.names) == places
    assert all([await can_dial(at) for at in places])
    await listening.reopen("box")
    assert len(house.door.listeners) == 2, "it is opened once"


async def test_a_port_that_somebody_took_meanwhile_is_named_with_the_way_back(house: House) -> None:
    listening = house.listening("127.0.0.2:0")
    await listening.open()
    (place,) = listening.addresses["box"]
    await listening.shut("box")
    with listen("127.0.0.2", place.port):
        with pytest.raises(
            UnreadableError, match=f"127.0.0.2:{place.port}: address already in use"
        ) as caught:
            await listening.reopen("box")
        assert f"(pid {os.getpid()})" in caught.value.message
        assert "give the sandbox back again" in caught.value.hint
        assert "--listen" not in caught.value.hint, "it runs already"
    await listening.reopen("box")
    assert listening.addresses["box"] == (place,)


@pytest.mark.parametrize("kind", ["listen", "transparent", "dns"])
async def test_where_one_cannot_be_opened_none_is(house: House, kind: str) -> None:
    with taken() as port:
        more: dict[str, object] = {**TRANSPARENT, "dns_answer": "127.0.0.2", "dns": "127.0.0.2:0"}
        addresses = ["127.0.0.1:0"]
        if kind == "listen":
            addresses.append(f"127.0.0.2:{port}")
        elif kind == "dns":
            more["dns"] = f"127.0.0.2:{port}"
        else:
            house.ports = {*free(1), port}
        listening = house.listening(*addresses, **more)
        with pytest.raises(UnreadableError, match=f"127.0.0.2:{port}") as caught:
            await listening.open()
    assert f"--{kind}" in caught.value.hint
    assert house.door.listeners == house.names.listeners == []
    assert listening.addresses == {}


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.EACCES, "CAP_NET_BIND_SERVICE"),
        (errno.EACCES, "net.ipv4.ip_unprivileged_port_start"),
        (errno.EADDRNOTAVAIL, "no interface"),
        (errno.EADDRINUSE, "stop the process that listens there"),
        (errno.EMFILE, "name another --listen"),
    ],
)
async def test_an_error_of_the_system_comes_with_its_cure(
    house: House, monkeypatch: pytest.MonkeyPatch, number: int, cure: str
) -> None:
    def fails(host: str, port: int) -> socket.socket:
        raise OSError(number, "It Is So")

    monkeypatch.setattr(module, "listen", fails)
    with pytest.raises(UnreadableError, match=r"cannot listen on 127\.0\.0\.1:81: it is so") as caught:
        await house.listening("127.0.0.1:81").open()
    assert cure in caught.value.hint


# Transparent --------------------------------------------------------------------------------------


async def test_a_transparent_listener_stands_on_every_port_of_the_rules(house: House) -> None:
    one, two = free(2)
    house.ports = {one, two}
    listening = house.listening(**TRANSPARENT)
    await listening.open()
    assert listening.transparent == (ListenAddress("127.0.0.2", one), ListenAddress("127.0.0.2", two))
    kinds = [(item.kind, item.authentication) for item in house.door.listeners]
    assert kinds == [("proxy", "network"), ("transparent", "network"), ("transparent", "network")]
    assert all(item.is_shared for item in house.door.listeners)


async def test_listeners_follow_the_ports_of_new_rules(house: House) -> None:
    stays, goes, comes = free(3)
    house.ports = {stays, goes}
    listening = house.listening(**TRANSPARENT)
    await listening.open()
    kept = [item for item in house.door.listeners if item.port == stays]
    house.ports = {stays, comes}
    assert await listening.follow() == ()
    assert {at.port for at in listening.transparent} == {stays, comes}
    assert not await can_dial(ListenAddress("127.0.0.2", goes))
    assert await can_dial(ListenAddress("127.0.0.2", comes))
    assert kept[0] in house.door.listeners, "it was not opened anew"


async def test_the_port_of_gates_is_served_whatever_the_rules_name(house: House) -> None:
    """Rules without a host on port 443 would otherwise let no pod start."""
    (named,) = free(1)
    house.ports = {named}
    with taken() as port:
        house.gate_ports = {port}
        listening = house.listening(**TRANSPARENT)
        await listening.open()
        assert {at.port for at in listening.transparent} == {named}, "it is no reason not to start"
        assert await listening.follow() == ()
    assert await listening.follow() == ()
    assert {at.port for at in listening.transparent} == {named, port}
    house.ports = set()
    await listening.follow()
    assert {at.port for at in listening.transparent} == {port}


async def test_a_port_that_cannot_be_opened_is_told_and_tried_again(house: House) -> None:
    good, later = free(2)
    listening = house.listening(**TRANSPARENT)
    await listening.open()
    with taken() as port:
        house.ports = {good, port}
        (failed,) = await listening.follow()
        assert (failed.at, listening.failed) == (ListenAddress("127.0.0.2", port), (failed,))
        assert f"127.0.0.2:{port}" in failed.reason
        assert [at.port for at in listening.transparent] == [good]
    house.ports = {good, port, later}
    assert await listening.follow() == ()
    assert {at.port for at in listening.transparent} == {good, port, later}
    assert listening.failed == ()


async def test_a_sandbox_that_was_taken_away_gets_no_port_by_new_rules(house: House) -> None:
    listening = house.listening(**TRANSPARENT)
    await listening.open()
    await listening.shut("box")
    house.ports = set(free(1))
    assert await listening.follow() == ()
    assert house.door.listeners == []
    await listening.reopen("box")
    assert len(listening.transparent) == 1, "now it has it"


def test_the_ports_are_those_of_the_rules() -> None:
    rules = (
        "version: 1\nhosts:\n  a.example.com: {ports: [8443]}\n  b.example.com: {http: true, allow: all}\n"
    )
    assert ports_of(policy_of(rules)) == {8443, 443, 80}
    assert ports_of(policy_of("version: 1\nhosts:\n  a.example.com: {ports: [8443]}\n")) == {8443}
    observed = "version: 1\nmode: observe\nhosts:\n  a.example.com: {ports: [8443]}\n"
    assert ports_of(policy_of(observed)) == {8443, 443, 80}


# Names --------------------------------------------------------------------------------------------


async def test_names_are_asked_for_at_one_port_by_both_protocols(house: House) -> None:
    listening = house.listening(dns="127.0.0.2:0", dns_answer="192.0.2.7", **TRANSPARENT)
    await listening.open()
    assert [item.kind for item in house.names.listeners] == ["dns-tcp", "dns-udp"]
    assert {item.port for item in house.names.listeners} == {listening.names[0].port}
    assert house.names.answer == IPv4Address("192.0.2.7")
