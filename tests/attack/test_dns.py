"""Names as a way out: S-46 (a name server outside) and S-47 (data in names), asked of the responder.

That no packet reaches another name server is tested with the sandboxes; here is that our own one neither
forwards nor resolves, whatever it is asked. The positive control: an allowed name is answered.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address

import pytest

from egress.proxy.dns.server import Responder
from egress.proxy.dns.wire_format import MAX_MESSAGE_BYTES
from egress.proxy.ingress.peer_identity import PeerIdentity
from egress.types import HostDecision, Identity
from tests.unit.proxy.dns_messages import (
    AAAA,
    HTTPS,
    MX,
    NOERROR,
    NS,
    NXDOMAIN,
    OPT,
    PTR,
    SVCB,
    TXT,
    A,
    edns,
    query,
    told,
    wire_name,
)
from tests.unit.rules.rule_samples import NOW, policy

RULES = policy('hosts: {api.example.com: {}, "*.static.example.com": {}, old.example.com: {allow: []}}')
DOOR = "10.9.0.1"
TUNNEL = "nb2wk3dpfqqho33snrscc5dinfzsa2ltebqsa43fmnzgk5a.t.evil.example"


class Clock:
    def now(self) -> int:
        return NOW

    def now_ns(self) -> int:
        return NOW * 1_000_000_000

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def no_resolver(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whatever would ask somebody else, by any call of the standard library, is noted."""
    asked: list[str] = []

    def note(*args: object, **_: object) -> None:
        asked.append(str(args))
        raise OSError("no")

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "create_connection"):
        monkeypatch.setattr(socket, name, note)
    return asked


