"""Which sockets names are asked for on, and what is recorded of those that do not exist."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from egress.audit.flood_limit import MAX_SINGLE_REFUSALS
from egress.errors import UsageError
from egress.proxy.clock import SystemClock
from egress.proxy.dns.name_servers import NameServers
from egress.proxy.dns.server import Explains
from egress.proxy.ingress.listener import Listener, ListenerKind, listen, listen_udp
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import SANDBOX, ProxyStack, policy_of
from tests.unit.proxy.dns_messages import (
    AAAA,
    ANY,
    FORMERR,
    HTTPS,
    NOERROR,
    NXDOMAIN,
    TXT,
    A,
    Told,
    query,
    told,
)

ANSWER = IPv4Address("192.0.2.9")
RULES = """\
version: 1
deny: [{id: bad, hosts: [bad.example.com]}]
hosts: {api.example.com: {}, bad.example.com: {}}
"""


class Standing(SystemClock):
    """No second ever ends."""

    def monotonic(self) -> float:
        return 1.0


class House:
    """Name servers, and the proxy they are part of."""

    def __init__(self, stack: ProxyStack, explains: Explains | None = None) -> None:
        self.stack = stack
        self.names = NameServers(stack.engine, None, explains)

    async def open(self, kind: ListenerKind = "dns-udp", sandbox: str = SANDBOX) -> tuple[str, int]:
        sock = (listen_udp if kind == "dns-udp" else listen)("127.0.0.1", 0)
        try:
            return await self.names.open(Listener(f"my {kind}", kind, sandbox, sock), ANSWER)
        except BaseException:
            sock.close()
            raise


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with ProxyStack(tmp_path, Certificates(), RULES) as stack:
        house = House(stack)
        yield house
        await house.names.close()


@pytest.fixture
async def explaining(tmp_path: Path) -> AsyncIterator[House]:
    """Where denied names lead to a page: TLS is served on its usual port, as clients see it."""
    async with ProxyStack(tmp_path, Certificates(), RULES) as stack:
        house = House(stack, stack.door.explains)
        yield house
        await house.names.close()


async def serve_https(house: House) -> Listener:
    listener = Listener("https", "transparent", SANDBOX, listen("127.0.0.1", 0), given_port=443)
    await house.stack.door.open(listener)
    return listener


async def ask(at: tuple[str, int], name: str, kind: int = A) -> Told:
    def asked() -> bytes:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(20)
            sock.connect(at)
            sock.send(query(name, kind))
            return sock.recv(2000)

    return told(await asyncio.to_thread(asked))


async def test_an_allowed_name_is_answered_and_nothing_is_recorded(house: House) -> None:
    assert (await ask(await house.open(), "api.example.com")).addresses == (str(ANSWER),)
    assert house.stack.lines() == []


async def test_a_name_that_carries_a_canary_does_not_exist_and_is_masked(house: House) -> None:
    """Also one that is allowed: it is answered here, but whoever asks has what nobody is to use."""
    engine = house.stack.engine
    engine.swap(policy_of("version: 1\ncanaries: {decoy: {like: aws}}\nhosts: {'*.example.com': {}}"))
    canaries = engine.sandboxes[SANDBOX].canaries(engine.policy)
    assert canaries is not None
    value, at = canaries.all[0].value, await house.open()
    assert (await ask(at, f"x{value}.example.com")).rcode == NXDOMAIN
    assert (await ask(at, f"x{value[1:]}.example.com")).addresses == (str(ANSWER),)
    [line] = house.stack.lines()
    assert (line["code"], line["rule"], line["entry"]) == ("canary.seen", "canaries#decoy", "dns")
    assert line["host"] == f"{'*' * 21}.example.com"


async def test_a_refused_name_is_recorded_with_what_refused_it(house: House) -> None:
    at = await house.open()
    for name in ("bad.example.com", "other.example.com"):
        assert (await ask(at, name)).rcode == NXDOMAIN
    denied, unknown = house.stack.lines()
    assert (denied["event"], denied["entry"], denied["listener"]) == ("refusal", "dns", "my dns-udp")
    assert str(denied["rule"]).endswith("#bad")
    assert (unknown["host"], unknown["code"], unknown["rule"]) == ("other.example.com", "host.unknown", None)
    assert unknown["policy"] == house.stack.engine.policy.digest
    assert house.stack.audit.tally.refused == 2


# Names that lead to a page ------------------------------------------------------------------------


async def test_a_denied_name_leads_to_the_page_that_says_why(explaining: House) -> None:
    """It is recorded like one that does not exist, and nothing is asked of any other server."""
    await serve_https(explaining)
    at = await explaining.open()
    found = await ask(at, "c2VjcmV0.evil.example.com")
    assert (found.rcode, found.addresses) == (NOERROR, (str(ANSWER),))
    assert (await ask(at, "bad.example.com")).addresses == (str(ANSWER),)
    unknown, denied = explaining.stack.lines()
    assert (unknown["host"], unknown["code"]) == ("c2vjcmv0.evil.example.com", "host.unknown")
    assert str(denied["rule"]).endswith("#bad")


@pytest.mark.parametrize("kind", [AAAA, TXT, HTTPS, ANY])
async def test_a_denied_name_has_an_address_and_nothing_else(explaining: House, kind: int) -> None:
    await serve_https(explaining)
    found = await ask(await explaining.open(), "evil.example.com", kind)
    assert (found.rcode, found.addresses) == (NOERROR, ())


@pytest.mark.parametrize(
    "name",
    [
        "db",
        "wpad.a.test",
        "7.113.0.203.in-addr.arpa",
        "x.local",
        "_443._tcp.a.test",
        "use-application-dns.net",
        "a..b",
    ],
)
async def test_a_name_that_nobody_expects_to_exist_does_not(explaining: House, name: str) -> None:
    await serve_https(explaining)
    assert (await ask(await explaining.open(), name)).rcode in (NXDOMAIN, FORMERR)


async def test_a_denied_name_does_not_exist_where_no_page_is_served(explaining: House) -> None:
    """Before the listener for it is open, after it is closed, and where its TLS stays closed."""
    at = await explaining.open()
    assert (await ask(at, "evil.example.com")).rcode == NXDOMAIN
    listener = await serve_https(explaining)
    assert (await ask(at, "evil.example.com")).rcode == NOERROR
    rules = (
        "version: 1\ndeny: [{id: bad, hosts: [a.example.com]}]\nhosts: {a.example.com: {intercept: never}}"
    )
    explaining.stack.engine.swap(policy_of(rules))
    assert (await ask(at, "a.example.com")).rcode == NXDOMAIN
    await explaining.stack.door.close_listeners([listener])
    assert (await ask(at, "evil.example.com")).rcode == NXDOMAIN


async def test_a_name_with_a_canary_does_not_exist_although_pages_are_served(explaining: House) -> None:
    await serve_https(explaining)
    engine = explaining.stack.engine
    engine.swap(policy_of("version: 1\ncanaries: {decoy: {like: aws}}\nhosts: {}"))
    canaries = engine.sandboxes[SANDBOX].canaries(engine.policy)
    assert canaries is not None
    found = await ask(await explaining.open(), f"x{canaries.all[0].value}.evil.example.com")
    assert found.rcode == NXDOMAIN
    [line] = explaining.stack.lines()
    assert line["code"] == "canary.seen"


async def send(at: tuple[str, int], messages: Iterable[bytes]) -> None:
    """Send datagrams, and wait until all have been looked at: the last is a question."""

    def sent() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(20)
            sock.connect(at)
            for message in messages:
                sock.send(message)
            sock.send(query("api.example.com", number=4711))
            while told(sock.recv(2000)).number != 4711:
                pass

    await asyncio.to_thread(sent)


async def test_what_is_no_question_is_recorded_too(house: House) -> None:
    await send(await house.open(), [b"is anybody there?", query("data.evil.example", 252), b"scrap"])
    lines = house.stack.lines()
    assert [(each["event"], each["entry"], each["code"], each["host"]) for each in lines] == [
        ("refusal", "dns", "protocol.refused", ""),
        ("refusal", "dns", "protocol.refused", "data.evil.example"),
        ("refusal", "dns", "protocol.refused", ""),
    ]
    assert {(each["rule"], each["place"]) for each in lines} == {(None, None)}
    assert {each["policy"] for each in lines} == {house.stack.engine.policy.digest}


async def test_a_flood_of_what_is_no_question_is_folded(tmp_path: Path) -> None:
    """Else whoever sends it would fill the log, which nobody could do with names."""
    async with ProxyStack(tmp_path, Certificates(), RULES, clock=Standing()) as stack:
        house = House(stack)
        try:
            await send(await house.open(), [b"junk %d" % number for number in range(100)])
        finally:
            await house.names.close()
    lines = [line for line in stack.lines() if line["event"] in ("refusal", "folded")]
    assert [line["event"] for line in lines] == ["refusal"] * MAX_SINGLE_REFUSALS + ["folded"]
    assert (lines[-1]["code"], lines[-1]["count"]) == ("protocol.refused", 100 - MAX_SINGLE_REFUSALS)


async def test_names_follow_the_rules_in_force(house: House) -> None:
    at = await house.open()
    engine = house.stack.engine
    engine.swap(type(engine.policy)())
    assert (await ask(at, "api.example.com")).rcode == NXDOMAIN


@pytest.mark.parametrize("kind", ["dns-udp", "dns-tcp"])
async def test_only_a_sandbox_that_exists_is_answered(house: House, kind: ListenerKind) -> None:
    with pytest.raises(UsageError, match="no sandbox"):
        await house.open(kind, "nobody")
    with listen("127.0.0.1", 0) as sock, pytest.raises(UsageError, match="cannot authenticate its clients"):
        await house.names.open(Listener("x", "dns-tcp", SANDBOX, sock, "owner-uid"), ANSWER)


async def test_the_name_servers_of_one_sandbox_are_closed(house: House) -> None:
    engine = house.stack.engine
    engine.sandboxes["box"] = engine.sandboxes[SANDBOX]
    own, others = await house.open("dns-tcp", "box"), await house.open("dns-tcp")
    await house.names.close_sandbox("box")
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(*own)
    _, writer = await asyncio.open_connection(*others)
    writer.close()
    await house.names.close()
    await house.names.close()


async def test_two_who_close_the_same_ones_do_not_meet(house: House) -> None:
    """Somebody removes a sandbox while its access is taken back."""
    own = await house.open("dns-tcp")
    await asyncio.gather(house.names.close_sandbox(SANDBOX), house.names.close(), house.names.close())
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(*own)
