"""From an allowed name into the operator's network: S-18, S-19, S-79, and rebinding (S-19 with two answers).

Every connect of the process is caught, so "never dialled" is seen at the last line there is. The positive
control: a public address is dialled, exactly once, and so is a private one that a rule opens.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address

import pytest

from egress.address_check import OwnNetworks
from egress.exchange import Destination
from egress.proxy.clock import SystemClock
from egress.proxy.lanes.dial import Dialer, DialError
from egress.rules.decide.decision import decide_host
from egress.types import Identity
from tests.unit.rules.rule_samples import NOW, policy

Dialled = list[tuple[str, int]]

PUBLIC = "93.184.216.34"
OWN = OwnNetworks(["93.184.216.5/32", "172.17.0.1/16", "2a00:1450::5/128"])
CLOCK = SystemClock()
RULES = policy("""
    hosts:
      api.example.com: {}
      git.example.com: {addresses: [10.1.0.0/16]}
      wide.example.com: {addresses: [169.254.0.0/16, 100.64.0.0/10]}
    networks:
      - {cidr: 10.2.0.0/24, allow: all}
      - {cidr: 169.254.0.0/16, allow: all}
""")


@pytest.fixture(autouse=True)
def dialled(monkeypatch: pytest.MonkeyPatch) -> Dialled:
    """Every address that a socket was told to connect to; nobody answers there."""
    found: Dialled = []

    def note(_sock: socket.socket, address: tuple[str, int]) -> None:
        found.append(address[:2])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", note)
    return found


class Names:
    """A zone of the attacker: every question gets the next answer."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers = answers
        self.asked = 0

    async def resolve(self, host: str, owner: str = "") -> tuple[str, ...]:
        self.asked += 1
        return self.answers[(self.asked - 1) % len(self.answers)]


async def code_of(names: Names, host: str = "api.example.com") -> str:
    """Dial a host the way a lane does; return why there is no connection."""
    decision = decide_host(RULES, Identity("box"), host, 443, NOW)
    with pytest.raises(DialError) as caught:
        await Dialer(names, lambda: OWN, CLOCK).dial(
            Destination("https", host, 443), decision, deadline=CLOCK.monotonic() + 30
        )
    return caught.value.code


@pytest.mark.parametrize("address", [PUBLIC, "2606:4700::1111"])
async def test_a_public_address_is_dialled(address: str, dialled: Dialled) -> None:
    """The positive control."""
    assert await code_of(Names((address,))) == "upstream.unreachable"
    assert dialled == [(address, 443)]


async def test_a_private_address_that_a_rule_opens_is_dialled(dialled: Dialled) -> None:
    """The positive control of S-19: by name, and as a literal."""
    assert await code_of(Names(("10.1.0.7",)), "git.example.com") == "upstream.unreachable"
    assert await code_of(Names(), "10.2.0.7") == "upstream.unreachable"
    assert dialled == [("10.1.0.7", 443), ("10.2.0.7", 443)]


@pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.1", "10.0.0.7", "::1", "168.63.129.16"])
async def test_a_literal_that_the_rules_do_not_name_is_not_dialled(host: str, dialled: Dialled) -> None:
    """S-18: the door denies it already; a lane that asked all the same would get nothing either."""
    names = Names((PUBLIC,))
    assert await code_of(names, host) in {"internal", "address.refused"}
    assert dialled == []
    assert names.asked == 0


async def test_a_network_of_the_rules_does_not_open_the_metadata_service_in_it(dialled: Dialled) -> None:
    """S-18 through a rule author's mistake."""
    assert await code_of(Names(), "169.254.169.254") == "address.refused"
    assert await code_of(Names(("169.254.169.254",)), "wide.example.com") == "address.refused"
    assert await code_of(Names(("100.100.100.200",)), "wide.example.com") == "address.refused"
    assert dialled == []


REFUSED = ["10.0.0.7", "172.16.0.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"]


def packed(text: str) -> list[str]:
    """The address as AAAA records."""
    number = int(IPv4Address(text))
    wrapped = [
        number | 0xFFFF << 32,
        number | 0x64_FF9B << 96,
        number | 0x64_FF9B_0001 << 80,
        0x2002 << 112 | number << 80,
        0x2606_4700 << 96 | 0x5EFE << 32 | number,
    ]
    return [str(IPv6Address(value)) for value in wrapped]


@pytest.mark.parametrize("address", REFUSED)
async def test_a_name_that_resolves_into_the_network_is_not_dialled(address: str, dialled: Dialled) -> None:
    """S-19, plain and in every wrapping."""
    for text in [address, *packed(address)]:
        assert await code_of(Names((text,))) == "address.refused", text
    assert dialled == []


@pytest.mark.parametrize(
    "text", ["127.1", "2130706433", "0x7f.1", "fe80::1%lo", "localhost", "::ffff:7f00:1"]
)
async def test_odd_answers_of_a_resolver_are_not_dialled(text: str, dialled: Dialled) -> None:
    """S-19: what is not the one spelling of a public address is none."""
    assert await code_of(Names((text,))) == "address.refused"
    assert dialled == []


@pytest.mark.parametrize("address", ["93.184.216.5", "2a00:1450::5", "172.17.0.1", "172.17.0.2"])
async def test_the_machine_is_not_dialled_by_its_public_address(address: str, dialled: Dialled) -> None:
    """S-79."""
    assert await code_of(Names((address,))) == "address.refused"
    assert await code_of(Names((PUBLIC, address))) == "address.refused"
    assert dialled == []


@pytest.mark.parametrize("address", [*REFUSED, "93.184.216.5"])
async def test_a_mixed_answer_is_refused_as_a_whole(address: str, dialled: Dialled) -> None:
    """Rebinding in one answer: first, last or in between."""
    for answer in ((PUBLIC, address), (address, PUBLIC), (PUBLIC, address, "93.184.216.35")):
        assert await code_of(Names(answer)) == "address.refused"
    assert dialled == []


@pytest.mark.parametrize("address", ["169.254.169.254", "127.0.0.1", "::ffff:169.254.169.254"])
async def test_a_name_that_flips_never_gets_there(address: str, dialled: Dialled) -> None:
    """Rebinding from answer to answer: one question for each dial, and its answer is the one that counts."""
    names = Names((PUBLIC,), (address,))
    codes = [await code_of(names) for _ in range(12)]
    assert codes == ["upstream.unreachable", "address.refused"] * 6
    assert names.asked == 12
    assert dialled == [(PUBLIC, 443)] * 6
