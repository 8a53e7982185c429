"""Descriptors over a unix socket: what is taken, what is not, and that nothing is left open."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from egress.errors import UnreadableError, UsageError
from egress.proxy.ingress.listener import Listener, listen
from egress.proxy.ingress.listener_handover import HandoverServer, HandoverTarget
from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import IngressFixture, connect, until

Message = dict[str, object]


class Office:
    """Who takes what is handed over."""

    def __init__(self) -> None:
        self.adopted: list[Listener] = []
        self.released: list[str] = []
        self.refuses = False

    async def adopt(self, listener: Listener) -> None:
        if self.refuses:
            raise UsageError("There is one already.")
        self.adopted.append(listener)

    async def release(self, sandbox: str) -> None:
        self.released.append(sandbox)

    @property
    def adoption(self) -> HandoverTarget:
        return HandoverTarget({"box"}, self.adopt, self.release)


@pytest.fixture(name="office")
def an_office() -> Iterator[Office]:
    office = Office()
    yield office
    for listener in office.adopted:
        listener.sock.close()


@pytest.fixture(name="path")
async def an_open_socket(office: Office, tmp_path: Path) -> AsyncIterator[Path]:
    handover = HandoverServer(tmp_path / "doors", office.adoption)
    handover.open()
    yield tmp_path / "doors"
    await handover.close()


def offer(**changes: object) -> Message:
    return {"sandbox": "box", "kind": "transparent", "port": 443, "name": "box-443", **changes}


def spoken(path: Path, *messages: tuple[bytes, list[int]]) -> list[Message]:
    """The replies to messages on one conversation; it ends where the other side ends it."""
    replies: list[Message] = []
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(path))
        for data, descriptors in messages:
            with contextlib.suppress(OSError):
                socket.send_fds(sock, [data], descriptors)
                line = sock.makefile("rb").readline()
                if not line:
                    break
                replies.append(json.loads(line))
    return replies


async def say(path: Path, message: object, *descriptors: int) -> Message:
    """The reply to one message."""
    data = json.dumps(message).encode() + b"\n"
    [reply] = await asyncio.to_thread(spoken, path, (data, list(descriptors)))
    return reply


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_listening_socket_is_taken(path: Path, office: Office) -> None:
    with listen("127.0.0.1", 0) as sock:
        assert await say(path, offer(), sock.fileno()) == {"ok": True, "error": ""}
        [listener] = office.adopted
        assert (listener.name, listener.kind, listener.sandbox) == ("box-443", "transparent", "box")
        assert (listener.port, listener.authentication) == (443, "network")
        assert listener.sock.getsockname() == sock.getsockname()
        assert not listener.sock.get_inheritable()


async def test_what_is_taken_serves_visitors(tmp_path: Path) -> None:
    step = IngressFixture()
    door = step.door
    handover = HandoverServer(tmp_path / "doors", HandoverTarget({"box"}, door.open, door.close_sandbox))
    handover.open()
    with listen("127.0.0.1", 0) as sock:
        address = sock.getsockname()
        message = offer(kind="proxy", port=3128)
        assert (await say(tmp_path / "doors", message, sock.fileno()))["ok"]
    reader, writer = await asyncio.open_connection(*address)
    writer.write(connect("api.example.com:443") + real("api.example.com"))
    assert (await reader.read()).endswith(b"carried by full")
    writer.close()
    assert (await say(tmp_path / "doors", {"close": "box"}))["ok"]
    with pytest.raises(OSError, match=r"refused|failed"):
        await asyncio.open_connection(*address)
    await handover.close()
    await door.close()
    step.close()


async def test_a_bound_udp_socket_is_taken_for_dns(path: Path, office: Office) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, listen("127.0.0.1", 0) as tcp:
        sock.bind(("127.0.0.1", 0))
        assert (await say(path, offer(kind="dns-udp", port=53), sock.fileno()))["ok"]
        assert (await say(path, offer(kind="dns-tcp", port=53), tcp.fileno()))["ok"]
        assert not (await say(path, offer(kind="dns-udp", port=53), tcp.fileno()))["ok"]
        assert not (await say(path, offer(kind="dns-tcp", port=53), sock.fileno()))["ok"]
    assert [listener.kind for listener in office.adopted] == ["dns-udp", "dns-tcp"]


async def test_a_sandbox_can_be_taken_away(path: Path, office: Office) -> None:
    assert await say(path, {"close": "box"}) == {"ok": True, "error": ""}
    assert office.released == ["box"]


@pytest.mark.parametrize(
    "message",
    [
        offer(sandbox="other"), offer(sandbox=""), offer(sandbox=7), offer(sandbox=None),
        offer(sandbox=["box"]),
        offer(kind="telnet"), offer(kind=None), offer(kind=["proxy"]), offer(port=0), offer(port=65536),
        offer(port="443"), offer(port=True), offer(port=-1), offer(port=4.5), offer(name=""),
        offer(name=None),
        offer(more=1), {"sandbox": "box"}, {}, [], "box", None, 7, {"close": "box"}, {"close": 7},
        {**offer(), "close": "box"},
    ],
)  # fmt: skip
async def test_a_wrong_message_is_refused_and_its_descriptor_closed(
    path: Path, office: Office, message: object
) -> None:
    with listen("127.0.0.1", 0) as sock:
        before = open_descriptors()
        reply = await say(path, message, sock.fileno())
        assert reply["ok"] is False
        assert reply["error"]
        assert (office.adopted, office.released) == ([], [])
        await until(lambda: open_descriptors() <= before)


def sockets_of_no_use() -> list[socket.socket]:
    connected, other = socket.socketpair()
    unbound_udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound_only = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound_only.bind(("127.0.0.1", 0))
    found = [connected, other, unbound_udp, bound_only]
    with contextlib.suppress(OSError):
        multipath = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
        multipath.bind(("127.0.0.1", 0))
        multipath.listen()
        found.append(multipath)
    return found


async def test_a_socket_that_does_not_listen_on_the_internet_is_refused(path: Path, office: Office) -> None:
    for sock in sockets_of_no_use():
        with sock:
            for kind in ("proxy", "transparent", "dns-udp", "dns-tcp"):
                assert not (await say(path, offer(kind=kind), sock.fileno()))["ok"]
    assert office.adopted == []


async def test_a_descriptor_that_is_no_socket_is_refused(path: Path, office: Office, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        assert not (await say(path, offer(), file.fileno()))["ok"]
    assert office.adopted == []


async def test_exactly_one_descriptor_is_taken(path: Path, office: Office) -> None:
    with listen("127.0.0.1", 0) as one, listen("127.0.0.1", 0) as two:
        before = open_descriptors()
        assert not (await say(path, offer()))["ok"]
        data = json.dumps(offer()).encode() + b"\n"
        for several in ([one.fileno(), two.fileno()], [one.fileno()] * 20):
            assert await asyncio.to_thread(spoken, path, (data, several)) == []
        assert office.adopted == []
        await until(lambda: open_descriptors() <= before)


async def test_a_refusal_by_the_taker_closes_the_socket(path: Path, office: Office) -> None:
    office.refuses = True
    with listen("127.0.0.1", 0) as sock:
        before = open_descriptors()
        reply = await say(path, offer(), sock.fileno())
        assert reply == {"ok": False, "error": "There is one already."}
        await until(lambda: open_descriptors() <= before)


@pytest.mark.parametrize(
    "data", [b"{}{}\n", b"\xff\n", b"[" * 3000 + b"\n", b"{" + b" " * 5000 + b"}\n", b"x" * 9000]
)
async def test_what_is_no_message_is_refused(path: Path, office: Office, data: bytes) -> None:
    replies = await asyncio.to_thread(spoken, path, (data, []))
    assert all(reply["ok"] is False for reply in replies)
    assert office.adopted == []
    assert (await say(path, {"close": "box"}))["ok"]


async def test_a_conversation_may_have_several_messages(path: Path, office: Office) -> None:
    with listen("127.0.0.1", 0) as sock:
        line = json.dumps(offer()).encode() + b"\n"
        replies = await asyncio.to_thread(
            spoken, path, (line, [sock.fileno()]), (b"{}\n", []), (line, [sock.fileno()])
        )
    assert [reply["ok"] for reply in replies] == [True, False, True]


async def test_only_our_own_user_may_hand_over(office: Office, tmp_path: Path) -> None:
    handover = HandoverServer(tmp_path / "doors", office.adoption, users=(os.geteuid() + 1,))
    handover.open()
    data = b'{"close": "box"}\n'
    assert await asyncio.to_thread(spoken, tmp_path / "doors", (data, [])) == []
    assert office.released == []
    await handover.close()


async def test_the_socket_is_closed_to_others_and_goes_with_its_owner(office: Office, tmp_path: Path) -> None:
    path = tmp_path / "doors"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    handover = HandoverServer(path, office.adoption)
    handover.open()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await handover.close()
    assert not path.exists()


async def test_something_else_in_its_place_is_left_alone(office: Office, tmp_path: Path) -> None:
    (tmp_path / "doors").write_text("mine")
    with pytest.raises(UnreadableError, match="cannot be made"):
        HandoverServer(tmp_path / "doors", office.adoption).open()
    assert (tmp_path / "doors").read_text() == "mine"
