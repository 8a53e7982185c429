"""Who may scrape: judged by address, user and listeners, and any doubt refuses."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.kubernetes.pod_identity import IdentityFault, IdentityState, PodIdentity
from egress.proxy.control.metrics_guard import (
    MetricsGuard,
    SandboxPlace,
    ScrapeStanding,
    namespace_of,
    plain_address,
    standing_in_cluster,
)
from egress.proxy.ingress.listener import Authentication, password_digest

TOKEN = "a-token-of-the-operator"
INTERFACES = ("127.0.0.1/8", "::1/128", "192.0.2.1/24", "10.0.5.1/24", "2001:db8::1/64")
REFUSED, NEEDS, WELCOME = ScrapeStanding.REFUSED, ScrapeStanding.NEEDS_TOKEN, ScrapeStanding.WELCOME


class Connection(socket.socket):
    """A socket that says which addresses it joins, since no test has machines of many networks."""

    def __init__(self, peer: str, local: str = "192.0.2.1") -> None:
        super().__init__()
        self._peer, self._local = peer, local

    def getpeername(self) -> tuple[str, int]:
        return self._peer, 40000

    def getsockname(self) -> tuple[str, int]:
        return self._local, 9464


def standing(
    peer: str,
    *places: SandboxPlace,
    token: str = "",
    allow: Iterable[str] = (),
    interfaces: Iterable[str] = INTERFACES,
) -> ScrapeStanding:
    digest = password_digest(token) if token else b""
    guard = MetricsGuard(
        lambda: places, digest, [ip_network(each) for each in allow], interfaces=lambda: interfaces
    )
    with Connection(peer) as sock:
        return guard.standing(sock)


def place(how: Authentication, at: str | None, **more: object) -> SandboxPlace:
    return SandboxPlace(how, None if at is None else ip_address(at), **more)  # type: ignore[arg-type]  # by name


# Other machines -----------------------------------------------------------------------------------

ELSEWHERE = "198.51.100.7"


@pytest.mark.parametrize(
    ("token", "allow", "expected"),
    [
        ("", (), REFUSED),
        (TOKEN, (), NEEDS),
        ("", ("198.51.100.0/24",), WELCOME),
        (TOKEN, ("198.51.100.7/32",), NEEDS),
        (TOKEN, ("198.51.100.8/32",), REFUSED),
        ("", ("203.0.113.0/24",), REFUSED),
    ],
)
def test_another_machine_is_named_or_has_the_token(
    token: str, allow: tuple[str, ...], expected: ScrapeStanding
) -> None:
    assert standing(ELSEWHERE, token=token, allow=allow) is expected
    assert standing(f"::ffff:{ELSEWHERE}", token=token, allow=allow) is expected, "the same address"


@pytest.mark.parametrize(
    ("peer", "at"),
    [
        ("10.0.5.9", "10.0.5.1"),
        ("10.0.5.9", "10.0.5.2"),
        ("10.0.5.2", "10.0.5.2"),
        ("198.51.100.7", "198.51.100.7"),
        ("2001:db8::9", "2001:db8::1"),
        ("2001:db8::9%eth0", "2001:db8::5"),
    ],
)
def test_the_network_of_a_sandbox_is_refused_whatever_it_knows(peer: str, at: str) -> None:
    """The listener may be ours, on an interface of that network, or one that was handed over."""
    sandbox = place("network", at)
    assert standing(peer, sandbox, token=TOKEN, allow=["0.0.0.0/0", "::/0"]) is REFUSED
    assert standing("192.0.2.9", sandbox, token=TOKEN) is NEEDS, "the good twin: another network"


def test_a_listener_on_every_address_leaves_only_machines_that_are_named() -> None:
    sandbox = place("network", "0.0.0.0")
    assert standing(ELSEWHERE, sandbox, token=TOKEN) is REFUSED
    assert standing(ELSEWHERE, sandbox, token=TOKEN, allow=["198.51.100.7/32"]) is NEEDS
    assert standing(ELSEWHERE, place("network", None), token=TOKEN, allow=["198.51.100.7/32"]) is REFUSED


def test_a_listener_with_a_password_makes_no_network_a_sandbox() -> None:
    for how in ("password", "owner-uid"):
        assert standing("10.0.5.9", place(how, "10.0.5.1"), token=TOKEN) is NEEDS


# Programs of this machine -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "peer", ["127.0.0.1", "127.9.9.9", "::1", "192.0.2.1", "::ffff:127.0.0.1", "2001:db8::1"]
)
def test_a_program_of_this_machine_is_welcome_unless_it_can_be_a_sandbox(peer: str) -> None:
    assert standing(peer) is WELCOME
    assert standing(peer, token=TOKEN) is NEEDS
    for how in ("network", "password"):
        for at in ("127.0.0.1", "::1", "0.0.0.0", "192.0.2.1", None):
            assert standing(peer, place(how, at)) is REFUSED
            assert standing(peer, place(how, at), token=TOKEN) is NEEDS
        assert standing(peer, place(how, "10.0.7.7")) is WELCOME, "it is in no network of this machine"


def test_a_listener_in_another_network_namespace_serves_no_program_of_this_one() -> None:
    there = place("network", "127.0.0.1", namespace=b"elsewhe.")
    assert standing("127.0.0.1", there) is WELCOME
    with socket.socket() as sock:
        here = place("network", "127.0.0.1", namespace=namespace_of(sock))
    assert standing("127.0.0.1", here) is REFUSED


def test_a_user_that_cannot_be_told_can_be_the_sandbox() -> None:
    """The connection of this test is none that the kernel knows."""
    assert standing("127.0.0.1", place("owner-uid", "127.0.0.1")) is REFUSED
    assert standing("127.0.0.1", place("owner-uid", "127.0.0.1"), token=TOKEN) is NEEDS


# Doubt --------------------------------------------------------------------------------------------


def test_any_doubt_refuses() -> None:
    def unreadable() -> Iterable[str]:
        raise OSError("the kernel does not tell")

    with Connection("127.0.0.1") as sock:
        assert MetricsGuard(lambda: (), interfaces=unreadable).standing(sock) is REFUSED
    assert standing("not an address", token=TOKEN) is REFUSED
    assert standing("127.0.0.1", interfaces=["what is this"]) is REFUSED
    with socket.socket() as unconnected:
        assert MetricsGuard(lambda: ()).standing(unconnected) is REFUSED


@given(st.ip_addresses(v=4), st.ip_addresses(v=4), st.integers(8, 30))
def test_no_neighbour_of_a_sandbox_is_answered(peer: object, at: object, bits: int) -> None:
    interface = f"{at}/{bits}"
    network = ip_network(interface, strict=False)
    found = standing(
        str(peer), place("network", str(at)), token=TOKEN, allow=["0.0.0.0/0"], interfaces=[interface]
    )
    # A loopback address is a program of this machine, which is judged by its user.
    is_elsewhere = not ip_address(str(peer)).is_loopback and str(peer) != str(at)
    if is_elsewhere and ip_address(str(peer)) in network:
        assert found is REFUSED
    assert found is not WELCOME


# The token ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "is_right"),
    [
        ([f"Bearer {TOKEN}"], True),
        ([f"bearer {TOKEN}"], True),
        ([f"Bearer  {TOKEN}"], False),
        ([f"Bearer {TOKEN} "], False),
        ([f"Bearer {TOKEN.upper()}"], False),
        ([f"Basic {TOKEN}"], False),
        ([TOKEN], False),
        (["Bearer"], False),
        (["Bearer "], False),
        ([""], False),
        ([], False),
        ([f"Bearer {TOKEN}", f"Bearer {TOKEN}"], False),
        ([f"Bearer {TOKEN}", ""], False),
    ],
)
def test_the_token_has_one_form(values: list[str], is_right: bool) -> None:
    guard = MetricsGuard(lambda: (), password_digest(TOKEN))
    headers = (("host", "x"), *(("authorization", value) for value in values))
    assert guard.has_token(headers) is is_right
    assert not MetricsGuard(lambda: ()).has_token(headers), "without a token none is right"


def test_addresses_have_one_spelling() -> None:
    assert plain_address("::ffff:192.0.2.1") == ip_address("192.0.2.1")
    assert plain_address("fe80::1%eth0") == ip_address("fe80::1")


# In a cluster -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", IdentityFault)
def test_in_a_cluster_only_what_is_surely_no_sandbox_is_judged_as_elsewhere(fault: IdentityFault) -> None:
    """A node hides any pod, and so does a lost watch: then the token has to tell."""
    surely_none = {IdentityFault.UNKNOWN, IdentityFault.UNOWNED}
    by_token = {IdentityFault.STALE, IdentityFault.NAT, IdentityFault.HOST_NETWORK}
    wanted = WELCOME if fault in surely_none else NEEDS if fault in by_token else REFUSED
    assert standing_in_cluster(fault) is wanted


@pytest.mark.parametrize("state", IdentityState)
def test_the_pod_of_a_sandbox_is_refused_in_any_state(state: IdentityState) -> None:
    pod = PodIdentity("agents", "a", "a-uid", "a", "", state)
    assert standing_in_cluster(pod) is REFUSED


@pytest.mark.parametrize(
    ("as_pod", "token", "found"),
    [
        (WELCOME, "", WELCOME),
        (WELCOME, TOKEN, NEEDS),
        (NEEDS, "", REFUSED),
        (NEEDS, TOKEN, NEEDS),
        (REFUSED, "", REFUSED),
        (REFUSED, TOKEN, REFUSED),
    ],
)
@pytest.mark.parametrize("peer", ["10.0.9.9", "127.0.0.1"])
def test_what_the_cluster_says_comes_before_all_else(
    as_pod: ScrapeStanding, token: str, found: ScrapeStanding, peer: str
) -> None:
    digest = password_digest(token) if token else b""
    guard = MetricsGuard(
        list,
        digest,
        [ip_network("10.0.0.0/8")],
        interfaces=lambda: INTERFACES,
        in_cluster=lambda address: as_pod if address == peer else REFUSED,
    )
    with Connection(peer) as sock:
        assert guard.standing(sock) is found
