"""Class 4, name tricks: whatever a host is spelled like, it is the named one or it is refused.

Cases S-12 (case and trailing dot), S-13 (suffix, prefix, wildcard apex), and their neighbours: brackets,
NUL, escapes, look-alike dots and letters, punycode, userinfo, numbers that resolvers take for addresses.
"""

from __future__ import annotations

import pytest

from egress.rules.decide.decision import decide_host
from egress.rules.language.hosts import HostError, canonical_wire_host
from egress.types import Identity
from tests.unit.rules.rule_samples import NOW, policy

RULES = policy("""
    hosts:
      api.example.com: {}
      "*.static.example.com": {}
      "**.deep.example.com": {}
      bücher.example: {}
""")
OBSERVING = policy('mode: observe\nhosts: {api.example.com: {allow: []}, "**.example.com": {}}')


def wire(name: str) -> str:
    """What the door makes of a name: its canonical spelling, or a refusal."""
    try:
        return canonical_wire_host(name)
    except HostError:
        return "refused"


def is_open(name: str) -> bool:
    """Whether the name, as it stands, opens a connection."""
    return decide_host(RULES, Identity("box"), name, 443, NOW).allowed


@pytest.mark.parametrize(
    "name",
    [
        "api.example.com",
        "a.static.example.com",
        "a.deep.example.com",
        "a.b.deep.example.com",
        "xn--bcher-kva.example",
    ],
)
def test_the_named_hosts_are_open(name: str) -> None:
    """The positive control."""
    assert wire(name) == name
    assert is_open(name)


@pytest.mark.parametrize(
    "name", ["API.EXAMPLE.COM", "api.example.com.", "Api.Example.Com.", "aPi.eXample.com"]
)
def test_case_and_one_trailing_dot_are_the_same_host(name: str) -> None:
    """S-12: the same verdict as the canonical spelling, and only after it became that."""
    assert wire(name) == "api.example.com"
    assert not is_open(name)


@pytest.mark.parametrize(
    "name",
    [
        "evil-api.example.com", "evilapi.example.com", "api.example.com.evil.example", "api.example.comevil",
        "api.example.co", "pi.example.com", "example.com", "com", "xapi.example.com", "api-example.com",
        "static.example.com", "a.b.static.example.com", "evilstatic.example.com", "a.evilstatic.example.com",
        "deep.example.com", "evildeep.example.com", "a.deep.example.com.evil.example", "apiXexample.com",
        "localhost", "a.api.example.com",
    ],
)  # fmt: skip
def test_a_name_that_is_only_alike_is_denied(name: str) -> None:
    """S-13: a suffix, a prefix, the apex of a wildcard, one label too many."""
    assert not is_open(name)
    assert wire(name) == "refused" or not is_open(wire(name))


MALFORMED = [
    "[api.example.com]", "[[api.example.com]]", "[api.example.com", "api.example.com]",
    "evil.example\x00.static.example.com", "api.example.com\x00", "\x00api.example.com",
    "a\x00.deep.example.com",
    "evil.example%00.deep.example.com", "api%2eexample.com", "%61pi.example.com", "a%00.static.example.com",
    "api。example。com", "api.example.com。", "a。deep.example.com", "api．example.com", "api｡example.com",
    "ａｐｉ.example.com", "api.ｅxample.com", "ａ.deep.example.com", "apı.example.com", "аpi.example.com",
    "a@api.example.com", "api.example.com@evil.example", "evil.example:443@api.example.com",
    "x:y@a.deep.example.com",
    "api.example.com:443", "api.example.com:", "a.deep.example.com:8443", ":443",
    "api.example.com/", "/api.example.com", "evil.example/.static.example.com",
    "evil.example#.deep.example.com",
    "evil.example?.deep.example.com", "evil.example\\.deep.example.com", "https://api.example.com",
    " api.example.com", "api.example.com ", "api .example.com", "api.example.com\t", "api.example.com\n",
    "api.example.com\r\nx: y", "a\n.deep.example.com",
    "api..example.com", ".api.example.com", "api.example.com..", "..deep.example.com", "", ".", "..",
    "*.static.example.com", "*", "**.deep.example.com", "a*.static.example.com",
    "a" * 64 + ".deep.example.com", ("a" * 60 + ".") * 4 + "deep.example.com",
    "xn--.example", "xn--a.deep.example.com", "xn--bcher-kva\x00.example", "xn--bücher.example",
    "bücher.example",
    "xn--api-.example.com", "xn--zzzzzz99999.deep.example.com", "\u200bapi.example.com",
    "api\u00ad.example.com",
    "api.example.com\ud800", "ſtatic.example.com", "\u212a.deep.example.com",
]  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert wire(name) == "refused"
    decision = decide_host(RULES, Identity("box"), name, 443, NOW)
    assert (decision.allowed, decision.code) == (False, "host.malformed")


@pytest.mark.parametrize("name", MALFORMED)
def test_observing_does_not_let_it_through_either(name: str) -> None:
    decision = decide_host(OBSERVING, Identity("box"), name, 443, NOW)
    assert (decision.allowed, decision.code) == (False, "host.malformed")
    assert decide_host(OBSERVING, Identity("box"), "other.example", 443, NOW).allowed


@pytest.mark.parametrize(
    "name",
    [
        "127.1",
        "0x7f.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "1.2.3",
        "a.0x0",
        "0x",
    ],
)
def test_a_number_that_resolvers_take_for_an_address_is_no_name(name: str) -> None:
    assert wire(name) == "refused"
    for rules in (RULES, OBSERVING):
        assert not decide_host(rules, Identity("box"), name, 443, NOW).allowed


@pytest.mark.parametrize(
    "literal",
    [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "::1",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
    ],
)
def test_an_address_is_no_host_even_under_observe(literal: str) -> None:
    """Neighbours of S-18: only `networks:` opens a literal."""
    for rules in (RULES, OBSERVING):
        assert not decide_host(rules, Identity("box"), literal, 443, NOW).allowed


@pytest.mark.parametrize(
    "literal",
    ["::FFFF:10.0.0.1", "0:0:0:0:0:0:0:1", "::0001", "fe80::1%eth0", "fd00::1%25", "[fd00::1]", "10.0.0.01"],
)
def test_another_spelling_of_an_address_is_not_the_address(literal: str) -> None:
    rules = policy('networks: [{cidr: "::/0"}, {cidr: 10.0.0.0/8}]')
    assert not decide_host(rules, Identity("box"), literal, 443, NOW).allowed
    assert decide_host(rules, Identity("box"), "fd00::1", 443, NOW).allowed
    assert decide_host(rules, Identity("box"), "10.0.0.1", 443, NOW).allowed


@pytest.mark.parametrize("spelling", ["EVIL.example.com", "evil.example.com."])
def test_a_closed_host_cannot_be_opened_by_its_spelling(spelling: str) -> None:
    """A deny on a name holds for what the door makes of every spelling of it."""
    rules = policy('hosts: {"**.example.com": {}, evil.example.com: {allow: []}}')
    for name in (spelling, wire(spelling)):
        assert not decide_host(rules, Identity("box"), name, 443, NOW).allowed
    assert decide_host(rules, Identity("box"), "good.example.com", 443, NOW).allowed
