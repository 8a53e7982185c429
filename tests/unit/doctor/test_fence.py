"""Tests of the fence: rounds in a row, and what counts as proof. The network is a function here."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.doctor import fence
from egress.doctor.fence import FenceAddress, FencePlan, answers, prove, read_address
from egress.errors import ContentError, UnreadableError, UsageError

API, NODE, PROXY = (
    FenceAddress("10.96.0.1", 443),
    FenceAddress("10.77.0.1", 10250),
    FenceAddress("10.96.0.92", 3128),
)
PLAN = FencePlan((API, NODE), (PROXY,), passes=3, interval=0, timeout=60)


class Network:
    """Answers each round with the addresses that are said for it; the last round repeats."""

    def __init__(self, *rounds: set[FenceAddress]) -> None:
        self._rounds = rounds
        self.dialled: list[FenceAddress] = []

    async def dial(self, at: FenceAddress, _: float) -> bool:
        self.dialled.append(at)
        number = (len(self.dialled) - 1) // 3
        return at in self._rounds[min(number, len(self._rounds) - 1)]


class Sockets:
    """The module `socket` of a machine that opens none."""

    AF_INET, SOCK_STREAM, SOCK_DGRAM = socket.AF_INET, socket.SOCK_STREAM, socket.SOCK_DGRAM

    def __init__(self, fault: int) -> None:
        self._fault = fault

    def socket(self, *_: object) -> socket.socket:
        raise OSError(self._fault, "no")


def gate(network: Network, plan: FencePlan = PLAN) -> list[str]:
    said: list[str] = []
    asyncio.run(prove(plan, said.append, network.dial))
    return said


def test_three_rounds_in_a_row_are_proof() -> None:
    network = Network({PROXY})
    assert gate(network) == []
    assert len(network.dialled) == 3 * 3


def test_a_policy_that_comes_late_is_waited_for() -> None:
    network = Network({PROXY, API, NODE}, {PROXY, API}, {PROXY})
    assert gate(network) == [
        "10.96.0.1:443, 10.77.0.1:10250 answered, and must not",
        "10.96.0.1:443 answered, and must not",
    ]
    assert len(network.dialled) == 3 * 5


def test_one_answer_begins_the_count_anew() -> None:
    network = Network({PROXY}, {PROXY}, {PROXY, NODE}, {PROXY})
    assert gate(network) == ["10.77.0.1:10250 answered, and must not"]
    assert len(network.dialled) == 3 * 6


def test_a_network_without_the_proxy_is_no_proof() -> None:
    network = Network(set(), {PROXY})
    assert gate(network) == ["the proxy does not answer at 10.96.0.92:3128"]


def test_a_round_begins_while_the_one_before_still_waits_for_silence() -> None:
    """Else a fence that drops packets would cost each pod the time of all rounds."""
    begun: list[FenceAddress] = []
    all_began = asyncio.Event()

    async def dial(at: FenceAddress, _: float) -> bool:
        if at is API:
            begun.append(at)
            if len(begun) == PLAN.passes:
                all_began.set()
            await all_began.wait()
        return at is PROXY

    asyncio.run(prove(PLAN, pytest.fail, dial))
    assert len(begun) == PLAN.passes


def test_an_answer_that_comes_late_counts_for_its_round() -> None:
    """Rounds that ended before it, though they began behind it, are not in a row with those before it."""
    others_ended = asyncio.Event()
    rounds = 0

    async def dial(at: FenceAddress, _: float) -> bool:
        nonlocal rounds
        if at is not API:
            return at is PROXY
        rounds += 1
        if rounds == 1:
            await others_ended.wait()
            return True
        if rounds == PLAN.passes:
            others_ended.set()
        return False

    said: list[str] = []
    asyncio.run(prove(PLAN, said.append, dial))
    assert said == ["10.96.0.1:443 answered, and must not"]
    assert rounds == PLAN.passes + 1


def test_no_round_is_left_behind() -> None:
    ended: list[str] = []

    async def dial(at: FenceAddress, _: float) -> bool:
        if at is not API:
            return at is PROXY
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("dial")
        return False

    async def gate() -> int:
        with pytest.raises(ContentError, match="too few rounds passed"):
            await prove(FencePlan((API,), (PROXY,), interval=0, timeout=0.05), ended.append, dial)
        return len(asyncio.all_tasks())

    assert asyncio.run(gate()) == 1
    assert ended == ["dial"] * 3


def test_silence_is_shorter_than_the_time_that_the_proxy_has() -> None:
    asked: dict[FenceAddress, float] = {}

    async def dial(at: FenceAddress, seconds: float) -> bool:
        asked[at] = seconds
        return at is PROXY

    asyncio.run(prove(PLAN, pytest.fail, dial))
    assert asked == {API: PLAN.silence, NODE: PLAN.silence, PROXY: PLAN.dial_timeout}
    assert PLAN.silence < PLAN.dial_timeout


@pytest.mark.parametrize(
    ("answering", "said"),
    [({PROXY, API}, "10.96.0.1:443 answered, and must not"), (set(), "the proxy does not answer")],
)
def test_a_fence_that_never_holds_ends_with_its_fault(answering: set[FenceAddress], said: str) -> None:
    plan = FencePlan((API, NODE), (PROXY,), interval=0, timeout=0.2)
    with pytest.raises(ContentError, match=said) as raised:
        gate(Network(answering), plan)
    assert "kubectl get networkpolicy" in raised.value.hint


@pytest.mark.parametrize("fault", [errno.EMFILE, errno.ENOBUFS])
def test_a_fault_of_the_pod_itself_proves_no_fence(fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "socket", Sockets(fault))
    with pytest.raises(UnreadableError, match=r"cannot dial 10.96.0.1:443"):
        asyncio.run(answers(API, 1))


@pytest.mark.parametrize("fault", [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPERM])
def test_a_refusal_of_the_network_is_no_answer(fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "socket", Sockets(fault))
    assert asyncio.run(answers(FenceAddress("10.96.0.10", 53), 1)) is False


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("10.96.0.1:443", "10.96.0.1", 443), ("[fd00::1]:53", "fd00::1", 53), ("[FD00:0::1]:1", "fd00::1", 1)],
)
def test_an_address_is_read(text: str, host: str, port: int) -> None:
    assert read_address(text) == FenceAddress(host, port)
    assert read_address(str(FenceAddress(host, port))) == FenceAddress(host, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "10.96.0.1", "10.96.0.1:", "10.96.0.1:0", "10.96.0.1:65536", "10.96.0.1:+1"),
        *("10.96.0.1:443 ", "example.com:443", "$(NODE_IP):10250", "10.96.0.1:\u0661"),
        *("fd00::1:443", "[10.96.0.1]:443", "[fd00::1]"),
    ],
)
def test_anything_else_is_refused_so_that_a_variable_that_is_not_set_lets_no_pod_start(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address and a port"):
        read_address(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read_address(text)
    except UsageError:
        return
    assert read_address(str(found)) == found
