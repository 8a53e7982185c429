"""Any bytes at all: at most one short answer, an address only for a name the rules allow."""

from __future__ import annotations

from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from egress.proxy.dns.server import Responder
from egress.proxy.ingress.peer_identity import PeerIdentity
from egress.rules.decide.decision import decide_host
from egress.types import HostDecision, Identity
from tests.unit.proxy.dns_messages import NOERROR, NXDOMAIN, OPT, Told, query, told, wire_name
from tests.unit.rules.rule_samples import NOW, policy

RULES = policy('hosts: {api.example.com: {}, "**.deep.example.com": {}}')
WHO = Identity("box")
DOOR = "10.9.0.1"
MOST_ADDED = 16
OF_FAULTS = {"request.malformed", "protocol.refused"}


class Clock:
    def now(self) -> int:
        return NOW

    def now_ns(self) -> int:
        return NOW * 1_000_000_000

    def monotonic(self) -> float:
        return 0.0


labels = st.one_of(
    st.binary(min_size=1, max_size=63), st.sampled_from([b"api", b"API", b"example", b"com", b"deep", b"a.b"])
)
names = st.one_of(
    st.lists(labels, max_size=5).map(lambda found: wire_name(*found)),
    st.sampled_from(
        [
            wire_name(b"api", b"example", b"com"),
            wire_name(b"x", b"deep", b"example", b"com"),
            b"\xc0\x0c",
            b"\x03api\xc0\x0c",
        ]
    ),
)
queries = st.builds(
    lambda name, kind, flags, space, counts, more: query(
        name, kind, flags=flags, space=space, counts=counts, more=more
    ),
    names,
    st.integers(0, 300),
    st.sampled_from([0x0100, 0, 0x8180, 0x2800, 0x0130]),
    st.sampled_from([1, 1, 1, 3, 255]),
    st.sampled_from([(1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 1), (2, 0, 0, 0), (0, 0, 0, 0), (1, 1, 0, 0)]),
    st.sampled_from([b"", b"", OPT, b"\x00"]),
)
messages = st.one_of(queries, st.binary(max_size=1300))


def reply(data: bytes) -> tuple[bytes | None, list[tuple[str, str]]]:
    """The answer, and the names and codes that were reported as refused."""
    refused: list[tuple[str, str]] = []

    def note(identity: Identity, name: str, code: str, decision: HostDecision | None, peer: str) -> None:
        assert (identity, peer) == (WHO, "")
        if decision is not None:
            assert not decision.allowed
            assert decision.code == code
        refused.append((name, code))

    responder = Responder(IPv4Address(DOOR), lambda: RULES, Clock(), note)
    return responder.reply(data, PeerIdentity(WHO)), refused


@given(messages)
def test_there_is_at_most_one_answer_and_it_is_short(data: bytes) -> None:
    answer, _ = reply(data)
    if answer is not None:
        assert len(answer) <= len(data) + MOST_ADDED
        assert answer[:2] == data[:2]
        told(answer)


@given(messages)
def test_only_the_address_of_the_door_is_ever_given_and_only_for_allowed_names(data: bytes) -> None:
    answer, _ = reply(data)
    if answer is None or not (found := told(answer)).addresses:
        return
    assert found.addresses == (DOOR,)
    assert decide_host(RULES, WHO, name_of(found).lower(), None, NOW).allowed


@given(messages)
def test_whatever_is_not_answered_with_what_there_is_is_reported_and_nothing_else(data: bytes) -> None:
    answer, refused = reply(data)
    is_answered = answer is not None and told(answer).rcode == NOERROR
    assert len(refused) == (not is_answered)
    for name, code in refused:
        assert name.isascii()
        assert name.isprintable() or not name
        assert (code in OF_FAULTS) == (answer is None or told(answer).rcode != NXDOMAIN)


@given(messages)
def test_what_is_answered_is_never_answered_again(data: bytes) -> None:
    """An answer of ours that comes back starts nothing."""
    answer, _ = reply(data)
    if answer is not None:
        assert reply(answer) == (None, [("", "protocol.refused")])


def name_of(found: Told) -> str:
    """The name of an answer's question, read anew."""
    parts, at = [], 0
    while length := found.question[at]:
        parts.append(found.question[at + 1 : at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(parts)
