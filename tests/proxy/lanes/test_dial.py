"""Resolve, check and dial are one act: the name is asked for once, and only judged addresses are dialled."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from egress.address_check import NO_OWN_NETWORKS, OwnNetworks
from egress.errors import CODES
from egress.exchange import Destination
from egress.proxy.clock import SystemClock
from egress.proxy.lanes import dial
from egress.proxy.lanes.dial import MAX_ADDRESSES_TRIED, Dialer, DialError
from egress.proxy.lanes.resolve import UnresolvedError
from egress.types import HostDecision, Verdict

HOST = "api.example.com"
LOOPBACK = ("127.0.0.0/8", "::1/128")
CLOCK = SystemClock()


class Names:
    """A resolver that says what the test told it, and counts."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str]] = []

    async def resolve(self, host: str, owner: str = "") -> tuple[str, ...]:
        self.asked.append((host, owner))
        return self.answers[(len(self.asked) - 1) % len(self.answers)]


class Canary:
    """A listener that counts who comes, on one port of several loopback addresses."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.port = 0
        self._servers: list[asyncio.Server] = []

    async def listen(self, *addresses: str) -> None:
        for address in addresses:
            server = await asyncio.start_server(self._greet, address, self.port)
            self._servers.append(server)
            self.port = server.sockets[0].getsockname()[1]

    async def _greet(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits.append(writer.get_extra_info("sockname")[0])
        writer.write(b"hello")
        writer.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    found = Canary()
    await found.listen("127.0.0.1")
    yield found
    found.close()


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """An address that takes the first packet of a connection and never answers: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.9", 0))
        listener.listen(0)
        where = listener.getsockname()
        queued = [socket.socket() for _ in range(3)]
        for sock in queued:
            sock.setblocking(False)
            sock.connect_ex(where)
        yield where
        for sock in queued:
            sock.close()


def allowed(*opened: str) -> HostDecision:
    return HostDecision(Verdict.ALLOW, "host.allowed", addresses=opened)


def dialer(*answers: tuple[str, ...], own: Callable[[], OwnNetworks] = lambda: NO_OWN_NETWORKS) -> Dialer:
    return Dialer(Names(*answers), own, CLOCK, stagger=0.01)


def soon(seconds: float = 30) -> float:
    return CLOCK.monotonic() + seconds


async def refused(act: Awaitable[object]) -> DialError:
    with pytest.raises(DialError) as caught:
        await act
    assert caught.value.code in CODES
    return caught.value


# The act ----------------------------------------------------------------------------------------


async def test_dials_what_the_name_resolves_to(canary: Canary) -> None:
    names = Names(("127.0.0.1",))
    found = await Dialer(names, lambda: NO_OWN_NETWORKS, CLOCK).dial(
        Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon(), owner="box"
    )
    assert await found.reader.read() == b"hello"
    found.writer.close()
    assert found.address == "127.0.0.1"
    assert found.resolve_us >= 0
    assert found.connect_us >= 0
    assert names.asked == [(HOST, "box")]


async def test_a_connection_has_no_delay_and_notices_a_dead_peer(canary: Canary) -> None:
    found = await dialer(("127.0.0.1",)).connect(
        Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon()
    )
    with found.socket as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getpeername() == ("127.0.0.1", canary.port)