class Asked:
    """A responder, and what it reported."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, str]] = []
        self._responder = Responder(IPv4Address(DOOR), lambda: RULES, Clock(), self._note)

    def _note(
        self, identity: Identity, name: str, code: str, decision: HostDecision | None, peer: str
    ) -> None:
        assert not peer
        self.refused.append((name, code))

    def __call__(self, data: bytes) -> bytes | None:
        return self._responder.reply(data, PeerIdentity(Identity("box")))


def test_an_allowed_name_is_the_door(no_resolver: list[str]) -> None:
    """The positive control."""
    ask = Asked()
    assert told(ask(query("api.example.com"))).addresses == (DOOR,)
    assert told(ask(edns("x.static.example.com"))).addresses == (DOOR,)
    assert ask.refused == []
    assert no_resolver == []


@pytest.mark.parametrize("kind", [A, AAAA, TXT, MX, NS, HTTPS, SVCB, 10, 255, 65399])
def test_a_name_full_of_data_goes_nowhere(kind: int, no_resolver: list[str]) -> None:
    """S-47: no type of record makes a difference, and every try is on record."""
    ask = Asked()
    reply = told(ask(query(TUNNEL, kind)))
    assert (reply.rcode, reply.addresses) == (NXDOMAIN, ())
    assert ask.refused == [(TUNNEL, "host.unknown")]
    assert no_resolver == []


@pytest.mark.parametrize("kind", [AAAA, TXT, HTTPS, SVCB, 10])
def test_an_allowed_name_carries_nothing_back(kind: int) -> None:
    """S-47 in the other direction, and nothing that leads to QUIC or an encrypted hello (S-45)."""
    reply = told(Asked()(query("api.example.com", kind)))
    assert (reply.rcode, reply.addresses) == (NOERROR, ())


@pytest.mark.parametrize("data", ["c2VjcmV0", "a" * 63, "x.y.z"])
def test_data_below_an_allowed_name_goes_nowhere(data: str, no_resolver: list[str]) -> None:
    """S-47: a name below an allowed one is another name."""
    ask = Asked()
    assert told(ask(query(f"{data}.api.example.com"))).rcode == NXDOMAIN
    assert len(ask.refused) == 1
    assert no_resolver == []


def test_data_below_a_wildcard_is_answered_here_and_stays_here(no_resolver: list[str]) -> None:
    """S-47: where a rule allows every name, the data gets as far as this process."""
    assert told(Asked()(query("c2VjcmV0.static.example.com"))).addresses == (DOOR,)
    assert no_resolver == []


@pytest.mark.parametrize(
    "raw",
    [
        wire_name(b"api.example.com"),
        wire_name(b"api.example", b"com"),
        wire_name(b"api", b"example", b"com\x00"),
        wire_name(b"api", b"example", b"com", b"evil", b"example"),
        wire_name(b"api\x00evil", b"example", b"com"),
        wire_name(b"evil\\", b"api", b"example", b"com"),
        wire_name(b"\xc3\xa0pi", b"example", b"com"),
        wire_name(b"api", b"example", b"com", b"10", b"0", b"0", b"1"),
        wire_name(b"127", b"0", b"0", b"1"),
    ],
)
def test_a_name_that_only_looks_like_an_allowed_one_does_not_exist(raw: bytes) -> None:
    """S-13 in a question: the labels on the wire are the name."""
    ask = Asked()
    assert told(ask(query(raw))).rcode == NXDOMAIN
    ((name, _),) = ask.refused
    assert name.isascii()
    assert name.isprintable()


def test_a_closed_host_does_not_exist() -> None:
    ask = Asked()
    assert told(ask(query("old.example.com"))).rcode == NXDOMAIN
    assert ask.refused == [("old.example.com", "host.closed")]


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (query("api.example.com", flags=0x2800), "", "protocol.refused"),
        (query("api.example.com", flags=0x2000), "", "protocol.refused"),
        (query("api.example.com", flags=0x8180), "", "protocol.refused"),
        (query("version.bind", TXT, space=3), "version.bind", "protocol.refused"),
        (query(TUNNEL, 252), TUNNEL, "protocol.refused"),
        (query(b"\x00", NS), "", "protocol.refused"),
        (query(TUNNEL, counts=(1, 0, 0, 1), more=OPT + b"\x00"), TUNNEL, "request.malformed"),
        (query(wire_name(b"a b", b"evil"), more=b"\x00"), "a\\032b.evil", "request.malformed"),
        (
            query("api.example.com", counts=(2, 0, 0, 0), more=wire_name(b"a") + b"\x00\x01\x00\x01"),
            "",
            "request.malformed",
        ),
        (query(b"\xc0\x0c"), "", "request.malformed"),
        (query(b"\x03api\xc0\x0c"), "", "request.malformed"),
        (bytes(MAX_MESSAGE_BYTES), "", "request.malformed"),
        (b"\xff" * MAX_MESSAGE_BYTES, "", "protocol.refused"),
        (b"is anybody there?", "", "protocol.refused"),
        (b"GET / HTTP/1.1\r\n\r\n", "", "protocol.refused"),
        (b"hello", "", "protocol.refused"),
        (b"", "", "protocol.refused"),
    ],
)
def test_what_is_no_plain_question_gets_no_data_and_is_on_record(
    data: bytes, name: str, code: str, no_resolver: list[str]
) -> None:
    """S-46: updates, transfers, other classes, several questions, compression, garbage."""
    ask = Asked()
    reply = ask(data)
    if reply is not None:
        assert told(reply).rcode != NOERROR
        assert told(reply).addresses == ()
        assert len(reply) <= len(data)
    assert ask.refused == [(name, code)]
    assert no_resolver == []


def test_reverse_names_tell_nothing_of_the_network() -> None:
    """S-46: which machines there are is nobody's business in a sandbox."""
    assert told(Asked()(query("1.0.9.10.in-addr.arpa", PTR))).rcode == NXDOMAIN


def test_no_answer_is_much_larger_than_its_question() -> None:
    """Nobody is hit with us as an amplifier, however the question is written."""
    ask = Asked()
    for asked in (query("api.example.com"), edns("api.example.com"), query(TUNNEL), query("a.b", 255)):
        reply = ask(asked)
        assert reply is not None
        assert len(reply) <= len(asked) + 16