async def test_nothing_is_resolved_behind_the_check(canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a name was resolved")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
    found = await dialer(("127.0.0.1",)).dial(
        Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon()
    )
    found.writer.close()


async def test_a_destination_that_is_not_allowed_is_not_even_resolved() -> None:
    names = Names(("127.0.0.1",))
    decision = HostDecision(Verdict.DENY, "host.unknown", addresses=LOOPBACK)
    act = Dialer(names, lambda: NO_OWN_NETWORKS, CLOCK).dial(
        Destination("https", HOST, 443), decision, deadline=soon()
    )
    assert (await refused(act)).code == "internal"
    assert names.asked == []


# The check --------------------------------------------------------------------------------------


async def test_an_address_that_is_refused_is_not_dialled(canary: Canary) -> None:
    act = dialer(("127.0.0.1",)).dial(Destination("https", HOST, canary.port), allowed(), deadline=soon())
    error = await refused(act)
    assert (error.code, error.address, error.reason) == ("address.refused", "127.0.0.1", "loopback")
    assert str(error) == "api.example.com resolves to 127.0.0.1, which may not be dialled: loopback"
    assert error.hint == "to open it, add `addresses: [127.0.0.1/32]` to the entry of the host"
    assert canary.visits == []


@pytest.mark.parametrize(
    "others", [("127.0.0.2",), ("::1",), ("169.254.169.254",), ("10.0.0.7", "127.0.0.1")]
)
@pytest.mark.parametrize("turned", [False, True])
async def test_one_refused_address_refuses_them_all(
    others: tuple[str, ...], turned: bool, canary: Canary
) -> None:
    answer = ("127.0.0.1", *others)
    act = dialer(answer[::-1] if turned else answer).dial(
        Destination("https", HOST, canary.port), allowed("127.0.0.1/32"), deadline=soon()
    )
    assert (await refused(act)).code == "address.refused"
    assert canary.visits == []


@pytest.mark.parametrize(
    "text", ["127.1", "0x7f000001", "localhost", "fe80::1%lo", "127.0.0.1 ", "", "[::1]"]
)
async def test_an_answer_that_is_no_canonical_address_is_refused_and_not_quoted(
    text: str, canary: Canary
) -> None:
    act = dialer((text,)).dial(Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon())
    error = await refused(act)
    assert (error.code, error.address, error.reason) == ("address.refused", "", "malformed")
    assert "something that is no address" in str(error)
    assert canary.visits == []


async def test_an_address_of_this_machine_is_refused(canary: Canary) -> None:
    act = dialer(("93.184.216.5",), own=lambda: OwnNetworks(["93.184.216.5/32"])).dial(
        Destination("https", HOST, canary.port), allowed(), deadline=soon()
    )
    error = await refused(act)
    assert (error.code, error.reason) == ("address.refused", "own")


async def test_without_the_addresses_of_this_machine_nothing_is_dialled(canary: Canary) -> None:
    def fail() -> OwnNetworks:
        raise OSError("no")

    act = dialer(("127.0.0.1",), own=fail).dial(
        Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon()
    )
    assert (await refused(act)).code == "internal"
    assert canary.visits == []


async def test_an_address_that_was_asked_for_is_checked_and_not_resolved(canary: Canary) -> None:
    names = Names(("127.0.0.1",))
    act = Dialer(names, lambda: NO_OWN_NETWORKS, CLOCK)
    to = Destination("https", "127.0.0.1", canary.port)
    assert (await refused(act.dial(to, allowed("10.0.0.0/8"), deadline=soon()))).code == "address.refused"
    found = await act.dial(to, allowed("127.0.0.0/8"), deadline=soon())
    found.writer.close()
    assert names.asked == []


async def test_a_name_that_changes_its_mind_is_asked_once_for_each_dial(canary: Canary) -> None:
    """Rebinding: what was judged is what is dialled, however often it is tried."""
    names = Names(("127.0.0.2",), ("127.0.0.1",), ("127.0.0.2", "127.0.0.1"))
    act = Dialer(names, lambda: NO_OWN_NETWORKS, CLOCK)
    for number in range(1, 31):
        # On the opened address nobody listens; on the other one waits the canary.
        to = Destination("https", HOST, canary.port)
        error = await refused(act.dial(to, allowed("127.0.0.2/32"), deadline=soon()))
        assert error.code == ("upstream.unreachable" if number % 3 == 1 else "address.refused")
        assert len(names.asked) == number
    assert canary.visits == []


# No connection ----------------------------------------------------------------------------------


async def test_a_name_without_an_address_is_unresolved() -> None:
    class Nobody:
        async def resolve(self, host: str, owner: str = "") -> tuple[str, ...]:
            raise UnresolvedError("the name has no address")

    act = Dialer(Nobody(), lambda: NO_OWN_NETWORKS, CLOCK)
    to = Destination("https", HOST, 443)
    assert (await refused(act.dial(to, allowed(), deadline=soon()))).code == "upstream.unresolved"
    assert (await refused(dialer(()).dial(to, allowed(), deadline=soon()))).code == "upstream.unresolved"


async def test_a_port_that_nobody_listens_on_is_unreachable(canary: Canary) -> None:
    to = Destination("https", HOST, canary.port)
    act = dialer(("127.0.0.2", "127.0.0.3")).dial(to, allowed(*LOOPBACK), deadline=soon())
    assert (await refused(act)).code == "upstream.unreachable"


async def test_a_name_server_that_is_silent_runs_into_the_deadline() -> None:
    class Silent:
        async def resolve(self, host: str, owner: str = "") -> tuple[str, ...]:
            await asyncio.Event().wait()
            raise AssertionError

    act = Dialer(Silent(), lambda: NO_OWN_NETWORKS, CLOCK)
    to = Destination("https", HOST, 443)
    assert (await refused(act.dial(to, allowed(), deadline=soon(0.01)))).code == "upstream.timeout"
    assert (await refused(act.dial(to, allowed(), deadline=soon(-5)))).code == "upstream.timeout"


async def test_an_upstream_that_is_silent_runs_into_the_deadline(silent: tuple[str, int]) -> None:
    before = open_files()
    to = Destination("https", HOST, silent[1])
    act = dialer((silent[0],)).dial(to, allowed(*LOOPBACK), deadline=soon(0.1))
    assert (await refused(act)).code == "upstream.timeout"
    await settled(before)


async def test_giving_up_closes_what_was_begun(silent: tuple[str, int]) -> None:
    before = open_files()
    to = Destination("https", HOST, silent[1])
    task = asyncio.create_task(dialer((silent[0],)).dial(to, allowed(*LOOPBACK), deadline=soon()))
    while open_files() == before:  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settled(before)


# Several addresses ------------------------------------------------------------------------------


async def test_the_next_address_is_tried_when_one_refuses(canary: Canary) -> None:
    act = Dialer(Names(("127.0.0.2", "127.0.0.1")), lambda: NO_OWN_NETWORKS, CLOCK, stagger=1000)
    found = await act.dial(Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon())
    found.writer.close()
    assert found.address == "127.0.0.1"


async def test_the_next_address_is_tried_when_one_is_silent(silent: tuple[str, int]) -> None:
    before = open_files()
    canary = Canary()
    canary.port = silent[1]
    await canary.listen("127.0.0.1")
    found = await dialer((silent[0], "127.0.0.1")).connect(
        Destination("https", HOST, silent[1]), allowed(*LOOPBACK), deadline=soon()
    )
    found.socket.close()
    canary.close()
    assert found.address == "127.0.0.1"
    await settled(before)


async def test_a_first_address_that_answers_is_the_only_one_that_is_tried() -> None:
    canary = Canary()
    await canary.listen("127.0.0.1", "127.0.0.2")
    act = Dialer(Names(("127.0.0.2", "127.0.0.1")), lambda: NO_OWN_NETWORKS, CLOCK, stagger=1000)
    found = await act.dial(Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon())
    await found.reader.read()
    found.writer.close()
    canary.close()
    assert canary.visits == ["127.0.0.2"]


async def test_attempts_that_come_too_late_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both connect in the same moment: one is handed out, the other one closed."""
    canary = Canary()
    await canary.listen("127.0.0.1", "127.0.0.2")
    made: list[socket.socket] = []
    both = asyncio.Event()
    connect = dial._connect

    async def together(address: str, port: int) -> socket.socket:
        made.append(await connect(address, port))
        if len(made) == 2:
            both.set()
        await both.wait()
        return made[0 if ip_address(address).packed[-1] == 1 else 1]

    monkeypatch.setattr(dial, "_connect", together)
    found = await dialer(("127.0.0.1", "127.0.0.2")).connect(
        Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon()
    )
    await asyncio.sleep(0)
    assert [sock.fileno() == -1 for sock in made] == [sock is not found.socket for sock in made]
    found.socket.close()
    canary.close()


async def test_only_so_many_addresses_are_tried(canary: Canary) -> None:
    answer = tuple(f"127.0.1.{number}" for number in range(1, MAX_ADDRESSES_TRIED + 1))
    act = dialer((*answer, "127.0.0.1"))
    to = Destination("https", HOST, canary.port)
    error = await refused(act.dial(to, allowed(*LOOPBACK), deadline=soon()))
    assert error.code == "upstream.unreachable"
    assert canary.visits == []


async def test_addresses_behind_those_that_are_tried_are_judged_too(canary: Canary) -> None:
    answer = ("127.0.0.1", *(f"127.0.1.{number}" for number in range(1, 20)), "10.0.0.7")
    act = dialer(answer).dial(Destination("https", HOST, canary.port), allowed(*LOOPBACK), deadline=soon())
    assert (await refused(act)).code == "address.refused"


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ("", ""),
        ("4a 4b 6a 6b", "4a 6a 4b 6b"),
        ("6a 6b 6c 4a", "6a 4a 6b 6c"),
        ("6a 4a 4b 4c", "6a 4a 4b 4c"),
        ("4a 4a 4b", "4a 4b"),
    ],
)
def test_families_take_turns(answer: str, order: str) -> None:
    def addresses(text: str) -> list[str]:
        return [f"::{word[1]}" if word[0] == "6" else f"192.0.2.{ord(word[1])}" for word in text.split()]

    assert dial._alternate_families(addresses(answer)) == addresses(order)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def settled(files: int) -> None:
    """Wait until no more files are open than before; the test's own time limit ends it."""
    while open_files() > files:  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(0.001)
